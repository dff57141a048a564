"""CloudFormation's intrinsic functions, those that template.yaml uses: what a property is worth, given parameters."""

import re
from collections.abc import Mapping
from typing import Any

from deploy.application import Template

NO_VALUE = object()
PSEUDO = {
    "AWS::Region": "eu-central-1",
    "AWS::AccountId": "123456789012",
    "AWS::Partition": "aws",
    "AWS::StackName": "truth",
    "AWS::NoValue": NO_VALUE,
}


class Resolver:
    """Of one template with its parameters. Raises KeyError for a name, or an intrinsic, that is not there."""

    def __init__(self, template: Template, parameters: Mapping[str, str], ids: Mapping[str, str]) -> None:
        """`ids`: physical ids by logical id; a resource that has none is worth its logical id."""
        self._template = template
        defaults = {name: each["Default"] for name, each in template["Parameters"].items() if "Default" in each}
        self._parameters = {**defaults, **parameters}
        self._ids = ids

    def resources(self, kind: str) -> dict[str, dict[str, Any]]:
        """Properties by logical id of all resources of a type whose condition holds."""
        return {
            name: self(each.get("Properties", {}))
            for name, each in self._template["Resources"].items()
            if each["Type"] == kind and self.holds(each.get("Condition"))
        }

    def holds(self, condition: str | None) -> bool:
        """Is a condition, by its name, true? None always is."""
        return condition is None or bool(self(self._template["Conditions"][condition]))

    def __call__(self, value: Any) -> Any:
        if isinstance(value, list):
            return [each for each in map(self, value) if each is not NO_VALUE]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            ((name, argument),) = value.items()
            if name in ("Ref", "Condition") and isinstance(argument, str):
                return self._ref(argument) if name == "Ref" else self.holds(argument)
            if name.startswith("Fn::"):
                return getattr(self, f"_{name[4:].lower()}")(argument)
        resolved = {key: self(each) for key, each in value.items()}
        return {key: each for key, each in resolved.items() if each is not NO_VALUE}

    def _ref(self, name: str) -> Any:
        for known in (PSEUDO, self._parameters, self._ids):
            if name in known:
                return known[name]
        self._template["Resources"][name]
        return name

    def _getatt(self, argument: list[str] | str) -> str:
        name, attribute = argument if isinstance(argument, list) else argument.split(".")
        assert attribute == "Arn"
        return f"arn:of:{self._ref(name)}"

    def _sub(self, text: str) -> str:
        def one(found: re.Match[str]) -> str:
            return str(self._getatt(found[1]) if "." in found[1] else self._ref(found[1]))

        return re.sub(r"\$\{([\w:.]+)\}", one, text)

    def _if(self, argument: list[Any]) -> Any:
        condition, then, otherwise = argument
        return self(then if self.holds(condition) else otherwise)

    def _equals(self, argument: list[Any]) -> bool:
        left, right = map(self, argument)
        return bool(left == right)

    def _not(self, argument: list[Any]) -> bool:
        return not self(argument[0])
