"""One answer for all environments, with the clock that growth follows."""

import math
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from truemem_workbench.answer.limits import Rate
from truemem_workbench.judge.finding import Commands
from truemem_workbench.soak.arrivals import schedule
from truemem_workbench.soak.judging import JudgedSoak, judge, longer_s
from truemem_workbench.soak.result import clock_document
from truemem_workbench.soak.tally import Tally

from tests.soak.seen import arrival, begun, line, reset, throttled

COMMANDS = Commands(
    again="truemem soak a.py:h",
    longer="truemem soak a.py:h --rate 1/s --for 600s",
    mixed="truemem soak a.py:h --for 600s",
    profile="truemem soak a.py:h --lines",
)
Level = Callable[[int, float, int], float]
"""MiB, by invocations, minutes and pauses of a second or more so far."""


def judged(
    level: Level,
    *,
    rate: str = "mixed",
    for_s: float = 300.0,
    environments: int = 3,
    allowed: tuple[str, ...] = (),
    more: Callable[[int, float], dict[str, object]] = lambda count, held: {},
) -> JudgedSoak:
    """Traffic that environments share by chance. `more`: members of the lines, by invocation and MiB that are held."""
    random, tally = Random(7), begun(*map(str, range(environments)))
    counts, pauses, last = [0] * environments, [0] * environments, [0.0] * environments
    for moment in schedule(rate, for_s, 1):
        place = min(int(random.expovariate(1.0)), environments - 1)
        counts[place] += 1
        pauses[place] += moment - last[place] > 1.2
        last[place] = moment
        held = 40.0 + level(counts[place], moment / 60, pauses[place]) + random.gauss(0, 0.05)
        members = {"CurrentRSS": held, "PeakRSS": held + 1, "durationMs": 5.0, **more(counts[place], held)}
        tally.line(line(counts[place], moment, str(place), **members), str(place))
    tally.seconds = for_s
    return judge(tally, COMMANDS, allowed)


def _of_minutes(mib: float) -> Level:
    return lambda count, minutes, pauses: mib * minutes


def test_growth_by_the_minute_is_told_apart() -> None:
    found = judged(_of_minutes(2.0))
    assert found.clock.name == "minute"
    assert found.clock.rate_kib == pytest.approx(2048, rel=0.1)
    assert found.finding.title.startswith("Leak by the clock: RSS grows by 2")
    assert "with each minute." in found.finding.title
    assert found.finding.next.endswith("--lines")
    assert found.finding.grows
    assert {each.title for each in found.by_environment.values()} == {found.finding.title}


def beside(level: Callable[[float], float], **given: Any) -> JudgedSoak:
    """A function that is level, beside an extension. `level`: MiB that this has grown by, by minutes."""

    def extension(_: int, held: float) -> dict[str, object]:
        return {"CurrentRSS": 40.0, "PeakRSS": 41.0, "holders": {"extensions": {"agent": held}}}

    return judged(lambda count, minutes, pauses: level(minutes), more=extension, **given)


def test_an_extension_that_has_warmed_up_is_no_growth() -> None:
    found = beside(lambda minutes: min(10, 4 * minutes), environments=4)
    assert (found.finding.cause, found.finding.settled) == ("none", True)


def test_an_extension_that_goes_on_growing_has_a_clock() -> None:
    found = beside(lambda minutes: 2 * minutes)
    assert (found.finding.cause, found.clock.name, found.finding.holder) == ("extension", "minute", "agent")
    assert "KiB more in the extension agent with each minute." in found.finding.title
    assert "tell its vendor" in found.finding.repair
    assert found.finding.next == COMMANDS.again


def test_an_extension_that_may_grow_decides_nothing() -> None:
    assert beside(lambda minutes: 2 * minutes, allowed=("extension",)).finding.cause == "none"


def test_an_extension_that_still_fills_is_undecided() -> None:
    found = beside(lambda minutes: 5 * math.log1p(10 * minutes))
    assert (found.finding.cause, found.finding.holder) == ("undecided", "agent")
    assert found.finding.next == COMMANDS.longer


