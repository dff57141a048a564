"""Which invocations are held, and what becomes of a hold: by mode, trust, purse, and what telemetry says."""

from __future__ import annotations

import pytest
from truemem import holder as holder_module
from truemem.conversation import BEGUN, RESPONDING, WAITING, WORKING
from truemem.hold import FOREVER, MISSES, MS, patience_ns
from truemem.holder import BEGUN_NS, LONGEST_NS, LOOKS, Holder
from truemem.sampler import BURST_NS, Budget
from truemem.telemetry import REPORT, RUNTIME_DONE, START, Event

SECOND = 1000 * MS


class Trust:
    """Usable, until the test says otherwise."""

    usable = True


class Watch:
    """What the holder knows of the runtime's talk."""

    def __init__(self) -> None:
        self.trust = Trust()
        self.state = WORKING
        self.moved = False


class Scene:
    """A holder, its watch, and its CPU budget; the purse is full unless told otherwise."""

    def __init__(self, mode: str = "auto", telemetry: bool = True, share: float = 0.5, billed_ms: float = 1000) -> None:
        self.watch = Watch()
        self.cpu = Budget(0.5, 1.0, 0)
        self.holder = Holder(mode, share, self.cpu, telemetry, self.watch)  # type: ignore[arg-type]
        if billed_ms:
            self.report("0", billed_ms, billed_ms)

    def begin(self, request_id: str = "1", raced: bool = False) -> bool:
        return self.holder.begin(request_id, 0, 30_000, raced)

    def tell(self, kind: str, request_id: str, **metrics: float) -> None:
        self.holder.hear(Event(kind, {"requestId": request_id, "metrics": metrics}))

    def done(self, request_id: str, ms: float) -> None:
        self.tell(RUNTIME_DONE, request_id, durationMs=ms)

    def report(self, request_id: str, ms: float, billed_ms: float = 0) -> None:
        self.tell(REPORT, request_id, durationMs=ms, billedDurationMs=billed_ms)

    def holds(self, ms: float) -> int:
        """How many of this cost can be paid for, one after the other."""
        count = 0
        while self.holder.wants(0) and count < 1000:
            self.begin(str(count))
            self.holder.end(ms)
            count += 1
        return count


@pytest.fixture(autouse=True)
def logged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(holder_module, "log", lambda level, message: lines.append(message))
    return lines


# Which are held


@pytest.mark.parametrize(
    ("mode", "telemetry", "wants"),
    [
        ("off", True, False),
        ("auto", True, True),
        ("auto", False, False),
        ("always", True, True),
        ("always", False, False),
    ],
)
def test_by_mode_and_only_with_telemetry(mode: str, telemetry: bool, wants: bool) -> None:
    assert Scene(mode, telemetry).holder.wants(0) is wants


def test_auto_does_not_hold_before_its_signal_has_agreed() -> None:
    scene = Scene()
    scene.watch.trust.usable = False
    assert not scene.holder.wants(0)


def test_always_asks_nobody() -> None:
    scene = Scene("always", billed_ms=0)
    scene.watch.trust.usable = False
    scene.cpu.spend(SECOND, 0)
    assert scene.holder.wants(0)
    assert scene.begin(raced=True)


def test_auto_does_not_hold_what_it_has_not_earned() -> None:
    assert not Scene(billed_ms=0).holder.wants(0)


