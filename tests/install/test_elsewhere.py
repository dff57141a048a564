"""macOS and Windows, as far as Linux can play them: what needs no Linux works, the rest says what to do."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.account.conftest import Account, account
from tests.attach.captured import stored
from tests.report.conftest import aws, aws_endpoint

__all__ = ["account", "aws", "aws_endpoint"]

SYSTEMS = ("darwin", "win32")
PLAYED = Path(__file__).with_name("elsewhere.py")
HANDLER = Path(__file__).parents[1] / "check" / "functions" / "steady.py"


def run(system: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, PLAYED, system, *arguments]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=100, check=False)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "function.log"
    path.write_text("".join(f"{event.message}\n" for event in stored()["drift"]))
    return path


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_log_is_read_anywhere(system: str, log: Path, tmp_path: Path) -> None:
    reported = run(system, "report", log, "--json")
    assert reported.returncode == 0, reported.stderr
    assert json.loads(reported.stdout)["lines"] == 40
    assert "✓ It has started" in run(system, "doctor", log).stdout
    for name in ("page.html", "page.png"):
        assert run(system, "page", log, "--output", tmp_path / name).returncode == 0
        assert (tmp_path / name).stat().st_size > 10_000


def test_an_account_is_managed_from_windows(account: Account) -> None:
    """It lacks all that macOS lacks."""
    before = account.held(account.function("one"))
    system = "win32"
    for command in ("attach", "attach", "dashboard", "detach"):
        options = ("--exact", "--yes") if command == "attach" else ("--yes",) if command == "detach" else ()
        ran = run(system, command, "one", *options)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    assert account.held("one") == before
    assert account.updates == ["one", "one"]
    silent = run(system, "doctor", "--function", "one")
    assert "The log group is not there" in silent.stdout, silent.stderr
    assert "there is no function gone" in run(system, "check", "--function", "gone").stderr


@pytest.mark.parametrize(
    ("system", "fix", "command"),
    [
        ("darwin", "a container or a virtual machine", "check"),
        *[("win32", "WSL", command) for command in ("local run", "check", "soak", "size", "explain", "demo")],
    ],
)
def test_a_local_run_elsewhere_says_what_to_do(system: str, fix: str, command: str) -> None:
    target = [] if command == "demo" else [f"{HANDLER}:handler"]
    ran = run(system, *command.split(), *target)
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1), ran.stderr
    assert f" needs Linux. Try {fix}" in ran.stderr
    if command == "local run":
        assert run(system, *command.split(), "--help").returncode == 0
