"""Managed Instances: rounds of requests at once, each worker judged by itself, shared pages counted once."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from truemem_workbench.answer.result import Result
from truemem_workbench.printed.line import Line, parse_event
from truemem_workbench.runs.measurement import Shared
from truemem_workbench.runs.rounds import Round
from truemem_workbench.runs.settle.settler import Settler
from truemem_workbench.runs.workers import Held, held

from tests.check.conftest import FUNCTIONS, LEVEL, Check, Refused, emf, run_of

AT_ONCE = f"{FUNCTIONS / 'at_once.py'}:handler"
IN_THREADS = f"{FUNCTIONS / 'at_once.mjs'}:handler"
FEW = ("--managed-instances", 2, "--invocations", 128, "--json")

FAMILY = """
import os, signal, sys
block = bytearray(40 << 20)  # the children share it
for _ in range(3):
    if not os.fork():
        own = bytearray(b"x" * (10 << 20))
        print("up", flush=True)
        signal.pause()
signal.pause()
"""


@contextmanager
def family() -> Iterator[int]:
    """A process with 40 MiB, and three that it has forked, with 10 MiB each."""
    with subprocess.Popen([sys.executable, "-c", FAMILY], stdout=subprocess.PIPE, process_group=0) as parent:
        assert parent.stdout is not None
        for _ in range(3):
            parent.stdout.readline()
        try:
            yield parent.pid
        finally:
            os.killpg(parent.pid, signal.SIGKILL)


# --- what is held -----------------------------------------------------------------------------------------------------


def test_pages_that_workers_share_count_once() -> None:
    with family() as pid:
        now = held(pid)
    assert now is not None
    assert now.forked
    assert len(now.rss) == 3
    assert 70 <= now.once <= 85  # 40 that all share, 10 of each, and Python's own
    assert now.sum > 4 * 40
    assert now.own == pytest.approx(30, abs=6)


def test_one_process_is_its_only_worker() -> None:
    with subprocess.Popen(["/bin/sh", "-c", "sleep 60; :"]) as shell:
        time.sleep(0.2)
        now = held(shell.pid)
        shell.kill()
        subprocess.run(["pkill", "-P", str(shell.pid)], check=False)
    assert now is not None
    assert not now.forked
    assert len(now.rss) == 1
    assert shell.pid not in now.rss


def test_nothing_is_held_where_all_has_ended() -> None:
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    assert held(ended.pid) is None


def of(once: float, overcount: float, highest: float = 0.0, ended: int = 0) -> Held:
    rss = {1: 30.0, 2: 30.0}
    return Held(once + overcount, once, highest, rss, {1: 45.0, 2: 35.0}, own=40.0, forked=True, ended=ended)


def line_of(before: Held, after: Held | None, error: str = "") -> Line:
    made = Round(["id"], "one", 0.0, error, before, after, {}).line(7, 2048)
    assert made is not None
    return made


def test_a_rounds_peak_is_that_of_all_at_their_highest() -> None:
    """By watermarks 140; of that at least 20 are counted twice."""
    made = line_of(of(75.0, 30.0), of(85.0, 20.0, 140.0))
    assert (made.invocation, made.current_rss, made.peak_rss, made.bounds) == (7, 85.0, 120.0, (120.0, 120.0))


def test_children_that_came_and_went_leave_it_open() -> None:
    assert line_of(of(75.0, 30.0), of(85.0, 20.0, 140.0, ended=900)).bounds == (120.0, 2048)


def test_a_round_that_ran_out_says_so() -> None:
    made = line_of(of(75.0, 30.0), None, "Runtime.OutOfMemory: killed")
    assert made.out_of_memory
    assert made.peak_upper is None


def test_a_worker_that_the_limit_killed_ran_out() -> None:
    made = Round(["id"], "one", 0.0, "Sandbox.Timedout", of(75.0, 30.0), of(30.0, 0.0, 60.0), {}, killed=1)
    line = made.line(1, 2048)
    assert line is not None
    assert line.out_of_memory


# --- what is said -----------------------------------------------------------------------------------------------------


def test_what_each_part_needs_is_said() -> None:
    shared = Shared(at_once=8, workers=8, forked=True, once=50, rss=90, own=5, adds=6, peak=98.0)
    result = Result(run_of(LEVEL, shared=shared), [])
    assert "rounds of 8 requests at once" in result.headline
    assert result.sentences()[-1].endswith("If all are at their highest at once, 98.0 MiB of 256 are needed.")
    assert json.loads(json.dumps(result.document()))["managedInstances"]["allAtTheirHighest"] == 98.0


def test_a_deployed_one_asked_one_by_one_has_a_note() -> None:
    alone = run_of(LEVEL)
    lines = [parse_event(emf(each.number, 50.0, 55.0, sharedBy=1))[0] for each in alone.seen]
    managed = run_of(LEVEL, spec="remote:it")
    for each, line in zip(managed.seen, lines, strict=True):
        object.__setattr__(each, "line", line)
    assert not any("Managed Instances" in each for each in Result(alone, []).notices())
    assert any("--managed-instances N" in each for each in Result(managed, []).notices())


def test_what_threads_say_adds_up_once_all_have_spoken() -> None:
    """Readings from before a thread has spoken are of fewer: its heap would seem to have grown."""
    settler = Settler()
    for thread, heap in (1, 100.0), (2, 200.0):
        settler.path.with_suffix(f".said.{thread}").write_text(json.dumps({"asked": 3, "heap": heap, "caches": []}))
        assert settler._of_threads() == {"heap": 100.0 if thread == 1 else 300.0, "caches": []}
        assert settler.readings == []
    settler.close()


# --- the command ------------------------------------------------------------------------------------------------------


def test_a_leak_in_each_worker_is_found(invoke_check: Check) -> None:
    ran = invoke_check(AT_ONCE, *FEW, "--env", "KEEPS=each")
    document = json.loads(ran.stdout)
    assert (ran.exit_code, document["finding"]["cause"]) == (1, "leak")
    assert document["finding"]["perInvocationKiB"] == pytest.approx(16.4, abs=0.5)
    assert "so in 2 of 2 workers" in document["finding"]["evidence"]
    assert document["managedInstances"]["workers"] == 2


@pytest.mark.nightly
def test_its_repaired_twin_passes(invoke_check: Check) -> None:
    ran = invoke_check(AT_ONCE, *FEW, "--max-peak", 200)
    document = json.loads(ran.stdout)
    assert (ran.exit_code, document["finding"]["cause"]) == (0, "none"), ran.stdout
    assert document["peak"] < document["managedInstances"]["heldRSS"]  # shared pages are not counted three times


@pytest.mark.nightly
def test_a_leak_in_one_worker_is_found(invoke_check: Check) -> None:
    document = json.loads(invoke_check(AT_ONCE, *FEW, "--env", "KEEPS=one").stdout)
    assert document["finding"]["cause"] == "leak"
    assert "so in 1 of 2 workers" in document["finding"]["evidence"]


@pytest.mark.nightly
@pytest.mark.parametrize(("keeps", "cause"), [("each", ["leak"]), ("", ["none", "collector"])])
def test_threads_of_node_are_judged_together(invoke_check: Check, keeps: str, cause: list[str]) -> None:
    ran = invoke_check(IN_THREADS, "--managed-instances", 8, "--json", "--env", f"KEEPS={keeps}")
    finding = json.loads(ran.stdout)["finding"]
    assert finding["cause"] in cause, ran.stdout
    if keeps:
        assert finding["perInvocationKiB"] == pytest.approx(16.3, abs=1.5)


@pytest.mark.parametrize("wrong", ["0", "1601", "many"])
def test_a_concurrency_that_lambda_has_not(invoke_check: Check, wrong: str) -> None:
    ran = invoke_check(AT_ONCE, "--managed-instances", wrong)
    assert (ran.exit_code, "--managed-instances" in ran.stderr) == (2, True)


def test_a_deployed_function_has_its_own_concurrency(refused: Refused) -> None:
    assert "leave out" in refused("--function", "it", "--managed-instances", 8)


@pytest.mark.nightly
def test_a_template_says_how_many(invoke_check: Check, tmp_path: Path) -> None:
    made = tmp_path / "template.yaml"
    made.write_text(
        "Resources:\n  It:\n    Type: AWS::Serverless::Function\n    Properties:\n      Handler: at_once.handler\n"
        f"      CodeUri: {FUNCTIONS}\n      MemorySize: 2048\n"
        "      CapacityProviderConfig: {Arn: A, PerExecutionEnvironmentMaxConcurrency: 5}\n"
    )
    document = json.loads(invoke_check(f"{made}:It", "--invocations", 20, "--most", 20, "--json").stdout)
    assert document["managedInstances"]["requestsAtOnce"] == document["managedInstances"]["workers"] == 5
