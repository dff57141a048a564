"""`truemem soak` as a user types it, with real environments and short runs."""

import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from truemem_workbench.soak.saved import Changes, Saved
from truemem_workbench.support.bad_input import BadInput

from tests.soak.conftest import FAILING, QUICK, SLOW, Soak

TRUEMEM = Path(sys.executable).with_name("truemem")


def document(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return found


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--rate", "fast"], "--rate fast is no rate. Try --rate 50/s"),
        (["--rate", "5/s", "--like", "log.txt"], "--rate with --like: leave one out"),
        (["--lines", "--no-probe"], "--lines with --no-probe: the probe asks for the lines. Leave one out"),
        (["--speed", "10"], "--speed 10 shortens the pauses of --like FILE. Add that, or leave it out"),
        (["--like", "/no/such.log"], "--like /no/such.log is no file. Try truemem events NAME --times --output"),
        (["--output", "soak.svg"], "--output soak.svg: its ending is not .png or .html or .xml or .json. Try"),
        (["--state", "/no/such/soak.state", "--rate", "1/s"], "--state /no/such/soak.state cannot be used"),
    ],
)
def test_bad_input_is_named_with_what_to_type(invoke_soak: Soak, arguments: list[str], said: str) -> None:
    done = invoke_soak(QUICK, "--for", "2s", *arguments)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.output
    assert done.stderr.startswith(f"truemem soak: {said}")


