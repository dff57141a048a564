"""A test is run again only where the machine was starved; what fails on a machine that had its CPUs has failed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.starvation import STALL_S, Watch

ROOT = Path(__file__).parents[2]
PATIENCE_S = 30


@pytest.fixture
def watch() -> Iterator[Watch]:
    made = Watch()
    yield made
    made.close()


def test_a_stall_is_seen_and_belongs_to_its_time(watch: Watch) -> None:
    began = time.monotonic()
    until = began + PATIENCE_S
    while not watch.longest_ms(began):  # it has to start first
        watch.process.send_signal(signal.SIGSTOP)
        time.sleep(2 * STALL_S)
        watch.process.send_signal(signal.SIGCONT)
        time.sleep(STALL_S)
        assert time.monotonic() < until
    assert watch.longest_ms(began) > 1000 * STALL_S
    assert watch.longest_ms(time.monotonic() + PATIENCE_S) == 0


def test_it_ends_with_whoever_started_it() -> None:
    watch = Watch()
    watch.close()
    assert watch.process.returncode == 0


CONFTEST = """
import tests.conftest
from tests.conftest import *
tests.conftest.Watch = type("Watch", (), {{"longest_ms": lambda self, since: {stalled_ms}, "close": lambda self: None}})
"""


@pytest.mark.parametrize(("stalled_ms", "runs", "outcome"), [(0, 1, "1 failed"), (60, 3, "1 failed, 2 rerun")])
def test_what_fails_runs_again_only_where_the_machine_was_starved(
    tmp_path: Path, stalled_ms: int, runs: int, outcome: str
) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST.format(stalled_ms=stalled_ms))
    (tmp_path / "test_it.py").write_text(
        "from pathlib import Path\n\ndef test_it():\n    print(file=Path('runs').open('a'))\n    assert 0, 'wrong'\n"
    )
    options = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path)]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "test_it.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1, run.stdout + run.stderr
    assert (tmp_path / "runs").read_text() == runs * "\n"
    assert outcome in run.stdout
    assert run.stdout.count("AssertionError: wrong") >= runs
