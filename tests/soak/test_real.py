"""A soak of the real local Lambda: real processes, freezes and lines of the sidecar."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import count

import pytest
from truemem_workbench.local.scaling import Scaling
from truemem_workbench.soak.arrivals import schedule
from truemem_workbench.soak.run import Plan, ignore, run
from truemem_workbench.soak.tally import Tally
from truemem_workbench.target.options import resolved

from testing.cases import cases, ready
from testing.installs import Missing
from tests.local.conftest import HANDLER

TARGET = resolved(HANDLER, python=None, timeout_s=None, env=())


def soaked(events: Sequence[object], rate: str, for_s: float, environments: int) -> Tally:
    plan = Plan(for_s=for_s, scaling=Scaling(environments=environments, keep=False))
    return run(TARGET, schedule(rate, for_s, 1), events, plan, None, ignore).tally


def test_all_that_was_due_is_seen() -> None:
    tally = soaked([{"touch": 20}, {"sleep": 0.05}, {"raise": "no such order"}], "30/s", 4, 3)

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
        assert each.init_ms is not None and each.limit_mib == TARGET.memory_mib
        assert each.first_mib is not None and each.last_mib is not None and each.peak_mib is not None
        assert each.steps()[0].begins and not any(step.begins for step in each.steps()[1:])
    assert any((each.peak_mib or 0) > (each.first_mib or 0) + 15 for each in tally.environments)
    assert any(each.current_mib for each in tally.buckets)


def test_a_kill_is_told_of_its_environment() -> None:
    tally = soaked([{"touch": 2 * TARGET.memory_mib}], "3/s", 2, 1)

    (each,) = tally.environments
    assert each.killed == tally.killed >= 1
    assert each.resets == each.killed
    assert each.failed == each.killed
    assert sum(step.begins for step in each.steps()) == each.killed
    assert list(tally.errors) == ["Runtime.OutOfMemory"]


def test_an_environment_that_cannot_start_later_loses_no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    def watch(tally: Tally) -> None:
        if tally.invocations:
            monkeypatch.setattr(tempfile, "tempdir", "/no/such")

    plan = Plan(for_s=60, scaling=Scaling(environments=1, age_s=0.1, keep=False))

    ran = run(TARGET, count(step=0.5), [{}], plan, None, watch)

    assert ran.tally.invocations and ran.is_cut and not ran.signal
    (limit,) = ran.limits
    assert limit.outcome == "unknown"
    assert limit.sentence.startswith("An environment could not start: [Errno 2] No such file or directory: '/no/such/")


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