def test_a_log_with_one_request_in_time_is_refused(invoke_soak: Soak, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text("2026-11-26T10:00:00Z START RequestId: a\n2026-11-26T11:00:00Z START RequestId: b\n")
    done = invoke_soak(QUICK, "--like", log, "--for", "5m")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "one request is due in 5m. Try a longer --for, or --speed 10" in done.stderr


def test_a_time_has_a_unit(invoke_soak: Soak) -> None:
    done = invoke_soak(QUICK, "--for", "5")
    assert done.exit_code == 2
    assert "'5' is no time up to 14 days, as in 90s, 5m or 6h" in done.stderr


def test_a_quick_function_passes_with_its_figures(invoke_soak: Soak, tmp_path: Path) -> None:
    picture, report = tmp_path / "soak.png", tmp_path / "report.xml"
    done = invoke_soak(
        QUICK, "--rate", "40/s", "--for", "5s", "--environments", 3, "--json", "--output", picture, "--output", report
    )
    seen = document(done.stdout)
    # on a busy machine no environment may serve enough for a verdict
    assert seen["finding"]["cause"] in ("none", "undecided"), seen["limits"]
    assert done.exit_code == (0 if seen["finding"]["cause"] == "none" else 2)
    assert seen["invocations"] + seen["throttles"] == seen["sent"] == seen["asked"] == 200
    assert seen["coldStarts"] >= 1
    assert {each["ended"] for each in seen["environments"]} == {"stopped"}
    assert sum(each["served"] for each in seen["environments"]) == seen["invocations"]
    assert 0 < seen["latencyMs"]["p50"] <= seen["latencyMs"]["p95"] <= seen["latencyMs"]["p99"]
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert b'failures="0"' in report.read_bytes()


def test_failures_break_the_soak_and_show_the_log(invoke_soak: Soak) -> None:
    done = invoke_soak(FAILING, "--rate", "20/s", "--for", "3s", "--environments", 1)
    assert done.exit_code == 1, done.output
    assert re.search(r"max-errors +0 % +\d+ of \d+ \(\d+ %\) +BROKEN", done.stdout)
    assert "ValueError: one of four" in done.stdout


def test_requests_that_find_no_place_are_throttled(invoke_soak: Soak) -> None:
    done = invoke_soak(SLOW, "--rate", "20/s", "--for", "3s", "--environments", 2, "--max-throttles", 10, "--json")
    seen = document(done.stdout)
    assert seen["throttles"] > 0
    assert len(seen["environments"]) == 2
    assert {each["name"]: each["outcome"] for each in seen["limits"]}["max-throttles"] == "broken"


@pytest.fixture
def told() -> Iterator[Path]:
    """A file that the function makes when it is invoked. Not in pytest's folder: its user cannot write there."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name) / "invoked"


def begun(told: Path, *arguments: object) -> subprocess.Popen[str]:
    command = [str(TRUEMEM), "soak", QUICK, "--rate", "20/s", "--json", "--env", f"TOLD={told}", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_until_invoked(process: subprocess.Popen[str], told: Path) -> list[psutil.Process]:
    """Wait until the function has served for a second. Returns the processes of the soak."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if told.exists():
            time.sleep(1)
            return psutil.Process(process.pid).children(recursive=True)
        time.sleep(0.1)
    raise AssertionError("never invoked")


def test_ctrl_c_ends_it_with_the_report(tmp_path: Path, told: Path) -> None:
    state = tmp_path / "soak.state"
    process = begun(told, "--for", "1h", "--state", state)
    children = wait_until_invoked(process, told)
    assert children
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    seen = document(out)
    assert process.returncode == 130, err
    assert seen["invocations"] > 0
    assert "ended before its time" in seen["notices"]
    assert f"{state} has the figures: the same command goes on from there" in seen["notices"]
    assert not [each for each in children if each.is_running()]


def test_a_killed_soak_goes_on_from_its_state(tmp_path: Path, told: Path) -> None:
    state = tmp_path / "soak.state"
    first = begun(told, "--for", "9s", "--state", state)
    wait_until_invoked(first, told)
    first.kill()
    first.communicate()
    again = begun(told, "--for", "9s", "--state", state)
    out, err = again.communicate(timeout=60)
    seen = document(out)
    assert again.returncode in (0, 2), err
    assert any(each.startswith("interrupted after") for each in seen["notices"]), seen["notices"]
    assert seen["environments"][0]["ended"] == "interrupted"
    assert 120 <= seen["asked"] <= 180
    assert sum(each["served"] for each in seen["environments"]) == seen["invocations"]


def test_a_soak_at_its_end_leaves_no_state_behind(invoke_soak: Soak, tmp_path: Path) -> None:
    state = tmp_path / "soak.state"
    done = invoke_soak(QUICK, "--rate", "5/s", "--for", "2s", "--state", state)
    assert done.exit_code == 2  # too few to judge
    assert not state.exists()


def test_another_command_or_code_does_not_go_on_from_a_state(invoke_soak: Soak, tmp_path: Path) -> None:
    state, app = tmp_path / "soak.state", tmp_path / "app.py"
    app.write_text("def handler(event, context): return 1")
    asked = (f"{app}:handler", "--rate", "6/s", "--for", "2s", "--state", state)
    command = " ".join(["truemem", "soak", *map(str, asked[:-2])])
    code = {"a handler's file of SHA-256": "0123"}
    for was, said in (({"command": "truemem soak another"}, "command"), ({"command": command, **code}, "a handler's")):
        Saved(state, was).close()
        done = invoke_soak(*asked)
        assert (done.exit_code, done.stdout) == (2, "")
        assert f"--state {state} is of a soak with {said}" in done.stderr
        state.unlink()


@pytest.mark.parametrize("written", [0, 1])
def test_a_disk_that_is_full_later_loses_no_figures(
    invoke_soak: Soak, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, written: int
) -> None:
    write, calls = Saved.write, iter(range(100))

    def full_later(self: Saved, changes: Changes) -> None:
        if next(calls) >= written:
            raise BadInput("the disk is full")
        write(self, changes)

    monkeypatch.setattr(Saved, "write", full_later)
    done = invoke_soak(QUICK, "--rate", "10/s", "--for", "5s", "--state", tmp_path / "soak.state")
    assert "the disk is full" in done.output
    notice = re.search(r"not saved since \d+ s: the disk is full", " ".join(done.output.split()))
    assert (notice is not None) == bool(written)
    assert ("served" in done.stdout) == bool(written)
