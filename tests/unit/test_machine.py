"""The lifecycle's machine, by tables: what happens next, how long to wait, and which actions follow."""

import itertools
from typing import Any

import pytest
from truemem.lifecycle import machine as m
from truemem.lifecycle.turn import Machine, Pending

MS = 1_000_000
NOW_NS = 1000 * MS
LATER_NS = NOW_NS + 250 * MS


def pending(**known: Any) -> Pending:
    """Asked for the next event, the next tick in 250 ms, and what a test says."""
    made = Pending()
    made.asked, made.tick_at_ns = True, LATER_NS
    for name, value in known.items():
        setattr(made, name, value)
    return made


def machine_in(state: str, role: str = m.ON_DEMAND) -> Machine:
    """Long after the last bytes."""
    made = Machine(role, 0)
    made.state = state
    return made


EVERYTHING = {"moments": True, "tick_at_ns": NOW_NS, "deliveries": True, "printable": True}


@pytest.mark.parametrize(
    ("state", "known", "happening"),
    [
        (m.WAITING, {**EVERYTHING, "event_ready": True, "asked": True}, m.EVENT_READY),
        (m.HANDLING, {**EVERYTHING, "event_ready": True}, m.EVENT_READY),
        (m.HANDLING, {**EVERYTHING, "asked": False}, m.NEXT_DUE),
        (m.HANDLING, {**EVERYTHING, "asked": False, "ask_at_ns": LATER_NS}, m.INVOKE_DUE),
        (m.HANDLING, EVERYTHING, m.INVOKE_DUE),
        (m.WAITING, EVERYTHING, m.MOMENT),
        (m.WAITING, {**EVERYTHING, "moments": False}, m.TICK),
        (m.WAITING, {**EVERYTHING, "moments": False, "tick_at_ns": LATER_NS}, m.DELIVERY),
        (m.WAITING, {"printable": True, "output_ready": True}, m.LINE),
        (m.WAITING, {"output_ready": True}, m.OUTPUT),
        (m.WAITING, {"output_at_ns": float(NOW_NS)}, m.OUTPUT),
        (m.WAITING, {"output_at_ns": float(LATER_NS)}, m.IDLE),
        (m.HANDLING, {"output_ready": True}, m.INVOKE_DUE),
        (m.WAITING, {}, m.IDLE),
        (m.INITIALISING, EVERYTHING, m.MOMENT),
        (m.SHUTTING_DOWN, {**EVERYTHING, "last_report_until_ns": LATER_NS}, m.DELIVERY),
        (m.SHUTTING_DOWN, {"report_missing": True, "last_report_until_ns": LATER_NS}, m.IDLE),
        (m.SHUTTING_DOWN, {"report_missing": True, "last_report_until_ns": NOW_NS}, m.TIME_OVER),
        (m.SHUTTING_DOWN, {**EVERYTHING, "deliveries": False, "last_report_until_ns": LATER_NS}, m.TIME_OVER),
    ],
)
def test_the_most_urgent_comes_first(state: str, known: dict[str, Any], happening: str) -> None:
    assert machine_in(state).next(NOW_NS, pending(**known)) == happening


@pytest.mark.parametrize(
    ("state", "known", "ms"),
    [
        (m.WAITING, {}, 250),
        (m.WAITING, {"tick_at_ns": NOW_NS - 1}, 0),
        (m.WAITING, {"asked": False, "ask_at_ns": NOW_NS + 5 * MS}, 5),
        (m.WAITING, {"asked": True, "ask_at_ns": NOW_NS + 5 * MS}, 250),
        (m.WAITING, {"overdue_at_ns": float(NOW_NS + 7 * MS)}, 7),
        (m.WAITING, {"output_at_ns": float(NOW_NS + 7 * MS)}, 7),
        (m.WAITING, {"output_at_ns": float(NOW_NS + 700 * MS)}, 250),
        (m.WAITING, {"deliveries": True}, 0),
        (m.WAITING, {"moments": True}, 0),
        (m.WAITING, {"printable": True}, 0),
        (m.HANDLING, {}, 0),
        (m.SHUTTING_DOWN, {"report_missing": True, "last_report_until_ns": NOW_NS + 50 * MS, "printable": True}, 50),
        (m.SHUTTING_DOWN, {"report_missing": True, "last_report_until_ns": NOW_NS + 50 * MS, "deliveries": True}, 0),
        (m.SHUTTING_DOWN, {"report_missing": False, "last_report_until_ns": NOW_NS + 50 * MS}, 0),
    ],
)
def test_the_wait_ends_when_something_is_due(state: str, known: dict[str, Any], ms: float) -> None:
    assert machine_in(state).wait_ns(NOW_NS, pending(**known)) == ms * MS


@pytest.mark.parametrize(
    ("passed_ms", "bytes_first", "hold_ms"),
    [
        ([0], True, 2),
        ([-1], True, 1),
        ([-2], True, 0),
        ([-3], True, 0),
        ([0], False, 0),  # the responses have passed, or it is not exact mode
        ([-3, -2, -1, 0], True, 2),
        ([-4, -3, -2, -1, 0], True, 1),  # bytes without a pause, for 4 ms by now
        ([-5, -4, -3, -2, -1, 0], True, 0),
        ([-9, -4, -3, -2, -1, 0], True, 1),  # there was a pause before them
    ],
)
def test_other_work_waits_for_a_pause_of_the_bytes_but_not_long(
    passed_ms: list[int], bytes_first: bool, hold_ms: int
) -> None:
    machine, known = Machine(m.ON_DEMAND, 0), pending(bytes_first=bytes_first, printable=True)
    for ms in passed_ms:
        machine.woke(NOW_NS + ms * MS, bytes_passed=True, asking=False)
    assert machine.wait_ns(NOW_NS, known) == hold_ms * MS
    assert machine.has_held_work == (hold_ms > 0)  # telemetry, which comes after it, is not waited for
    if hold_ms:
        assert machine.next(NOW_NS, known) == m.HOLD
    assert machine.next(NOW_NS + hold_ms * MS, known) == m.LINE


