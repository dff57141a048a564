"""How long it warms up, and when it gives up."""

import itertools
from dataclasses import dataclass, field
from typing import Any

import pytest
from truemem_workbench.local import BadInput
from truemem_workbench.runs.passes import HOPELESS, Decision, Plan, hopeless, invoke_until_decided


@dataclass
class Pretended:
    """Settles after so many invocations, and is decided after so many; fails from the first, or never."""

    settles_after: int
    decided_after: int = 0
    fails: bool = False
    events: list[object] = field(default_factory=list)
    passes: int = 0

    def invoke(self, event: object) -> None:
        self.events.append(event)

    def begin_passes(self, invocations: int) -> None:
        self.passes = invocations

    def so_far(self, warm_up: int) -> Any:
        return len(self.events) - warm_up

    def settled(self) -> bool:
        return len(self.events) >= self.settles_after

    @property
    def errors(self) -> list[str]:
        return [str(f"Timeout: {number}" if self.fails else "") for number, _ in enumerate(self.events)]


def drive_it(
    run: Pretended,
    *,
    warm_up: int = 100,
    most: int | None = None,
    shown: list[str] | None = None,
    seconds_each: float = 0,
) -> int:
    class AfterSome(Decision):
        def why(self, measurement: Any) -> str:
            return "" if measurement >= run.decided_after else "still warming"

    def progress(doing: str, done: int, of: int) -> None:
        if shown is not None:
            shown.append(f"{doing} {done}/{of}")

    plan = Plan(invocations=50, most=most, warm_up=warm_up)
    clock = lambda: len(run.events) * seconds_each  # noqa: E731
    return invoke_until_decided(run, ["a", "b", "c"], plan, AfterSome(), progress, clock)


@pytest.mark.parametrize(
    ("settles_after", "warm_up", "taken"),
    [(0, 100, 10), (10, 100, 10), (11, 100, 20), (1000, 100, 100), (1000, 35, 35), (0, 0, 0), (0, 4, 4)],
)
def test_it_warms_up_in_tens_until_it_has_settled(settles_after: int, warm_up: int, taken: int) -> None:
    run = Pretended(settles_after)
    assert drive_it(run, warm_up=warm_up) == taken
    assert run.events == (["a", "b", "c"] * 50)[: taken + 50]


@pytest.mark.parametrize(
    ("decided_after", "most", "made"),
    [(50, None, 50), (51, None, 60), (128, None, 130), (10**6, None, 2000), (10**6, 73, 73), (10**6, 50, 50)],
)
def test_undecided_it_goes_on_in_steps_within_a_bound(decided_after: int, most: int | None, made: int) -> None:
    run = Pretended(0, decided_after)
    taken = drive_it(run, most=most)
    assert len(run.events) - taken == made


@pytest.mark.parametrize(("most", "made"), [(None, 120), (150, 150)])
def test_after_two_minutes_only_most_goes_on(most: int | None, made: int) -> None:
    run = Pretended(0, 10**6)
    drive_it(run, most=most, warm_up=0, seconds_each=1)
    assert len(run.events) == made


def test_the_bar_says_that_it_goes_on_and_why() -> None:
    shown: list[str] = []
    drive_it(Pretended(0, 55), warm_up=0, shown=shown)
    assert shown[49:51] == ["measuring 50/50", "going on: still warming 51/2000"]
    assert shown[-1] == "going on: still warming 60/2000"


def test_the_bound_is_ten_times_what_was_asked_for() -> None:
    for invocations, bound, step in ((3, 2000, 10), (200, 2000, 20), (1000, 10000, 100)):
        plan = Plan(invocations=invocations)
        assert (plan.bound, plan.step) == (bound, step)
    with pytest.raises(BadInput, match=r"--most 10 is below --invocations 50\. Try --most 2000"):
        Plan(invocations=50, most=10)


@pytest.mark.parametrize("warm_up", [0, 3, 100])
def test_where_everything_fails_it_gives_up(warm_up: int) -> None:
    run = Pretended(1000, fails=True)
    drive_it(run, warm_up=warm_up)
    assert len(run.events) == HOPELESS


@pytest.mark.parametrize(
    ("ended", "events", "may_fail", "said"),
    [
        ("TTTTT", "a", 0, "all 5 failed"),
        ("TETET", "a", 0, "all 5 failed"),
        ("TTTT", "a", 0, ""),
        (".TTTTTTTTT", "a", 0, ""),
        (".TTTTTTTTTT", "a", 0, "the last 10 failed in the same way (Timeout)"),
        (".TTTTTETTTTT", "a", 0, ""),
        (".TTTTTTTTTT", "ab", 0, "the last 10 failed in the same way (Timeout)"),
        (".TTTTTTTTTT", "abcdefghijk", 0, ""),
        (".TTTTTTTTTTT", "abcdefghijk", 0, "the last 11 failed in the same way (Timeout)"),
        (".TTTTTTTTTT", "a", 10, ""),
        (".TTTTTTTTTTT", "a", 10, "the last 11 failed in the same way (Timeout)"),
    ],
)
def test_it_stops_where_no_event_can_succeed(ended: str, events: str, may_fail: int, said: str) -> None:
    kinds = {".": "", "T": "Timeout", "E": "OSError"}
    errors = [kinds[each] and f"{kinds[each]}: {number}" for number, each in enumerate(ended)]
    sent = [*itertools.islice(itertools.cycle(events), len(errors))]
    assert hopeless(errors, sent, may_fail) == said


@pytest.mark.parametrize(
    ("invocations", "events", "in_a_pass"),
    [(200, 1, 25), (200, 10, 30), (200, 26, 26), (200, 50, 50), (200, 51, 25), (20, 3, 12), (1, 1, 10)],
)
def test_a_pass_has_all_events_if_they_are_few(invocations: int, events: int, in_a_pass: int) -> None:
    assert Plan(invocations=invocations).in_a_pass(events) == in_a_pass
