"""Watching the runtime: what looks at a simulated client come to; and whatever fails ends the watching alone."""

from __future__ import annotations

from itertools import pairwise

import pytest
from truemem import runtime_watch
from truemem.conversation import BEGUN, BROKEN, JIFFY_MS, RESPONDING, STALE_MS, WAITING, WORKING
from truemem.inet_diag import Connection, DiagError
from truemem.procfs import Procfs
from truemem.runtime_watch import IDLE_LOOK_NS, MS, PENDING, RuntimeWatch
from truemem.telemetry import RUNTIME_DONE, Event
from truemem.trust import AGREEMENTS

from tests.unit.simulated_clients import KINDS, Client, Curl

EPOCH_NS = 1_700_000_000_000 * MS


class Table:
    """In place of the process table."""

    address = "127.0.0.1:9001"

    def runtime_address(self) -> str:
        return self.address


class Scene:
    """A watch on a simulated client. It stands for `RuntimeConnections` and for the module `time` as well."""

    def __init__(self, kind: type[Client] = Client, wanted: bool = True) -> None:
        self.client = kind()
        self.opened: list[str] = []
        self.closed = self.looks = self.number = 0
        self.fault: Exception | None = None
        self.table = Table()
        self.watch = RuntimeWatch(self.table, Procfs(), wanted)  # type: ignore[arg-type]

    def time_ns(self) -> int:
        return EPOCH_NS + self.monotonic_ns()

    def monotonic_ns(self) -> int:
        return round(self.client.now_ms * MS)

    def open(self, address: str, *_: object) -> Scene:
        self.opened.append(address)
        return self

    def close(self) -> None:
        self.closed += 1

    def look(self) -> list[Connection]:
        self.looks += 1
        if self.fault is not None:
            raise self.fault
        return self.client.look()

    # What happens

    def begin(self) -> None:
        """INVOKE."""
        self.number += 1
        self.watch.begin(str(self.number))

    def work(self) -> None:
        """The event comes, and is seen to have come."""
        self.begin()
        self.client.wait(1)
        self.client.event()
        assert self.watch.look() == WORKING

    def respond(self) -> None:
        """The response, its answer, the next request. Nobody looks."""
        for act in ("connect", "response", "answer", "hang_up", "dial", "request"):
            getattr(self.client, act)()

    def whole(self) -> None:
        """One invocation, looked at in the middle and at its end."""
        self.work()
        self.client.wait(50)
        self.respond()
        assert self.watch.look() == WAITING
        self.done()
        self.client.wait(30)

    def done(self, ago_ms: float = 0.0, number: int = 0) -> bool:
        """The platform says that the runtime was done with an invocation (the last one) so long ago."""
        record = {"requestId": str(number or self.number)}
        return self.watch.done(Event(RUNTIME_DONE, record, self.time_ns() - round(ago_ms * MS)))


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(runtime_watch, "log", lambda level, message: lines.append(message))
    return lines


def made(monkeypatch: pytest.MonkeyPatch, kind: type[Client] = Client, wanted: bool = True) -> Scene:
    """A scene after the first invocation, which nobody looked at."""
    scene = Scene(kind, wanted)
    monkeypatch.setattr(runtime_watch, "time", scene)
    monkeypatch.setattr(runtime_watch, "RuntimeConnections", scene.open)
    scene.begin()
    scene.client.event()
    scene.client.wait(50)
    scene.respond()
    scene.client.wait(30)
    return scene


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch, logged: list[str]) -> Scene:
    return made(monkeypatch)


@pytest.mark.parametrize("kind", KINDS)
def test_looks_that_agree_with_the_platform_make_the_signal_usable(
    monkeypatch: pytest.MonkeyPatch, kind: type[Client]
) -> None:
    scene = made(monkeypatch, kind)
    for _ in range(AGREEMENTS):
        assert not scene.watch.trust.usable
        scene.whole()
    assert scene.watch.trust.usable


