"""Templates of others as SAM's: serverless.yml, and what `cdk synth` writes. Pure, but for `${file(...)}`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..support.platform_facts import language
from ..support.untrusted_text import mapping

SERVERLESS = "AWS::Serverless::Function"
BUNDLED = Path(".esbuild/.build")
"""Where serverless-esbuild leaves what it has bundled."""
BUNDLERS = re.compile(r"esbuild|typescript|bundle|webpack")
"""In the name of a plugin that builds what runs."""
MOST_VARIABLES = 20
"""Deepest variable in a variable that is looked up."""
SERVERLESS_MIB, SERVERLESS_S = 1024, 6
"""What the Serverless Framework sets where the file says nothing (serverless.com/framework/docs)."""
UNKNOWN = {"Fn::OnlyAStackKnows": ""}
"""Stands for a value that only a deployment knows."""

_VARIABLE = re.compile(r"\$\{([^${}]*)\}")
_FILE = re.compile(r"file\(([^)]+)\)(?::([\w.-]+))?")


def as_sam(template: Any, folder: Path) -> Any:
    """The template, or what SAM's would say for a file of the Serverless Framework or of the CDK, in this folder.
    Raises BadInput for a file that it names and that cannot be read."""
    if not isinstance(template, Mapping):
        return template
    if "functions" in template and "provider" in template:
        return _Service(template, folder).template()
    resources = template.get("Resources")
    if not isinstance(resources, Mapping) or any(
        mapping(each).get("Type") == SERVERLESS for each in resources.values()
    ):
        return template
    made = {name: found for name, each in resources.items() if (found := _of_cdk(mapping(each)))}
    return {**template, "Resources": {**resources, **made}} if made else template


def _of_cdk(resource: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """A function whose code is in a folder beside the template."""
    asset = mapping(resource.get("Metadata")).get("aws:asset:path")
    if resource.get("Type") != "AWS::Lambda::Function" or not isinstance(asset, str):
        return None
    return {"Type": SERVERLESS, "Properties": {**mapping(resource.get("Properties")), "CodeUri": asset}}


class _Service:
    """A file of the Serverless Framework."""

    def __init__(self, document: Mapping[str, Any], folder: Path) -> None:
        self._document, self._folder = document, folder

    def template(self) -> Mapping[str, Any]:
        provider = mapping(self._known(self._document.get("provider")))
        given = self._known(self._document["functions"])
        functions: dict[str, Any] = {}
        for each in given if isinstance(given, list) else [given]:
            functions |= mapping(each)
        plugins = self._known(self._document.get("plugins"))
        names = mapping(plugins).get("modules") if isinstance(plugins, Mapping) else plugins
        is_bundled = any(BUNDLERS.search(str(each)) for each in (names if isinstance(names, list) else []))
        made = {name: self._function(mapping(each), provider, is_bundled) for name, each in functions.items()}
        return {"Resources": {name: {"Type": SERVERLESS, "Properties": each} for name, each in made.items()}}

    def _function(self, own: Mapping[str, Any], provider: Mapping[str, Any], is_bundled: bool) -> Mapping[str, Any]:
        def said(name: str, usual: Any) -> Any:
            return own.get(name, provider.get(name, usual))

        runtime, handler = said("runtime", "nodejs20.x"), own.get("handler")
        of = language(runtime) if isinstance(runtime, str) else None
        artifact = mapping(own.get("package")).get("artifact") or mapping(self._document.get("package")).get("artifact")
        code = str(BUNDLED) if is_bundled and of == "nodejs" else "."
        if of == "java" and isinstance(artifact, str):
            code = artifact
        elif of == "python" and isinstance(handler, str):
            handler = handler.replace("/", ".")
        elif of not in ("nodejs", "python", "java") and isinstance(handler, str) and "/" in handler:
            code = handler.rpartition("/")[0]  # bin/bootstrap
        variables = {**mapping(provider.get("environment")), **mapping(own.get("environment"))}
        return {
            "Runtime": runtime,
            "Handler": handler,
            "CodeUri": code,
            "MemorySize": said("memorySize", SERVERLESS_MIB),
            "Timeout": said("timeout", SERVERLESS_S),
            "Environment": {"Variables": variables},
            "Events": _events(own),
        }

    def _known(self, value: Any, depth: int = 0) -> Any:
        """The value with its variables looked up; UNKNOWN for what only a deployment knows."""
        if depth > MOST_VARIABLES:
            return UNKNOWN
        if isinstance(value, Mapping):
            return {name: self._known(each, depth) for name, each in value.items()}
        if isinstance(value, list):
            return [self._known(each, depth) for each in value]
        while isinstance(value, str) and (found := _VARIABLE.search(value)):
            known = self._variable(found[1], depth + 1)
            if found[0] == value:
                return known
            if isinstance(known, Mapping | list) or known is None:
                return UNKNOWN
            value = value.replace(found[0], str(known))
            depth += 1
            if depth > MOST_VARIABLES:
                return UNKNOWN
        return value

    def _variable(self, text: str, depth: int) -> Any:
        name, _, usual = (each.strip() for each in text.partition(","))
        found: Any = UNKNOWN
        if name in ("sls:stage", "opt:stage"):
            stage = mapping(self._document.get("provider")).get("stage", "dev")
            found = stage if isinstance(stage, str) and "opt:stage" not in stage else "dev"
        elif name.startswith("self:"):
            found = self._at(self._document, name.removeprefix("self:"))
        elif of_file := _FILE.fullmatch(name):
            path = self._folder / of_file[1].strip()
            if path.suffix not in (".yml", ".yaml", ".json") or not path.is_file():
                return UNKNOWN  # secrets.json is in no repository
            from .cloudformation_yaml import load_template  # PyYAML: for a template alone

            found = self._at(load_template(path), of_file[2] or "")
        if found is UNKNOWN and usual:
            return self._known(f"${{{usual}}}" if ":" in usual and "'" not in usual else usual.strip("'\""), depth)
        return self._known(found, depth)

    @staticmethod
    def _at(document: Any, place: str) -> Any:
        for name in filter(None, place.split(".")):
            if not isinstance(document, Mapping) or name not in document:
                return UNKNOWN
            document = document[name]
        return document


_KINDS = {
    "http": "Api", "httpApi": "HttpApi", "sqs": "SQS", "sns": "SNS", "s3": "S3", "schedule": "Schedule",
    "eventBridge": "EventBridgeRule", "cloudwatchEvent": "CloudWatchEvent", "alb": "ALB",
}  # fmt: skip
"""Events of the Serverless Framework, as SAM names them."""


def _events(own: Mapping[str, Any]) -> Mapping[str, Any]:
    """The events of a function as SAM has them."""
    made: dict[str, Any] = {}
    given = own.get("events")
    for number, event in enumerate(given if isinstance(given, list) else []):
        for name, said in ({event: {}} if isinstance(event, str) else mapping(event)).items():
            members = mapping(said)
            if name == "stream":
                text = said if isinstance(said, str) else str(members.get("type", members.get("arn", "")))
                made[str(number)] = {"Type": "Kinesis" if "kinesis" in text.lower() else "DynamoDB"}
                continue
            if name in ("http", "httpApi") and isinstance(said, str):
                words = said.split()
                members = {"Method": words[0], "Path": words[1]} if len(words) == 2 else {"Method": "any", "Path": "/"}
            path = members.get("path", members.get("Path", "/"))
            properties = {
                "Path": f"/{path.lstrip('/')}" if isinstance(path, str) else "/",
                "Method": members.get("method", members.get("Method", "get")),
                "Pattern": members.get("pattern", members.get("event", {})),
            }
            if name in _KINDS:
                made[str(number)] = {"Type": _KINDS[name], "Properties": properties}
    if own.get("url"):
        made["url"] = {"Type": "FunctionUrl"}
    return made
