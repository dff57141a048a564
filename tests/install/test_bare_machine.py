"""README's commands for an account, as they are typed: from a bare machine, by the wheel alone, in a terminal."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from moto.awslambda.models import LambdaFunction

from tests.account.conftest import Account
from tests.install.conftest import ROOT, Installed, in_a_terminal
from tests.report.conftest import put_events
from tests.report.written import line_now

NAME = "my-function"
VARIABLES = {"TABLE": "orders", "AWS_LAMBDA_EXEC_WRAPPER": "/opt/vendor"}


def typed() -> list[list[str]]:
    """README's commands, word by word."""
    (block,) = re.findall(r"^```bash account\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    return [command.replace("NAME", NAME).split() for command in block.splitlines()]


@pytest.mark.filterwarnings("ignore:Tried to parse", "ignore:Unable to delete")
def test_the_commands_of_the_readme_work_as_typed(
    account: Account, bare: Installed, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account.function(NAME, Layers=[vendor := account.layer("vendor")], variables=VARIABLES)
    before = account.held(NAME)
    invocations: list[str] = []

    def invoke(self: Any, body: str, *_: Any) -> str:
        """Print as the sidecar does: a line about an invocation when the next one begins."""
        invocations.append(body)
        at = int(time.time() * 1000)
        if len(invocations) == 2:
            put_events(account.client("logs"), f"/aws/lambda/{NAME}", "a", [(at, line_now("a", 1, mode="exact"))])
        return "{}"

    monkeypatch.setattr(LambdaFunction, "invoke", invoke)
    monkeypatch.setenv("HOME", str(tmp_path))
    install, *commands = typed()
    assert install == ["pip", "install", f"dist/{wheel.name}"]
    said = {}
    for program, *arguments in commands:
        assert program == "truemem"
        code, said[arguments[0]] = in_a_terminal([bare.bin / program, *arguments], tmp_path, typed="y\n")
        assert code == 0, said[arguments[0]]
        if arguments[0] == "attach":
            assert account.held(NAME).layers == [vendor, "arn:aws:lambda:us-east-1:123456789012:layer:truemem-x86_64:1"]
            assert account.held(NAME).variables["AWS_LAMBDA_EXEC_WRAPPER"] == "/opt/truemem/exact"
    assert [*said] == ["attach", "doctor", "dashboard", "detach"]
    assert "First peak" in said["doctor"]
    assert "#dashboards/dashboard/truemem-dashboard-us-east-1" in said["dashboard"]
    (stack,) = account.client("cloudformation").describe_stacks()["Stacks"]
    assert stack["StackName"] == "truemem-dashboard"
    assert account.held(NAME) == before
    assert json.loads((tmp_path / "state" / "truemem" / "attached.json").read_text())["functions"] == {}