def test_auto_does_not_hold_without_the_cpu_time_for_some_looks() -> None:
    scene = Scene()
    scene.cpu.spend(BURST_NS - LOOKS * scene.cpu.cost_ns // 2, 0)
    assert not scene.holder.wants(0)
    assert scene.holder.wants(SECOND)


def test_what_raced_at_its_beginning_is_not_worth_a_hold() -> None:
    scene = Scene()
    assert not scene.begin(raced=True)
    assert scene.holder.hold is None


# How a hold ends


def test_autos_patience_grows_with_what_invocations_take() -> None:
    scene = Scene()
    scene.done("0", 400)
    scene.begin()
    scene.tell(START, "1")
    scene.watch.moved = True
    scene.holder.see(WORKING, 0, 0)
    assert scene.holder.ends_at() == patience_ns(400)


def test_what_looks_show_reaches_the_hold() -> None:
    scene = Scene()
    scene.begin()
    before = scene.holder.ends_at()
    scene.watch.moved = True
    scene.holder.see(RESPONDING, 0, 0)
    assert scene.holder.ends_at() < before


def test_telemetry_of_another_invocation_is_no_word_on_this_one() -> None:
    scene = Scene("always")
    scene.begin("2")
    silent = scene.holder.ends_at()
    scene.tell(START, "1")
    assert scene.holder.ends_at() == silent
    scene.tell(START, "2")
    assert scene.holder.ends_at() > silent


def test_after_some_holds_for_nothing_there_are_no_more(logged: list[str]) -> None:
    scene = Scene("always")
    for number in range(MISSES):
        assert scene.holder.wants(0)
        scene.begin(str(number))
        scene.holder.miss(0, 30 * SECOND)
        assert scene.holder.hold is None
    assert not scene.holder.wants(0)
    assert "not holding any more" in logged[-1]


def test_one_that_ends_well_forgives_those_before() -> None:
    scene = Scene("always")
    for number in range(5 * MISSES):
        scene.begin(str(number))
        if number % MISSES == 0:
            scene.holder.end(1)
        else:
            scene.holder.miss(0, 30 * SECOND)
    assert scene.holder.wants(0)


def test_a_miss_says_which_invocation_and_why(logged: list[str]) -> None:
    scene = Scene()
    scene.begin("f8a1")
    scene.holder.miss(0, 20 * MS)
    assert "f8a1" in logged[0]
    assert "the event was not seen to arrive" in logged[0]


# What holds cost


def test_holds_are_paid_for_out_of_what_is_billed() -> None:
    assert Scene(share=0.01, billed_ms=2000).holds(2.0) == 10


def test_what_is_let_go_is_paid_for_as_well() -> None:
    scene = Scene(share=0.01, billed_ms=2000)
    scene.begin()
    scene.holder.miss(15, 20 * MS)
    assert scene.holds(2.0) <= 2


def test_always_pays_nothing() -> None:
    scene = Scene("always")
    for number in range(100):
        scene.begin(str(number))
        scene.holder.end(1000)
    assert scene.holder.wants(0)


@pytest.mark.parametrize(
    ("after_ms", "comes_back"),
    [
        (3.0, False),  # it cost what it seemed
        (1.0, True),  # as after any invocation: it was free
        (0.5, True),  # even shorter than those
        (2.0, True),  # 1 of the 2 ms
    ],
)
def test_the_platforms_word_on_what_a_hold_has_cost(after_ms: float, comes_back: bool) -> None:
    """Invocations that are not held last 1 ms longer than their runtime; this one `after_ms`."""
    left = []
    for told in (False, True):
        scene = Scene(share=0.01, billed_ms=2000)
        scene.done("unheld", 50)
        scene.report("unheld", 51)
        scene.begin("held")
        scene.holder.end(2.0)
        if told:
            scene.done("held", 50)
            scene.report("held", 50 + after_ms)
        left.append(scene.holds(1.0))
    assert (left[1] > left[0]) is comes_back


def test_a_report_is_held_against_its_own_invocations_end_alone() -> None:
    left = []
    for last in ("1", "2"):
        scene = Scene(share=0.01, billed_ms=2000)
        scene.begin("1")
        scene.holder.end(5.0)
        scene.done(last, 50)
        scene.report("1", 50)
        left.append(scene.holds(1.0))
    assert left[0] > left[1]


def test_a_hold_is_settled_once() -> None:
    scene = Scene(share=0.01, billed_ms=2000)
    scene.begin("1")
    scene.holder.end(2.0)
    scene.done("1", 50)
    scene.report("1", 50)
    once = Scene(share=0.01, billed_ms=2000)
    once.begin("1")
    once.holder.end(2.0)
    once.done("1", 50)
    once.report("1", 50)
    once.tell(REPORT, "1", durationMs=0)
    assert once.holds(1.0) == scene.holds(1.0)


def test_events_that_lack_their_members_change_nothing() -> None:
    scene = Scene(billed_ms=0)
    for kind in (START, RUNTIME_DONE, REPORT):
        scene.holder.hear(Event(kind, {}))
        scene.holder.hear(Event(kind, {"requestId": "1"}))
        scene.holder.hear(Event(kind, {"metrics": {"durationMs": 1e6, "billedDurationMs": 1e6}}))
    assert not scene.holder.wants(0)


# When to look


def test_until_the_event_is_seen_there_are_looks_at_fixed_ages() -> None:
    scene = Scene()
    scene.done("0", 10_000)
    scene.watch.state = BEGUN
    began, now = 7 * MS, 7 * MS
    for moment in BEGUN_NS:
        assert scene.holder.next_look(began, now) == began + moment
        now = began + moment
    assert scene.holder.next_look(began, now) == now + LONGEST_NS
    scene.watch.state = WORKING
    assert scene.holder.next_look(began, began) == began + LONGEST_NS


def test_always_looks_at_nothing() -> None:
    scene = Scene("always")
    scene.begin()
    assert scene.holder.next_look(0, 0) == FOREVER


@pytest.mark.parametrize(
    ("mode", "usable", "held", "wants"),
    [
        ("auto", False, False, True),  # to learn whether looks are right
        ("auto", True, False, False),
        ("auto", True, True, True),
        ("off", False, False, False),
    ],
)
def test_which_invocations_are_looked_at(mode: str, usable: bool, held: bool, wants: bool) -> None:
    scene = Scene(mode)
    scene.watch.trust.usable = usable
    if held:
        scene.begin()
    assert scene.holder.wants_looks() is wants


@pytest.mark.parametrize("state", [BEGUN, WORKING, RESPONDING, WAITING])
@pytest.mark.parametrize("spent_ms", [0, 10_000])
@pytest.mark.parametrize("longest_ms", [0.1, 60_000])
def test_looks_are_never_far_apart_whatever_they_cost(state: int, spent_ms: int, longest_ms: float) -> None:
    scene = Scene()
    scene.done("0", longest_ms)
    scene.watch.state = state
    scene.holder.see(state, spent_ms * MS, 0)
    for now in (0, 5 * MS, 500 * MS, 30 * SECOND):
        assert now < scene.holder.next_look(0, now) <= now + LONGEST_NS


def test_looks_wait_for_cpu_time() -> None:
    scene = Scene()
    scene.begin()
    free = scene.holder.next_look(0, 0)
    for _ in range(20):
        scene.holder.see(WORKING, MS, 0)
    assert scene.holder.next_look(0, 0) > free
