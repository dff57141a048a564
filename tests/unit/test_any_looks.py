"""Any looks at any client: what they tell of its talk is never more than what has happened, and nothing is missed."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from truemem.conversation import BEGUN, BROKEN, MS, WAITING, WORKING, Conversation

from tests.unit.simulated_clients import EVENT, KINDS, STATES, Client, Scene, Workers

pauses = st.sampled_from([0, 0.1, 0.5, 2, 6, 12, 40])


@dataclass
class Invocation:
    """What happens in one, and how often it is looked at. Times in ms."""

    pieces: list[float]
    """Pauses before the pieces of the event; the last one is the whole of what is left."""
    before: int
    """So many of them come before INVOKE comes to us."""
    handler_ms: float
    own: int
    """Requests of the handler itself."""
    response: list[int]
    """Sizes of the response's pieces."""
    pauses: list[float]
    frozen_ms: float
    looks: list[int]
    """After each thing that happens so many."""


invocations = st.builds(
    Invocation,
    pieces=st.lists(st.sampled_from([0, 0.1, 1, 2]), min_size=1, max_size=3),
    before=st.integers(0, 3),
    handler_ms=st.sampled_from([0, 0.3, 2, 10, 30, 300]),
    own=st.integers(0, 2),
    response=st.lists(st.sampled_from([1, 100, 247, 16_000]), min_size=1, max_size=4),
    pauses=st.lists(pauses, min_size=14, max_size=14),
    frozen_ms=st.sampled_from([0, 1, 10, 30, 60_000]),
    looks=st.lists(st.integers(0, 2), min_size=24, max_size=24),
)


class Watch:
    """Looks at an invocation, and compares with the truth what they say.

    Taken for granted: no pause between two pieces of an event is as long as that between two looks.
    """

    def __init__(self, scene: Scene, plan: Invocation) -> None:
        self.scene, self.client, self.plan = scene, scene.client, plan
        self.begun = self.answered = self.asked = self.worked = False
        """The last: it was seen at work, with its whole event; where one connection serves for everything and the
        event may have come in pieces, it takes two looks to know that."""
        self.answered_at_ms = 0.0
        self.at_once = plan.before == 0 and len(plan.pieces) == 1
        """A small event that came after INVOKE came to us."""
        self.hidden = isinstance(scene.client, Workers) and plan.before > 0
        """Nobody saw on which worker's connection the event came: one's first looks like a client that asks anew."""
        self._pauses, self._looks = list(plan.pauses), list(plan.looks)
        self._most = 2
        """So many looks there may be until something else happens."""

    def play(self) -> None:
        plan, client = self.plan, self.client
        client.turn()
        for number, pause in enumerate(plan.pieces):
            if number == plan.before:
                self.begin()
            self.step("event" if number == len(plan.pieces) - 1 else "piece", pause)
        if not self.begun:
            self.begin()
        self.step("", plan.handler_ms)
        for _ in range(plan.own):
            self.step("own")
            self.step("own_answer")
        self.step("connect")
        for size in plan.response:
            self.step("", self._pauses.pop())
            client.response(size)
            self.looks()
        self.step("answer")
        self.step("hang_up")
        self.step("dial")
        self.step("request", 0.1)
        client.wait(plan.frozen_ms)

    def begin(self) -> None:
        self.begun = True
        self.scene.begin()
        if self._most == 1:  # that was one already
            self._most = 0
        self.looks()

    def step(self, what: str, pause: float | None = None) -> None:
        self.client.wait(self._pauses.pop() if pause is None and self._pauses else pause or 0)
        if what:
            getattr(self.client, what)()
        if what == "answer":
            self.answered, self.answered_at_ms = True, self.client.now_ms
        self.asked |= what == "request"
        self._most = 1 if what == "piece" else 2
        self.looks()

    def looks(self) -> None:
        for _ in range(min(self._looks.pop(), self._most) if self._looks and self.begun else 0):
            self.client.wait(0.3)
            self.look()

    def look(self) -> None:
        before, state = self.scene.talk.state, self.scene.look()
        assert state != BROKEN
        assert state != BEGUN or not self.worked
        if state == WAITING:
            assert self.answered
            assert self.asked or not self.client.asks_anew or not self.worked
            ago_ms = self.scene.talk.answered_ago_ms()
            assert ago_ms is None or ago_ms >= self.client.now_ms - self.answered_at_ms
        if state == WORKING:
            self.worked |= self.client.asks_anew or self.at_once or (before == WORKING and not self.scene.talk.moved)
        if self.asked and self.worked and not self.hidden:
            assert state == WAITING


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=120, deadline=None)
@given(plans=st.lists(invocations, min_size=1, max_size=3), jiffy_ms=st.sampled_from([1, 4, 10]))
def test_waiting_is_told_once_the_response_is_answered_and_always_once_it_has_asked(
    kind: type[Client], plans: list[Invocation], jiffy_ms: int
) -> None:
    """Where one connection serves for everything, between the two it may be told or not."""
    scene = Scene(kind, jiffy_ms)
    for plan in plans:
        Watch(scene, plan).play()


counts = st.integers(0, 2 * EVENT)


@settings(max_examples=150, deadline=None)
@given(
    looks=st.lists(st.lists(st.tuples(st.integers(1, 4), counts, counts, counts), max_size=4), max_size=8),
    pauses_ms=st.lists(st.integers(0, 50), min_size=8, max_size=8),
)
def test_no_counts_break_more_than_the_conversation(
    looks: list[list[tuple[int, int, int, int]]], pauses_ms: list[int]
) -> None:
    """Whatever is told: a state, and BROKEN is the last."""
    client, talk = Client(), Conversation()
    talk.begin(client.look(), 0)
    now = 0
    for look, pause_ms in zip(looks, pauses_ms, strict=False):
        now += pause_ms * MS
        for port, sent, received, ago_ms in look:
            wire = client.wires.setdefault(port, client.wires[1])
            wire.sent, wire.received, wire.came_ms = sent, received, client.now_ms - ago_ms
        before = talk.state
        state = talk.observe(client.look(), now, continuous=True)
        assert state in range(len(STATES))
        assert state == BROKEN or before != BROKEN
        assert state >= before or before == WAITING
        for asked in (talk.rests, talk.sent_unasked, talk.completed):
            assert asked(client.look()) in (True, False)