def test_when_its_turn_has_come_the_bytes_are_first_again() -> None:
    """After work the bytes have another 5 ms, however long they had passed before it."""
    machine, known = Machine(m.ON_DEMAND, 0), pending(bytes_first=True, printable=True)
    for ms in range(6):
        machine.woke(NOW_NS + ms * MS, bytes_passed=True, asking=False)
    assert machine.next(NOW_NS + 5 * MS, known) == m.LINE
    machine.woke(NOW_NS + 6 * MS, bytes_passed=True, asking=False)
    assert machine.wait_ns(NOW_NS + 6 * MS, known) == 2 * MS


@pytest.mark.parametrize(
    ("late_ms", "asking", "happening"),
    [(6, True, m.HOLD), (5, True, m.TICK), (6, False, m.TICK), (3_600_000, True, m.HOLD)],
    ids=["frozen", "a busy machine", "no event is on its way", "for an hour"],
)
def test_after_a_freeze_the_event_comes_first(late_ms: int, asking: bool, happening: str) -> None:
    machine, known = Machine(m.ON_DEMAND, 0), pending(bytes_first=True, asking=asking, tick_at_ns=NOW_NS)
    machine.woke(NOW_NS - 10 * MS, bytes_passed=False, asking=asking)
    assert machine.wait_ns(NOW_NS - 10 * MS, known) == 10 * MS
    woke_ns = NOW_NS + late_ms * MS
    machine.woke(woke_ns, bytes_passed=False, asking=asking)
    assert machine.next(woke_ns, known) == happening


@pytest.mark.parametrize("role", m.TRANSITIONS)
def test_whatever_happens_in_any_state_the_table_has_it(role: str) -> None:
    """From the first state on, all that `next` can say and all that receiving can give."""
    states, seen = [m.FIRST_STATE[role]], set()
    managed = role == m.MANAGED  # where neither bytes nor moments nor lines are anything to wait for
    times = [NOW_NS - 1, LATER_NS]
    while states:
        state = states.pop()
        if state in seen or state == m.OVER:
            continue
        seen.add(state)
        happenings = set()
        for flags in itertools.product([False, True], repeat=7):
            names = ("asked", "event_ready", "deliveries", "bytes_first", "moments", "printable", "report_missing")
            known = pending(**dict(zip(names, flags, strict=True)))
            if managed:
                known.bytes_first = known.moments = known.printable = False
            known.event_ready &= known.asked
            for known.tick_at_ns, known.ask_at_ns, known.last_report_until_ns in itertools.product(times, repeat=3):
                machine = machine_in(state, role)
                machine.woke(NOW_NS, bytes_passed=flags[0], asking=False)
                happenings.add(machine.next(NOW_NS, known))
        for happening in sorted(happenings):
            machine = machine_in(state, role)
            actions = machine.step(happening)
            after = [machine.state]
            if m.RECEIVE in actions:
                for received in m.NO_EVENT, m.INVOKE, m.INVOKE_LATER, m.SHUTDOWN:
                    machine = machine_in(after[0], role)
                    machine.step(received)
                    after.append(machine.state)
            states += after
    assert seen == {state for state, _ in m.TRANSITIONS[role]}


CLOSING = (m.CLOSE_MOMENTS, m.CLOSE_WINDOW, m.END_SEGMENT, m.CLOSE_RECORD, m.END_INIT)
OPENING = (m.OPEN_RECORD, m.PLAN_TICK, m.READ_AND_RESET, m.RECEIVE)
ENDING = (m.HURRY, m.END_REQUESTS, m.FLUSH_ALL, m.LEAVE_JOURNAL, m.SEND_LAST)
ORDER = (m.ASK_NEXT, m.READ_REASON, *CLOSING, *OPENING, *ENDING)
TOGETHER = {
    m.OPEN_RECORD: {m.CLOSE_MOMENTS, m.CLOSE_WINDOW, m.CLOSE_RECORD, m.PLAN_TICK},
    m.READ_REASON: {m.CLOSE_MOMENTS, m.HURRY},
    m.FLUSH_ALL: {m.SEND_LAST},
}
"""What else there is where the first one is."""


@pytest.mark.parametrize("role", m.TRANSITIONS)
def test_next_comes_first_and_all_else_in_its_order(role: str) -> None:
    for (_, happening), (actions, _) in m.TRANSITIONS[role].items():
        ordered = [name for name in actions if name in ORDER]
        assert ordered == sorted(ordered, key=ORDER.index)
        assert all(TOGETHER[name] <= {*actions} for name in TOGETHER if name in actions)
        assert (m.READ_REASON in actions) == (happening == m.SHUTDOWN)
        if happening in (m.INVOKE, m.INVOKE_LATER, m.NEXT_DUE):
            assert actions[0] == m.ASK_NEXT
        else:
            assert m.ASK_NEXT not in actions
        if m.RECEIVE in actions:
            assert happening == m.EVENT_READY
            assert actions[-1] == m.RECEIVE