def test_large_growth_is_said_in_plain_figures() -> None:
    title = judged(_of_minutes(20.0)).finding.title
    assert re.match(r"Leak by the clock: RSS grows by \d\d,\d{3} KiB with each minute", title)


def test_growth_with_pauses_is_told_apart() -> None:
    found = judged(lambda count, minutes, pauses: 0.25 * pauses)
    assert found.clock.name == "pause"
    assert re.search(r"with each pause of 1(\.5)? s or longer\.$", found.finding.title)
    assert "The old one is still held." in found.finding.repair


def test_growth_by_invocation_stays_an_ordinary_leak() -> None:
    found = judged(lambda count, minutes, pauses: 0.02 * count)
    assert found.clock.name == "invocation"
    assert (found.finding.cause, "by the clock" in found.finding.title) == ("leak", False)


def test_growth_that_the_gate_passes_is_no_leak() -> None:
    """Python's runtime client sets a variable to another trace id each time, and glibc keeps every value: 0.2 KiB."""
    found = judged(lambda count, minutes, pauses: 0.0006 * count, environments=8)
    assert found.clock.name == "invocation"
    assert not found.finding.grows
    assert found.finding.evidence[-1].endswith(" KiB with each invocation: less than 4 KiB is not called a leak")


def test_what_failed_is_counted_of_all_invocations() -> None:
    """Lines are kept of some of them; of the one that the end of the soak has cut, nothing failed."""
    tally = begun("a")
    for number in range(1, 200):
        tally.add(arrival(float(number), error="ValueError: no" if number % 20 == 0 else ""))
        if number % 2:
            status = "error" if number == 199 else "success"
            tally.line(line(number, float(number), CurrentRSS=40.0, PeakRSS=41.0, status=status), "a")
    assert "9 of 199 invocations failed" in judge(tally, COMMANDS).finding.evidence


@pytest.mark.parametrize("level", [lambda *_: 0.0, lambda count, *_: min(8.0, 0.1 * count)])
def test_what_does_not_last_has_no_clock(level: Level) -> None:
    found = judged(level)
    assert not found.clock.grows
    assert not found.finding.grows


def test_what_fails_before_a_record_is_run_alone_next() -> None:
    tally = begun("a")
    tally.add(arrival(1.0, error="Runtime.ImportModuleError: no module"))
    assert judge(tally, replace(COMMANDS, log="truemem local run a.py:h --event '{}'")).finding.paragraph() == (
        "Failing: 1 of 1 invocation failed. Nothing is said of memory until they succeed. 1 of them said:"
        " Runtime.ImportModuleError: no module. Fix that first. Next: truemem local run a.py:h --event '{}'"
    )


def failing(**errors: int) -> Tally:
    """Environments in which so many of 20 invocations failed, each with an error of its own. The platform calls what
    a handler raises a success."""
    tally = begun(*errors)
    for name, failed in errors.items():
        for number in range(1, 21):
            tally.add(arrival(float(number), environment=name, error=f"{name}: {number}" if number <= failed else ""))
            tally.line(line(number, environment=name, CurrentRSS=40.0, PeakRSS=41.0, status="success"), name)
    return tally


def test_failures_of_all_environments_count_together() -> None:
    found = judge(failing(KeyError=20, OSError=12, ValueError=1), COMMANDS).finding
    assert found.cause == "failing"
    assert found.title.startswith("Failing: 33 of 60 invocations failed.")
    assert found.evidence == [
        "20 of them said: KeyError: 1",
        "12 of them said: OSError: 1",
        "1 of them said: ValueError: 1",
    ]


def test_failures_that_may_be_are_no_finding() -> None:
    assert judge(failing(KeyError=20), COMMANDS, errors_percent=100.0).finding.cause == "undecided"


def test_a_few_failures_in_one_environment_do_not_lead() -> None:
    found = judge(failing(KeyError=20, b=0, c=0), COMMANDS).finding
    assert (found.cause, found.evidence) == ("undecided", ["20 of 60 invocations failed"])


def test_kills_of_all_environments_count_together() -> None:
    tally = failing(a=0, b=0, c=0)
    for name in ("a", "a", "b"):
        tally.change(reset("out of memory", name))
    found = judge(tally, COMMANDS).finding
    assert found.evidence[0] == "out of memory in 2 of 3 environments"


