"""Whatever happens, nothing of the probe stays in the account; and what could not be removed is named."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.probe import deployment, functions

from tests.probe.account import Account, Answer
from tests.report.conftest import Command

DENIED = ("AccessDeniedException", "User is not authorized")
FUNCTIONS = len(functions.ALL)
EACH_STEP = [
    "Action=CreateRole",
    "Action=PutRolePolicy",
    "CreateLogGroup",
    "layers/.*-extension/versions",
    "layers/.*-wrapper/versions",
    "layers/.*-x86_64/versions",
    "layers/.*-arm64/versions",
    "POST /2015-03-31/functions .*x86_64-measure",
    "POST /2015-03-31/functions .*arm64-dotnet8",
]


def test_all_is_made_under_one_name_and_removed(account: Account, truemem: Command) -> None:
    made: set[str] = set()

    def look(name: str, event: dict[str, Any]) -> Answer:
        if not made:
            made.update(account.present())
        return Answer({})

    account.run = look
    done = truemem("probe")
    assert done.code == 0, done.err
    assert len(made) == 2 * FUNCTIONS + 4 + 2  # functions, layers, role, log group
    (run,) = {re.match(r"/?(truemem-probe-[0-9a-f]{8})", name)[1] for name in made}  # type: ignore[index]
    assert f"removing {len(made)} things named {run}" in done.err
    assert account.present() == set()
    assert len(set(account.invoked)) == 2 * FUNCTIONS


def test_a_function_has_the_layers_of_its_architecture_and_the_settings_of_its_question(
    account: Account, truemem: Command
) -> None:
    found: dict[str, Any] = {}

    def look(name: str, event: dict[str, Any]) -> Answer:
        found[name[len("truemem-probe-12345678-") :]] = account.client("lambda").get_function_configuration(
            FunctionName=name
        )
        return Answer({})

    account.run = look
    truemem("probe", "--architecture", "arm64", "--memory", "1769")
    assert set(found) == {f"arm64-{function.name}" for function in functions.ALL}
    for function in functions.ALL:
        made = found[f"arm64-{function.name}"]
        assert (made["Runtime"], made["Handler"]) == (function.runtime, function.handler)
        assert (made["Architectures"], made["MemorySize"]) == (["arm64"], 1769)
        layers = [layer["Arn"].split(":")[6].split("-")[-1] for layer in made["Layers"]]
        assert layers == ["arm64", function.layer]
        assert made.get("Environment", {}).get("Variables", {}) == function.variables


@pytest.mark.parametrize("step", EACH_STEP)
def test_a_refusal_at_any_step_is_one_line_and_nothing_stays(step: str, account: Account, truemem: Command) -> None:
    account.refusals[step] = DENIED
    done = truemem("probe", *([] if "arm64" in step else ["--architecture", "x86_64"]))
    assert (done.code, done.out) == (2, "")
    last = done.err.splitlines()[-1]
    assert re.match(r"truemem probe: probe truemem-probe-\w+ in us-east-1: access denied\. The caller needs iam:", last)
    assert account.present() == set()


def test_functions_that_cannot_be_asked_are_outcomes_and_nothing_stays(account: Account, truemem: Command) -> None:
    account.refusals["(measure|filter|java21)/invocations"] = ("InvalidParameterValueException", "no")
    account.refusals["FilterLogEvents"] = DENIED
    done = truemem("probe", "--architecture", "x86_64")
    assert done.code == 0, done.err
    (result,) = done.document["results"]
    for question in ("environment", "mark", "log filter", "exec wrapper java21"):
        assert "InvalidParameterValueException" in result["outcomes"][question]["error"]
    assert account.present() == set()


def test_a_runtime_that_lambda_no_longer_has_is_an_outcome(account: Account, truemem: Command) -> None:
    why = (
        "The runtime parameter of dotnet8 is no longer supported for creating: arn:aws:lambda:eu-west-1:123456789012:x"
    )
    account.refusals["POST /2015-03-31/functions .*-dotnet8"] = ("InvalidParameterValueException", why)
    done = truemem("probe", "--architecture", "arm64")
    assert done.code == 0, done.err
    (result,) = done.document["results"]
    refused = result["outcomes"]["exec wrapper dotnet8"]
    assert refused["ok"] is False
    assert refused["error"].endswith("The runtime parameter of dotnet8 is no longer supported for creating: ARN")
    assert account.present() == set()


def test_a_role_that_lambda_does_not_know_yet_is_waited_for(
    account: Account, truemem: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            account.refusals.clear()

    monkeypatch.setattr("truemem_workbench.probe.deployment.time.sleep", pause)
    account.refusals["POST /2015-03-31/functions "] = (
        "InvalidParameterValueException",
        "The role defined for the function cannot be assumed by Lambda.",
    )
    done = truemem("probe", "--architecture", "x86_64")
    assert done.code == 0, done.err
    assert len(pauses) >= 2
    assert len(set(account.invoked)) == FUNCTIONS


@pytest.mark.parametrize(
    ("refused", "named", "command"),
    [
        ("DELETE /.*/functions/.*filter", "function NAME-x86_64-filter", "lambda delete-function --function-name"),
        (
            "DELETE /.*wrapper/versions",
            "layer NAME-wrapper",
            "lambda delete-layer-version --version-number 1 --layer-name",
        ),
        ("DeleteLogGroup", "log group /NAME", "logs delete-log-group --log-group-name"),
        ("Action=DeleteRole&", "role NAME", "iam delete-role-policy --role-name"),
    ],
)
def test_what_cannot_be_removed_is_named_with_the_command_for_it(
    refused: str, named: str, command: str, account: Account, truemem: Command
) -> None:
    account.refusals[refused] = DENIED
    done = truemem("probe", "--architecture", "x86_64")
    assert done.code == 1
    assert done.document["schema"] == 1  # the answers are not lost
    (said,) = [line for line in done.err.splitlines() if "NOT removed" in line]
    (left,) = account.present()
    assert named.replace("NAME", re.findall(r"truemem-probe-[0-9a-f]{8}", left)[0]) in said
    assert f"Try aws {command} {left}" in said
    assert said.endswith("--region us-east-1" if "role" not in named else left)

    account.refusals.clear()
    again = truemem("probe", "--remove", re.findall(r"truemem-probe-[0-9a-f]{8}", left)[0])
    assert again.code == 0, again.err
    assert account.present() == set()


def test_what_was_not_made_is_not_said_to_be_left(account: Account, truemem: Command) -> None:
    account.refusals["Action="] = ("AccessDenied", "User is not authorized")
    done = truemem("probe")
    assert done.code == 2
    assert "removing 0 things" in done.err
    assert "NOT removed" not in done.err


@pytest.mark.parametrize("name", ["my-function", "truemem-probe-", "truemem-probe-0123abcd-x86_64-measure"])
def test_only_what_a_run_made_is_removed_by_name(name: str, account: Account, truemem: Command) -> None:
    assert (
        "it is no run of the probe. Try a name such as truemem-probe-0123abcd"
        in truemem("probe", "--remove", name).refusal
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_after_ctrl_c_nothing_stays(number: signal.Signals, account: Account, tmp_path: Path) -> None:
    asked, end = threading.Event(), threading.Event()

    def hang(name: str, event: dict[str, Any]) -> Answer:
        asked.set()
        end.wait(60)
        return Answer({})

    account.run = hang
    try:
        ended(number, asked, tmp_path)
    finally:
        end.set()
    assert account.present() == set()


@pytest.mark.parametrize("step", ["Action=CreateRole", "layers/.*-arm64/versions", "POST /.*/functions .*arm64-filter"])
def test_what_is_being_made_at_ctrl_c_does_not_stay_either(step: str, account: Account, tmp_path: Path) -> None:
    account.slow = step
    ended(signal.SIGINT, account.taken, tmp_path)
    assert account.present() == set()


def ended(number: signal.Signals, when: threading.Event, layers: Path) -> None:
    """Run the command as a process, and end it with this signal when the event is set."""
    # The installed package would look for layers elsewhere: the fixture's patch is not in that process.
    code = (
        "import pathlib, truemem_workbench.aws.layer_zips as zips; "
        f"zips.WHEEL = pathlib.Path({str(layers)!r}); "
        "from truemem_workbench.cli.__main__ import main; main()"
    )
    command = subprocess.Popen([sys.executable, "-c", code, "probe"], env=os.environ, stderr=subprocess.PIPE, text=True)
    try:
        assert when.wait(60)
        command.send_signal(number)
        _, said = command.communicate(timeout=30)
    finally:
        command.kill()
    assert command.returncode == 128 + number
    assert "removing " in said
    assert "NOT removed" not in said


def test_a_removal_that_takes_too_long_after_ctrl_c_is_named(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployment, "HASTY_S", 0)
    said: list[str] = []
    with pytest.raises(KeyboardInterrupt), deployment.Deployment([], 512, said.append) as made:
        raise KeyboardInterrupt
    assert made.left
    assert all(any(removal.command in line for line in said) for removal in made.left)
