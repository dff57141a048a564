"""macOS and Windows, as far as Linux can play them: what needs no Linux works, the rest says what to do."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest

from tests.account.conftest import Account, account
from tests.attach.captured import stored
from tests.report.conftest import aws, aws_endpoint

__all__ = ["account", "aws", "aws_endpoint"]

PLAYED = Path(__file__).with_name("elsewhere.py")
HANDLER = Path(__file__).parents[1] / "check" / "functions" / "steady.py"


class Ran(NamedTuple):
    """One command."""

    code: int
    out: str
    err: str


def run(system: str, *commands: Sequence[str | Path]) -> list[Ran]:
    """What each of these commands answers there."""
    with TemporaryDirectory() as name:
        given = json.dumps([list(map(str, each)) for each in commands])
        played = [sys.executable, str(PLAYED), system, name, given]
        done = subprocess.run(played, capture_output=True, text=True, timeout=100, check=False)
        assert done.returncode == 0, done.stderr
        paths = [Path(name, str(number)) for number in range(len(commands))]
        said = [[path.with_suffix(end).read_text("utf-8") for end in (".out", ".err")] for path in paths]
    return [Ran(code, *each) for code, each in zip(json.loads(done.stdout), said, strict=True)]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "function.log"
    path.write_text("".join(f"{event.message}\n" for event in stored()["drift"]))
    return path


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_a_log_is_read_anywhere(system: str, log: Path, tmp_path: Path) -> None:
    pages = [tmp_path / name for name in ("page.html", "page.png")]
    drawn = [("page", log, "--output", page) for page in pages]
    reported, doctor, *rest = run(system, ("report", log, "--json"), ("doctor", log), *drawn)
    assert reported.code == 0, reported
    assert json.loads(reported.out)["lines"] == 40
    assert "✓ It has started" in doctor.out
    assert [ran.code for ran in rest] == [0, 0]
    assert all(page.stat().st_size > 10_000 for page in pages)


def test_an_account_is_managed_from_windows(account: Account) -> None:
    """It lacks all that macOS lacks."""
    before = account.held(account.function("one"))
    attach, detach = ("attach", "one", "--exact", "--yes"), ("detach", "one", "--yes")
    doctor, check = ("doctor", "--function", "one"), ("check", "--function", "gone")
    *managed, silent, refused = run("win32", attach, attach, ("dashboard", "one"), detach, doctor, check)
    assert [ran.code for ran in managed] == [0, 0, 0, 0], managed
    assert account.held("one") == before
    assert account.updates == ["one", "one"]
    assert "The log group is not there" in silent.out, silent
    assert "there is no function gone" in refused.err


@pytest.mark.parametrize(
    ("system", "fix", "commands"),
    [
        ("darwin", "a container or a virtual machine", ["check"]),
        ("win32", "WSL", ["local run", "check", "soak", "size", "explain", "demo", "bisect --good a --bad b"]),
    ],
)
def test_a_local_run_elsewhere_says_what_to_do(system: str, fix: str, commands: list[str]) -> None:
    typed = [(*command.split(), *([] if command == "demo" else [f"{HANDLER}:handler"])) for command in commands]
    *refused, helped = run(system, *typed, ("local", "run", "--help"))
    for ran in refused:
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1), ran
        assert f" needs Linux. Try {fix}" in ran.err
    assert helped.code == 0