def test_throttles_that_leave_too_few_are_said() -> None:
    tally = failing(a=0)
    for number in range(30):
        tally.add(throttled(float(number)))
    tally.seconds = 10.0
    assert "30 of 50 requests were throttled" in judge(tally, COMMANDS).finding.evidence
    assert longer_s(tally, 10.0) == 1.5 * 128 / 20 * 10  # until there are 128
    assert longer_s(tally, 100.0) == 200.0


@pytest.mark.parametrize("seed", range(4))
def test_a_cache_that_fills_late_is_no_leak(seed: int) -> None:
    """By second of the minute's half: full after 30 s where requests come all the time, after many pauses elsewhere."""
    random, tally, counts = Random(seed), begun(*map(str, range(8))), [0] * 8
    keys: list[set[int]] = [set() for _ in counts]
    busy_until = [0.0] * len(counts)
    for moment in schedule("mixed", 240.0, seed):
        place = next((each for each, until in enumerate(busy_until) if until <= moment), 0)
        busy_until[place] = moment + 0.06
        counts[place] += 1
        keys[place].add(int(moment) % 30)
        held = 40.0 + 0.5 * len(keys[place]) + random.gauss(0, 0.05)
        seen = line(counts[place], moment, str(place), CurrentRSS=held, PeakRSS=held + 1, durationMs=50.0)
        tally.line(seen, str(place))
    found = judge(tally, COMMANDS)
    assert found.clock.may_end or not found.clock.grows
    assert not found.finding.grows
    assert ("A longer run would tell" in found.finding.paragraph()) == (found.finding.cause == "undecided")


def test_a_leak_that_is_allowed_is_no_leak_by_the_clock() -> None:
    found = judged(_of_minutes(2.0), allowed=("leak",))
    assert "by the clock" not in found.finding.title


@pytest.mark.parametrize("allowed", [(), ("descriptors",)])
def test_descriptors_have_a_clock_of_their_own(allowed: tuple[str, ...]) -> None:
    random, tally = Random(3), begun("a")
    for number, moment in enumerate(schedule("mixed", 300.0, 1), 1):
        tally.add(arrival(moment))
        resources = {"descriptors": {"open": 10 + int(moment / 3), "limit": 1024}}
        held = 40.0 + random.gauss(0, 0.05)
        tally.line(line(number, moment, CurrentRSS=held, PeakRSS=held, durationMs=5.0, resources=resources), "a")
    found = judge(tally, COMMANDS, allowed)
    assert (found.rate("minute") or Rate(0, 0, 99)).high < 50  # KiB of memory, not descriptors
    if allowed:
        assert (found.finding.cause, found.clock.grows, clock_document(found)) == ("none", False, None)
        return
    assert (found.finding.cause, found.clock.name, found.finding.grows) == ("descriptors", "minute", True)
    assert found.finding.title.endswith(" with each minute.")
    assert (clock_document(found) or {})["rate"] == pytest.approx(20, rel=0.05)


def test_a_leak_that_rss_hides_has_the_clock_of_what_is_in_use() -> None:
    def hidden(_: int, held: float) -> dict[str, object]:
        return {"CurrentRSS": 90.0, "heap": {"inUse": held, "held": 80.0 - held, "mapped": 0.0}}

    found = judged(lambda count, minutes, pauses: 0.02 * count, more=hidden)
    assert (found.finding.cause, found.finding.hidden, found.clock.name) == ("leak", True, "invocation")
    assert found.clock.rate_kib == pytest.approx(0.02 * 1024, rel=0.1)


YOUNG_MIB = 16


