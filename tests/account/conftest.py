"""`truemem attach` and its neighbours against moto's server, which gets the guards of Lambda that it lacks."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import boto3
import pytest
from moto.awslambda.exceptions import LambdaClientError, PreconditionFailedException
from moto.awslambda.models import LambdaFunction
from truemem_workbench.attach import records_file

from tests.report.conftest import aws, aws_endpoint, truemem
from tests.template.stack import EMPTY_ZIP

__all__ = ["aws", "aws_endpoint", "truemem"]

TRUST = '{"Version": "2012-10-17", "Statement": []}'


class Held(NamedTuple):
    """What attaching may change of a function."""

    layers: list[str]
    variables: dict[str, str]


class Account:
    """An account with functions, and what went on in it."""

    def __init__(self, client: Callable[[str], Any]) -> None:
        self.client = client
        self.lambdas = client("lambda")
        self.updates: list[str] = []
        """Names of the functions, one for each update that Lambda took."""
        self.before_update: Callable[[Any], None] = lambda function: None
        """Called with moto's function before an update; what it raises is Lambda's answer."""
        self.said: dict[str, dict[str, Any]] = {}
        """Further members of the answer about a function."""
        self.revisions: Counter[str] = Counter()
        """How often each function was changed."""
        self._role: str | None = None

    def function(self, name: str, **settings: Any) -> str:
        """Make a function and return its name."""
        if self._role is None:
            role = self.client("iam").create_role(RoleName="role", AssumeRolePolicyDocument=TRUST)
            self._role = role["Role"]["Arn"]
        variables = settings.pop("variables", {})
        given = {"Runtime": "python3.13", "Handler": "app.handler", "Code": {"ZipFile": EMPTY_ZIP}, **settings}
        self.lambdas.create_function(FunctionName=name, Role=self._role, Environment={"Variables": variables}, **given)
        return name

    def layer(self, name: str) -> str:
        """ARN of a layer version of another vendor."""
        made = self.lambdas.publish_layer_version(LayerName=name, Content={"ZipFile": EMPTY_ZIP})
        arn: str = made["LayerVersionArn"]
        return arn

    def held(self, name: str) -> Held:
        found = self.lambdas.get_function_configuration(FunctionName=name)
        layers = [layer["Arn"] for layer in found.get("Layers", ())]
        return Held(layers, found.get("Environment", {}).get("Variables", {}))

    def our_layers(self) -> list[str]:
        """Names of the layers that were published, one for each version."""
        names = ("truemem-x86_64", "truemem-arm64")
        pages = [self.lambdas.list_layer_versions(LayerName=name)["LayerVersions"] for name in names]
        return [version["LayerVersionArn"].split(":layer:")[1] for page in pages for version in page]


def denied(action: str) -> LambdaClientError:
    return LambdaClientError("AccessDeniedException", f"User is not authorized to perform: {action}")


@pytest.fixture
def account(aws: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Account]:
    """Empty. Its Lambda has revisions: an update that names another than the present one is refused."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("truemem_workbench.attach.lambda_calls.CALLS_PER_S", 10_000)
    made = Account(aws)
    answer, update = LambdaFunction.get_configuration, LambdaFunction.update_configuration

    def get_configuration(self: Any, on_create: bool = False) -> dict[str, Any]:
        name = self.function_name
        return {**answer(self, on_create), "RevisionId": str(made.revisions[name]), **made.said.get(name, {})}

    def update_configuration(self: Any, config_updates: dict[str, Any]) -> dict[str, Any]:
        made.before_update(self)
        present = str(made.revisions[self.function_name])
        if config_updates.get("RevisionId", present) != present:
            raise PreconditionFailedException("The Revision Id provided does not match the latest Revision Id")
        made.revisions[self.function_name] += 1
        made.updates.append(self.function_name)
        return update(self, config_updates)

    monkeypatch.setattr(LambdaFunction, "get_configuration", get_configuration)
    monkeypatch.setattr(LambdaFunction, "update_configuration", update_configuration)
    yield made
    boto3.DEFAULT_SESSION = None


@pytest.fixture
def records(account: Account) -> records_file.RecordsFile:
    """The file that the commands use by default."""
    return records_file.RecordsFile(records_file.default_path())
