"""Whatever happens, nothing of the probe stays in the account; and what could not be removed is named."""

import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from research.probe import deployment, functions
from tests.probe.account import Account, Answer
from tests.report.conftest import Command

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[2]
DENIED = ("AccessDeniedException", "User is not authorized")
FUNCTIONS = len(functions.ALWAYS)
EACH_STEP = [
    "Action=CreateRole",
    "layers/.*-arm64/versions",
    "POST /2015-03-31/functions .*arm64-dotnet8",
]


def test_all_is_made_under_one_name_and_removed(account: Account, probe: Command) -> None:
    made: set[str] = set()

    def look(name: str, event: dict[str, Any]) -> Answer:
        if not made:
            made.update(account.present())
        return Answer({})

    account.run = look
    done = probe()
    assert done.code == 0, done.err
    assert len(made) == 2 * FUNCTIONS + 4 + 2  # functions, layers, role, log group
    (run,) = {re.match(r"/?(truemem-probe-[0-9a-f]{8})", name)[1] for name in made}  # type: ignore[index]
    assert f"removing {len(made)} things named {run}" in done.err
    assert account.present() == set()
    assert len(set(account.invoked)) == 2 * FUNCTIONS


@pytest.mark.parametrize("step", EACH_STEP)
def test_a_refusal_at_any_step_is_one_line_and_nothing_stays(step: str, account: Account, probe: Command) -> None:
    account.refusals[step] = DENIED
    done = probe(*([] if "arm64" in step else ["--architecture", "x86_64"]))
    assert (done.code, done.out) == (2, "")
    last = done.err.splitlines()[-1]
    assert re.match(
        r"python -m research.probe: probe truemem-probe-\w+ in us-east-1: access denied\. The caller needs iam:", last
    )
    assert account.present() == set()


def test_functions_that_cannot_be_asked_are_outcomes(account: Account, probe: Command) -> None:
    account.refusals["(measure|filter|java21)/invocations"] = ("InvalidParameterValueException", "no")
    account.refusals["FilterLogEvents"] = DENIED
    done = probe("--architecture", "x86_64")
    assert done.code == 0, done.err
    result, _ = done.document["results"]
    for question in ("environment", "mark", "log filter", "exec wrapper java21"):
        assert "InvalidParameterValueException" in result["outcomes"][question]["error"]
    assert account.present() == set()


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
    refused: str, named: str, command: str, account: Account, probe: Command
) -> None:
    account.refusals[refused] = DENIED
    done = probe("--architecture", "x86_64")
    assert done.code == 1
    assert done.document["schema"] == 1  # the answers are not lost
    (said,) = [line for line in done.err.splitlines() if "NOT removed" in line]
    (left,) = account.present()
    assert named.replace("NAME", re.findall(r"truemem-probe-[0-9a-f]{8}", left)[0]) in said
    assert f"Try aws {command} {left}" in said
    assert said.endswith("--region us-east-1" if "role" not in named else left)

    account.refusals.clear()
    again = probe("--remove", re.findall(r"truemem-probe-[0-9a-f]{8}", left)[0])
    assert again.code == 0, again.err
    assert account.present() == set()


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


@pytest.mark.parametrize("step", ["Action=CreateRole", "POST /.*/functions .*arm64-filter"])
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
        "import runpy; runpy.run_module('research.probe', run_name='__main__')"
    )
    command = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stderr=subprocess.PIPE, text=True)
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