def test_the_states_of_an_invocation(scene: Scene) -> None:
    scene.begin()
    assert scene.watch.look() == BEGUN
    scene.client.event()
    assert scene.watch.look() == WORKING
    scene.client.response()
    assert (scene.watch.look(), scene.watch.moved) == (RESPONDING, True)
    assert (scene.watch.look(), scene.watch.moved) == (RESPONDING, False)
    scene.client.answer()
    scene.client.request()
    assert (scene.watch.look(), scene.watch.state) == (WAITING, WAITING)


def test_the_kernel_is_asked_about_the_runtimes_own_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a proxy it is another one than ours, and not known at the start."""
    scene = Scene()
    monkeypatch.setattr(runtime_watch, "RuntimeConnections", scene.open)
    scene.table.address = "127.0.0.1:9009"
    scene.begin()
    assert scene.opened == ["127.0.0.1:9009"]


def test_connections_are_kept_from_look_to_look(scene: Scene) -> None:
    for _ in range(3):
        scene.whole()
    assert len(scene.opened) == 1
    assert scene.closed == 0


def test_before_the_first_invocation_nothing_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    monkeypatch.setattr(runtime_watch, "RuntimeConnections", scene.open)
    assert not scene.watch.watching
    assert scene.watch.look() == BROKEN
    assert not scene.watch.unmoved()
    assert scene.looks == 0


def test_what_is_not_wanted_never_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = made(monkeypatch, wanted=False)
    scene.begin()
    assert scene.watch.look() == BROKEN
    assert not scene.done()
    assert (scene.looks, scene.opened) == (0, [])


def test_an_invocation_that_nobody_is_to_look_at(scene: Scene) -> None:
    scene.whole()
    looks = scene.looks
    scene.watch.begin("unseen", wanted=False)
    assert scene.looks == looks + 1, "once more, for the end of the one before"
    assert (scene.watch.watching, scene.watch.look(), scene.watch.unmoved()) == (False, BROKEN, None)
    scene.watch.begin("unseen, too", wanted=False)
    assert scene.looks == looks + 1
    assert not scene.watch.trust.ended


def test_after_such_a_one_the_next_begins_like_the_first(scene: Scene) -> None:
    scene.whole()
    scene.watch.begin("unseen", wanted=False)
    scene.client.event()
    scene.client.wait(50)
    scene.respond()
    scene.client.wait(30)
    scene.begin()
    assert scene.watch.look() == BEGUN
    scene.client.event()
    scene.client.response()
    assert scene.watch.look() == RESPONDING


def test_where_nothing_is_held_looks_become_rarer(scene: Scene) -> None:
    scene.begin()
    looks = []
    for _ in range(1000):
        scene.client.wait(1)
        if scene.watch.due(scene.monotonic_ns()):
            scene.watch.look()
            looks.append(scene.client.now_ms)
    gaps = [later - earlier for earlier, later in pairwise(looks)]
    assert gaps == sorted(gaps)
    assert min(gaps) * MS >= IDLE_LOOK_NS
    assert max(gaps) >= 2 * min(gaps)


def test_what_is_not_watched_is_never_due(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not made(monkeypatch, wanted=False).watch.due(10**18)


# Rest


def test_it_is_unmoved_while_it_waits_and_sends_nothing(scene: Scene) -> None:
    scene.work()
    assert scene.watch.unmoved() is None
    scene.respond()
    assert scene.watch.unmoved() is None, "it has not been seen waiting"
    scene.watch.look()
    assert scene.watch.unmoved() is True
    scene.client.wait(60_000)
    scene.client.event()
    assert scene.watch.unmoved() is True


def test_what_it_has_sent_after_an_event_may_be_the_next_response(scene: Scene) -> None:
    scene.whole()
    scene.client.event()
    scene.client.response()
    assert scene.watch.unmoved() is None


def test_what_it_has_sent_without_an_event_tells_that_it_did_not_rest(scene: Scene) -> None:
    scene.whole()
    scene.client.response()
    assert scene.watch.unmoved() is False


def test_and_so_does_a_request_that_came_later_even_if_the_event_has_come(scene: Scene) -> None:
    scene.work()
    scene.client.response()
    scene.client.answer()
    assert scene.watch.look() == WAITING, "on one connection it seems so from the answer on"
    scene.client.request()
    scene.client.event()
    assert scene.watch.unmoved() is False


def test_how_long_it_has_been_back_is_told_at_most_by_the_last_look_that_saw_it_at_work(scene: Scene) -> None:
    scene.work()
    scene.client.wait(2)
    scene.respond()
    scene.client.wait(1)
    scene.watch.look()
    assert scene.watch.back_for_ms() == pytest.approx(3)


def test_and_by_the_kernels_own_time_of_the_answer(scene: Scene) -> None:
    scene.work()
    scene.client.wait(500)
    scene.respond()
    scene.client.wait(5)
    scene.watch.look()
    assert 5 <= scene.watch.back_for_ms() <= 5 + 2 * JIFFY_MS


def test_at_rest_it_stays_waiting_until_an_event_comes(scene: Scene) -> None:
    scene.whole()
    scene.watch.rest()
    for _ in range(3):
        scene.client.wait(STALE_MS)
        assert scene.watch.look() == WAITING
    scene.client.event()
    scene.client.wait(10)
    scene.client.response()
    assert scene.watch.look() == BEGUN, "an event that has not come to us is being worked at"
    assert scene.watch.watching


def test_curls_event_at_rest_is_no_contradiction(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = made(monkeypatch, Curl)
    scene.whole()
    scene.watch.rest()
    scene.client.event()
    assert scene.watch.look() == BEGUN
    assert scene.watch.watching


def test_the_request_itself_may_come_after_the_window_was_closed(scene: Scene) -> None:
    """Between the answer and the request it seems to wait."""
    scene.work()
    scene.client.response()
    scene.client.answer()
    assert scene.watch.look() == WAITING
    scene.watch.rest()
    scene.client.request()
    assert not scene.watch.unmoved()
    assert scene.watch.look() == BEGUN
    assert scene.watch.watching


def test_what_is_sent_at_rest_before_an_event_is_a_contradiction(scene: Scene, logged: list[str]) -> None:
    scene.whole()
    scene.watch.rest()
    scene.client.response()
    assert scene.watch.look() == BROKEN
    assert not scene.watch.watching
    assert "sent more before an event came" in logged[0]


# The platform's word


def test_a_rest_is_confirmed_by_the_platform(scene: Scene) -> None:
    scene.whole()
    scene.watch.rest()
    assert scene.done(ago_ms=1)
    assert not scene.done(number=99), "nobody's invocation"


def test_the_platforms_word_without_a_time_says_nothing(scene: Scene) -> None:
    scene.whole()
    scene.watch.rest()
    assert not scene.watch.done(Event(RUNTIME_DONE, {"requestId": str(scene.number)}))
    assert scene.watch.watching


def test_the_word_on_an_invocation_may_come_some_invocations_later(scene: Scene) -> None:
    for _ in range(PENDING + 3):
        scene.work()
        scene.respond()
        scene.watch.look()
        scene.watch.rest()
        scene.client.wait(30)
    ago_ms = 30 + 31 * (PENDING - 1)
    assert scene.done(ago_ms, number=scene.number - PENDING + 1)
    assert not scene.done(ago_ms + 31, number=scene.number - PENDING)
    assert scene.watch.watching


def test_an_end_that_was_not_looked_at_is_seen_at_the_next_event(scene: Scene) -> None:
    scene.work()
    scene.client.wait(50)
    scene.respond()
    scene.begin()
    scene.done(number=scene.number - 1)
    assert scene.watch.trust.agreed == 1


def test_waiting_seen_too_early_ends_the_watching(scene: Scene, logged: list[str]) -> None:
    scene.work()
    scene.respond()
    scene.watch.look()
    scene.client.wait(30)
    assert not scene.done()
    assert (scene.watch.watching, scene.watch.look(), scene.closed) == (False, BROKEN, 1)
    assert "seen waiting 30 ms before" in logged[0]


@pytest.mark.parametrize("seen_to_its_end", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_an_invocation_that_was_over_before_we_knew_of_it_contradicts_nothing(
    monkeypatch: pytest.MonkeyPatch, kind: type[Client], seen_to_its_end: bool
) -> None:
    scene = made(monkeypatch, kind)
    if seen_to_its_end:
        scene.whole()
    scene.client.event()
    scene.respond()
    scene.begin()
    for _ in range(10):
        scene.client.wait(5)
        scene.watch.look(continuous=True)
    scene.done(ago_ms=50)
    assert not scene.watch.trust.ended


def test_work_that_was_seen_late_ends_the_watching(scene: Scene, logged: list[str]) -> None:
    scene.work()
    scene.client.wait(30)
    scene.watch.look(continuous=True)
    scene.done(ago_ms=25)
    assert "seen working 25 ms after platform.runtimeDone" in logged[-1]


def test_that_it_has_not_moved_yet_proves_nothing(scene: Scene) -> None:
    scene.work()
    scene.respond()
    scene.watch.look()
    assert scene.watch.unmoved()
    scene.client.wait(30)
    scene.done()
    assert not scene.watch.watching


def test_a_rest_that_nothing_broke_is_one_whatever_the_platform_says_later(scene: Scene) -> None:
    scene.work()
    scene.respond()
    scene.watch.look()
    scene.watch.rest()
    scene.client.wait(100)
    scene.client.event()
    assert scene.watch.unmoved()
    scene.begin()
    scene.done(number=scene.number - 1)
    assert scene.watch.watching


# Failures


@pytest.mark.parametrize("fault", [DiagError("errno 1"), OSError(9, "bad descriptor"), ZeroDivisionError("a bug")])
@pytest.mark.parametrize("when", ["begin", "work", "rest"])
def test_any_failure_ends_the_watching_and_nothing_else(
    scene: Scene, logged: list[str], fault: Exception, when: str
) -> None:
    if when == "work":
        scene.work()
    elif when == "rest":
        scene.whole()
    scene.fault = fault
    if when == "begin":
        scene.begin()
    elif when == "work":
        assert scene.watch.look() == BROKEN
    else:
        assert not scene.watch.unmoved()
    assert (scene.watch.watching, scene.watch.trust.usable, scene.watch.state) == (False, False, BROKEN)
    assert scene.closed == 1
    assert len(logged) == 1
    assert str(fault) in logged[0]

    scene.fault = None
    looks = scene.looks
    scene.begin()
    assert scene.watch.look() == BROKEN
    assert (scene.watch.unmoved(), scene.done()) == (None, False)
    assert (scene.looks, len(logged)) == (looks, 1)


def test_a_kernel_that_does_not_tell_at_all(monkeypatch: pytest.MonkeyPatch, logged: list[str]) -> None:
    def refuse(*_: object) -> None:
        raise DiagError("errno 1")

    monkeypatch.setattr(runtime_watch, "RuntimeConnections", refuse)
    watch = Scene().watch
    watch.begin("1")
    assert (watch.watching, watch.look()) == (False, BROKEN)
    assert "errno 1" in logged[0]


def test_counts_that_cannot_be_end_it_with_the_reason(scene: Scene, logged: list[str]) -> None:
    scene.work()
    scene.client.send(scene.client.asking, -10)
    assert scene.watch.look() == BROKEN
    assert "bytes became" in logged[0]


def test_counts_that_stand_still_are_noticed_only_where_nothing_was_frozen(scene: Scene) -> None:
    scene.work()
    for wire in scene.client.wires.values():
        wire.came_ms += STALE_MS
    scene.client.wait(STALE_MS)
    assert scene.watch.look(continuous=False) == WORKING
    assert scene.watch.look(continuous=True) == BROKEN
