"""The gate at work: real functions under the local Lambda, with the sidecar attached."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from click.testing import Result

from .conftest import FUNCTIONS, LEAKY, STEADY

SAMPLE = Path(__file__).parents[2] / "sample_function" / "app.py"
BOOTSTRAP = Path(__file__).parents[1] / "local" / "functions" / "bootstrap"
Check = Callable[..., Result]


def test_a_leak_of_8_kib_per_invocation_fails(invoke_check: Check, tmp_path: Path) -> None:
    done = invoke_check(LEAKY, "--invocations", 400, "--quick", "--json", "--junit", tmp_path / "report.xml")
    assert done.exit_code == 1, done.output
    document = json.loads(done.stdout)
    assert document["drift"]["verdict"] == "growing"
    assert document["drift"]["perInvocationKiB"] == pytest.approx(8.5, abs=1)  # with the bytearray's own
    assert 'failures="1"' in (tmp_path / "report.xml").read_text()


@pytest.fixture
def model_dir() -> Iterator[Path]:
    """A folder that the function can write to, whichever user it runs as."""
    with tempfile.TemporaryDirectory(prefix="truemem-test-") as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder


def test_the_sample_function_passes(invoke_check: Check, model_dir: Path, tmp_path: Path) -> None:
    events = tmp_path / "events.json"
    events.write_text(json.dumps([{"model": model} for model in range(4)]))
    small = {"MODEL_DIR": model_dir, "MODEL_COUNT": 4, "CACHE_SIZE": 4, "MODEL_LAYERS": 2, "INTRA_OP_THREADS": 1}
    variables = [option for name, value in small.items() for option in ("--env", f"{name}={value}")]
    arguments = ["--events", events, "--invocations", 120, "--quick", "--json", "--max-peak", 512, *variables]
    done = invoke_check(f"{SAMPLE}:handler", *arguments)
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["records"] >= 150  # 30 at least are the warm-up's
    assert [finding["outcome"] for finding in document["findings"]] == ["kept", "kept"]


def test_held_open_no_peak_is_lost(invoke_check: Check) -> None:
    """Each spike is over at once. 40 MiB: what malloc gives back to the system whatever came before (mallopt(3))."""
    done = invoke_check(STEADY, "--event", '{"mib": 40}', "--warm-up", 0, "--invocations", 40, "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["records"] == 40
    assert not any("intervals" in notice for notice in document["notices"])
    assert min(document["peaks"]) - max(document["currents"]) == pytest.approx(40, abs=1)


def test_a_baseline_is_written_and_then_compared_with(invoke_check: Check, tmp_path: Path) -> None:
    baseline, few = tmp_path / "memory.json", ["--warm-up", 0, "--invocations", 40, "--quick"]
    written = invoke_check(STEADY, "--event", '{"mib": 1}', *few, "--write-baseline", baseline)
    assert written.exit_code == 0, written.output
    compared = invoke_check(STEADY, "--event", '{"mib": 30}', *few, "--baseline", baseline)
    assert compared.exit_code == 1, compared.output
    assert "max-growth (peak)" in compared.output
    assert "not as in the baseline: events" in compared.output


def test_one_that_always_fails_was_not_measured_and_does_not_take_long(invoke_check: Check) -> None:
    done = invoke_check(STEADY, "--event", '{"fail": true}', "--warm-up", 0, "--invocations", 40, "--quick")
    assert done.exit_code == 2, done.output
    assert "5 of 5 invocations failed, the first of them number 1: ValueError: as told" in done.output


def test_a_bootstrap_can_be_checked(invoke_check: Check) -> None:
    done = invoke_check(BOOTSTRAP, "--warm-up", 0, "--invocations", 3, "--max-peak", 128, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["records"] == 3


def test_ended_from_outside_it_leaves_no_process() -> None:
    command = [sys.executable, "-m", "truemem_workbench.cli", "check", STEADY, "--event", '{"ms": 300}']
    with subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        us = psutil.Process(process.pid)
        bound = time.monotonic() + 30
        while len(us.children(recursive=True)) < 2:  # sidecar and function
            assert time.monotonic() < bound
            time.sleep(0.01)
        ours = us.children(recursive=True)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 128 + signal.SIGTERM
    assert psutil.wait_procs(ours, timeout=30)[1] == []


def test_github_gets_annotations_and_a_summary(
    invoke_check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    arguments = ["--warm-up", 0, "--invocations", 3, "--quick", "--max-peak", 1, "--github"]
    done = invoke_check(STEADY, *arguments, "--png", tmp_path / "curve.png")
    assert done.exit_code == 1, done.output
    assert f"::error file={FUNCTIONS / 'steady.py'},line=" in done.stdout
    assert "❌ broken" in (tmp_path / "summary.md").read_text()
    assert (tmp_path / "curve.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "one function is checked, here or there. Try truemem check app.py:handler"),
        ([STEADY, "--remote", "mine"], "one function is checked, here or there"),
        ([STEADY, "--max-growth", "8"], "--max-growth 8 MiB: over what? Try --baseline FILE"),
        ([STEADY, "--event", "1", "--events", "x"], "--event with --events: leave one out"),
        ([STEADY, "--json", "--github"], "both would be on stdout"),
        ([STEADY, "--env", "NAME"], "--env NAME has no value. Try --env NAME=VALUE"),
        ([STEADY, "--log-group", "x"], "is for --remote FUNCTION alone"),
        ([STEADY, "--memory", "5"], "memory of 5 MiB: Lambda has 128 to 10240"),
        (["--remote", "mine", "--quick"], "--remote takes the function as it is"),
        ([STEADY, "--max-growth", "8x"], "'8x' is neither MiB nor a share, as in 8 or 10%"),
        (["nowhere.py:handler"], "no file nowhere.py"),
    ],
)
def test_what_cannot_be_used_is_told_in_one_line(invoke_check: Check, arguments: list[str], said: str) -> None:
    done = invoke_check(*arguments)
    assert done.exit_code == 2
    assert said in done.output
