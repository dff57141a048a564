"""A soak of the real local Lambda: real processes, freezes and lines of the sidecar."""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import count, cycle
from pathlib import Path

import pytest
from truemem_workbench.local import Function, LocalLambda, LogLine, Settings
from truemem_workbench.local.configuration.layer import SIDECAR, sidecar
from truemem_workbench.local.scaling import Scaling
from truemem_workbench.printed.line import parse_event
from truemem_workbench.soak.arrivals import schedule
from truemem_workbench.soak.driver import drive
from truemem_workbench.soak.run import Plan, run
from truemem_workbench.soak.saved import Saved
from truemem_workbench.soak.tally import Tally
from truemem_workbench.target.options import resolved

from testing.cases import cases, ready
from testing.installs import Missing
from tests.local.conftest import HANDLER, until

PLAN = {"rate": "30/s"}


def soak(tally: Tally, events: list[object], rate: str, for_s: float, scaling: Scaling) -> Tally:
    """Run it. Arrivals that the tally has seen are not made again."""

    def on_log(line: LogLine) -> None:
        if line.source == f"extension:{SIDECAR}" and line.stream == "stdout":
            for each in parse_event(line.text):
                tally.line(each, line.environment)

    async def main(local: LocalLambda) -> None:
        loop = asyncio.get_running_loop()
        tally.begin(loop.time(), 1000 * time.time())
        moments = (moment for moment in schedule(rate, for_s, seed=1) if moment > since_s)
        await drive(moments, payloads(events), local.answer, tally.add, begun_s=tally.zero_s)

    since_s = tally.seconds
    function = Function.from_handler(HANDLER)
    made = Settings(memory_mib=256, extensions={SIDECAR: sidecar()})
    with LocalLambda(function, made, on_log, scaling=scaling, on_environment=tally.change) as local:
        local.run(main(local))
    return tally


def payloads(events: list[object]) -> Iterator[bytes]:
    return cycle([json.dumps(each).encode() for each in events])


def test_all_that_was_due_is_seen() -> None:
    events = [{"touch": 20}, {"sleep": 0.05}, {"raise": "no such order"}]

    tally = soak(Tally(), events, "30/s", 4, Scaling(environments=3, keep=False))

    assert tally.asked == tally.made == 120
    assert (tally.dropped, tally.latency.count) == (0, tally.invocations)
    assert tally.invocations + tally.throttled == 120
    assert tally.cold >= len(tally.environments) > 0
    assert list(tally.errors) == ["ValueError"]
    assert tally.examples["ValueError"].startswith("ValueError: no such order (")
    assert sum(each.count for each in tally.buckets) == tally.invocations
    assert sum(each.served for each in tally.environments) == tally.invocations
    for each in tally.environments:
        assert len(each.lines) == len(each.steps()) == each.served
        assert each.ended == "stopped"
        assert each.init_ms is not None and each.limit_mib == 256
        assert each.first_mib is not None and each.last_mib is not None and each.peak_mib is not None
        assert each.steps()[0].begins and not any(step.begins for step in each.steps()[1:])
    assert any((each.peak_mib or 0) > (each.first_mib or 0) + 15 for each in tally.environments)
    assert any(each.current_mib for each in tally.buckets)


def test_a_kill_is_told_of_its_environment() -> None:
    tally = soak(Tally(), [{"touch": 400}], "3/s", 2, Scaling(environments=1))

    (each,) = tally.environments
    assert each.killed == tally.killed >= 1
    assert each.resets == each.killed
    assert each.failed == each.killed
    assert sum(step.begins for step in each.steps()) == each.killed
    (kind,) = tally.errors
    assert kind == "Runtime.OutOfMemory"


def test_it_goes_on_where_it_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "soak.state"
    saved = Saved(path, PLAN)
    before = soak(Tally(), [{}], "10/s", 2, Scaling(environments=2))
    saved.write(saved.changes(before))
    saved.close()

    saved = Saved(path, PLAN)
    tally = soak(saved.tally(), [{}], "10/s", 6, Scaling(environments=2))
    saved.close()

    ((at_s, long_s),) = tally.interruptions
    assert at_s >= before.asked / 10 - 0.5 and long_s >= 0
    assert tally.asked == before.asked + sum(moment > at_s for moment in schedule("10/s", 6, 1))
    assert {each.ended for each in tally.environments} == {"stopped"}
    assert sum(each.served for each in tally.environments) == tally.invocations
    assert sum(each.count for each in tally.buckets) == tally.invocations


def test_an_environment_that_cannot_start_later_loses_no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    def watch(tally: Tally) -> None:
        if tally.invocations:
            monkeypatch.setattr(tempfile, "tempdir", "/no/such")

    target = resolved(HANDLER, python=None, timeout_s=None, env=())
    plan = Plan(for_s=60, scaling=Scaling(environments=1, age_s=0.1, keep=False))

    ran = run(target, count(step=0.5), [{}], plan, None, watch)

    assert ran.tally.invocations and ran.is_cut and not ran.signal
    (limit,) = ran.limits
    assert limit.outcome == "unknown"
    assert limit.sentence.startswith("An environment could not start: [Errno 2] No such file or directory: '/no/such/")


@pytest.mark.nightly
def test_the_command_goes_on_after_a_kill(tmp_path: Path) -> None:
    state = tmp_path / "soak.state"
    asked = ["--event", "{}", "--rate", "10/s", "--for", "25s", "--environments", "2", "--state", str(state), "--json"]
    command = [sys.executable, "-m", "truemem_workbench.commands", "soak", HANDLER, *asked]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as first:
        until(lambda: state.exists() and state.stat().st_size > 50_000)  # while it writes its second save
        first.kill()

    again = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)

    result = json.loads(again.stdout)
    assert again.returncode in (0, 2), again.stderr  # 2: too short to be decided
    assert result["seconds"] == pytest.approx(25, abs=2)
    assert 200 <= result["asked"] <= 250
    assert any(notice.startswith("interrupted after ") for notice in result["notices"])
    assert {each["ended"] for each in result["environments"]} == {"interrupted", "stopped"}
    assert sum(each["served"] for each in result["environments"]) == result["invocations"]


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "exits"), [("java_registry", 1), ("java_registry_repaired", 0)])
def test_a_jvm_is_collected_between_requests(name: str, exits: int) -> None:
    try:
        case = next(each for each in cases() if each.name == name)
        program = ready(case)
    except Missing as missing:
        pytest.skip(str(missing))
    asked = ["--rate", "10/s", "--for", "90s", "--environments", "2", "--json"]
    command = [sys.executable, "-m", "truemem_workbench.commands", "soak", *program.arguments, *case.options, *asked]
    done = subprocess.run(command, cwd=program.folder, capture_output=True, text=True, check=False, timeout=200)
    finding = json.loads(done.stdout)["finding"]
    assert done.returncode == exits, finding
    assert ("in live objects" in finding["sentence"]) == bool(exits)