def collected(count: int, held: float, every: int = 50) -> dict[str, object]:
    """The line of a heap with a major collection every so often. Its garbage makes RSS as high as it gets."""
    used = held + count % 5 / 5 * YOUNG_MIB
    heap = {"runtime": "nodejs", "used": used, "committed": used, "live": held, "collections": count // every}
    return {"CurrentRSS": 120.0 + count % 29, "PeakRSS": 150.0, "processes": 1, "heap": heap}


def test_a_collected_heap_has_the_clock_of_what_it_keeps() -> None:
    found = judged(_of_minutes(3.0), more=collected)
    assert (found.finding.cause, found.clock.name) == ("leak", "minute")
    assert re.fullmatch(r"Leak by the clock: [23]\S+ KiB more in live objects with each minute\.", found.finding.title)


def test_garbage_never_collected_is_no_leak_by_the_clock() -> None:
    def garbage(count: int, held: float) -> dict[str, object]:
        return collected(count, held, every=10_000) | {"CurrentRSS": held + 40}

    found = judged(lambda count, minutes, pauses: 5.0 * minutes, more=garbage)
    assert (found.finding.cause, found.finding.grows, found.clock.name) == ("undecided", False, "")


def test_a_clock_that_is_not_told_apart_needs_more_time() -> None:
    tally = begun("a")
    for number in range(1, 301):  # even traffic: invocations and minutes run alike
        resources = {"descriptors": {"open": 10 + number // 3, "limit": 1024}}
        tally.line(line(number, float(number), CurrentRSS=40.0, durationMs=5.0, resources=resources), "a")
    found = judge(tally, COMMANDS)
    assert (found.finding.cause, found.clock.name, found.clock.grows) == ("descriptors", "", True)


def test_numpy_has_no_threads_that_a_fork_would_end() -> None:
    code = "import os, truemem_workbench.soak.judging; print(len(os.listdir('/proc/self/task')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"


def test_memory_by_a_clock_that_is_not_told_apart() -> None:
    tally = begun("a")
    for number in range(1, 101):  # too few for a verdict by invocation, and both clocks run alike
        tally.line(line(number, 2.0 * number, CurrentRSS=40.0 + number / 10, PeakRSS=60.0, durationMs=5.0), "a")
    found = judge(tally, COMMANDS)
    assert (found.clock.name, found.finding.grows, found.finding.settled) == ("", True, False)
    assert found.finding.title.startswith("Leak by a clock, of RSS: memory grows, but whether by ")
    assert "(--rate mixed)" in found.finding.title and found.finding.next == COMMANDS.mixed

    already = judge(tally, replace(COMMANDS, mixed=COMMANDS.longer))
    assert already.finding.title.endswith(" cannot be told. A longer run would tell.")
    assert already.finding.next == COMMANDS.longer


@pytest.mark.parametrize("full", [lambda count, minutes: count / 800, lambda count, minutes: minutes / 2])
def test_what_fills_slowly_is_no_leak_by_the_clock(full: Callable[[int, float], float]) -> None:
    found = judged(lambda count, minutes, pauses: 20 * (1 - math.exp(-full(count, minutes))))
    assert (found.clock.name, found.clock.may_end) == ("", True)
    assert (found.finding.cause, found.finding.grows, found.finding.settled) == ("undecided", False, False)
    assert "but ever less, as a cache that fills does" in found.finding.paragraph()


def test_of_several_with_too_few_the_busiest_speaks() -> None:
    tally = begun("a", "b", "c")
    for name, served in (("a", 20), ("b", 90), ("c", 40)):
        for number in range(1, served):
            tally.line(line(number, 2.0 * number, name, CurrentRSS=40.0, PeakRSS=41.0, durationMs=5.0), name)
    assert judge(tally, COMMANDS).finding.title.startswith("Undecided: 89 invocations can be judged")


def test_growth_by_invocation_is_as_certain_as_the_finding() -> None:
    # a cache of so many keys would do so until it is full
    found = judged(lambda count, minutes, pauses: 0.1 * count, for_s=120.0, environments=1)
    assert (found.clock.name, found.finding.cause, found.finding.settled) == ("invocation", "leak", False)
    assert "Leak with 84% confidence" in found.finding.title
    assert found.finding.evidence[-1].startswith("growth follows invocations")


def test_a_constant_rate_at_random_wants_other_traffic() -> None:
    found = judged(_of_minutes(3.0), rate="5/s", for_s=60.0, environments=1)
    assert set(found.clock.candidates) >= {"invocation", "minute"}
    assert found.clock.evidence.rstrip(".").lower() in map(str.lower, found.finding.evidence)
