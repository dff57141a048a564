"""How far the talk has got: what looks at each kind of client tell, as traces. (Any looks: test_any_looks.py.)"""

from __future__ import annotations

import pytest
from truemem import conversation
from truemem.conversation import BROKEN, JIFFY_MS, MS, PIECES_MS, STALE_MS, WORKING

from tests.unit.simulated_clients import REQUEST, STATES, Client, Curl, Node, Pool, Scene, Workers

REST = "answer hang_up dial request"
"""What is left to do once the response is sent."""

TRACES = {
    "python": (
        Client,
        """
        BEGUN event WORKING 100ms WORKING
        response RESPONDING 30ms RESPONDING
        answer WAITING  # or about to be: on one connection that cannot be told
        request WAITING 100ms WAITING
        begin BEGUN event WORKING
        """,
    ),
    "node": (
        Node,
        """
        BEGUN event WORKING 100ms WORKING
        connect WORKING response RESPONDING 30ms RESPONDING
        answer RESPONDING dial RESPONDING request WAITING 100ms WAITING
        begin BEGUN event WORKING
        """,
    ),
    "node, whose next event has come before ours": (
        Node,
        f"event WORKING connect response {REST} WAITING event RESPONDING 50ms RESPONDING",
    ),
    "node, whose server closes its old connections": (
        Node,
        "event forget WORKING 100ms forget WORKING response RESPONDING answer forget RESPONDING dial request WAITING "
        "forget WAITING",
    ),
    "curl": (
        Curl,
        """
        BEGUN event WORKING 100ms WORKING  # the connection on which the event came is gone
        connect WORKING response RESPONDING answer RESPONDING hang_up RESPONDING dial RESPONDING
        request WAITING 100ms WAITING
        begin BEGUN event WORKING
        """,
    ),
    "curl, looked at rarely": (Curl, f"event 5ms WORKING connect response {REST} WAITING"),
    "several workers, of which the others wait all the time": (
        Workers,
        """
        BEGUN 15ms BEGUN event WORKING 100ms WORKING response RESPONDING answer WAITING request WAITING
        turn begin BEGUN event WORKING response RESPONDING answer request WAITING
        """,
    ),
    "a pool of two connections": (
        Pool,
        """
        BEGUN event WORKING 100ms WORKING response RESPONDING 30ms RESPONDING answer RESPONDING
        request WAITING 100ms WAITING
        begin BEGUN event WORKING
        """,
    ),
    "an event in pieces": (
        Client,
        "piece WORKING 3ms piece WORKING 9ms event WORKING 100ms WORKING response RESPONDING",
    ),
    "an event in pieces, of which no look sees the last": (
        Client,
        "piece WORKING event response RESPONDING answer RESPONDING",  # what came in may be the rest of the event
    ),
    "one in more pieces": (Client, "piece WORKING 1ms piece WORKING event response RESPONDING answer RESPONDING"),
    "a response that streams": (
        Client,
        """
        event WORKING
        response RESPONDING 30ms response RESPONDING 500ms RESPONDING response response RESPONDING 3ms RESPONDING
        answer request WAITING
        """,
    ),
    "a response that streams on a connection of its own": (
        Curl,
        "event WORKING connect response RESPONDING 30ms response RESPONDING 500ms RESPONDING answer hang_up dial "
        "RESPONDING request WAITING",
    ),
    "an error": (Client, "event WORKING error RESPONDING answer request WAITING"),
    "an error, posted with curl": (Curl, f"event WORKING connect error RESPONDING {REST} WAITING"),
    "all between two looks": (Client, f"event WORKING response {REST} WAITING"),
    "event and response between two looks": (
        Client,
        """
        BEGUN event response RESPONDING  # what came in may be the event or the answer
        answer RESPONDING
        """,
    ),
    "a whole invocation between two looks": (Client, f"BEGUN event response {REST} RESPONDING 100ms RESPONDING"),
    "a whole invocation before the first look": (Node, f"event connect response {REST} RESPONDING 100ms RESPONDING"),
    "event and response between two looks, with curl": (
        Curl,
        "BEGUN event connect response RESPONDING hang_up RESPONDING dial RESPONDING request WAITING",
    ),
    "an event that was there before us": (
        Client,
        f"""
        event WORKING response {REST} WAITING 100ms WAITING event
        begin WORKING 40ms WORKING response RESPONDING
        """,
    ),
    "an event that was there before us, after an invocation that was not seen to its end": (
        Client,
        """
        100ms event
        begin BEGUN 5ms BEGUN 5ms WORKING  # by then it must be there
        1ms WORKING response RESPONDING answer request WAITING
        """,
    ),
    "the same with curl, whose connection for it is gone": (
        Curl,
        f"event WORKING connect response {REST} WAITING 100ms event begin WORKING connect response RESPONDING",
    ),
    "the same with a connection of the handler's that is still there": (
        Curl,
        f"event WORKING own own_answer connect response {REST} WAITING 100ms event begin WORKING",
    ),
    "an invocation that was done before we knew of it": (
        Client,
        f"event WORKING response {REST} WAITING 100ms event response {REST} begin RESPONDING 40ms RESPONDING",
    ),
    "the same on connections of their own": (
        Node,
        f"event WORKING connect response {REST} WAITING 100ms event response {REST} begin RESPONDING 40ms RESPONDING",
    ),
    "one that had begun to respond before we knew of it": (
        Client,
        f"event WORKING response {REST} WAITING event response begin RESPONDING response RESPONDING {REST} WAITING",
    ),
    "one that had begun to respond, with curl": (
        Curl,
        f"event WORKING connect response {REST} WAITING event connect response begin RESPONDING {REST} WAITING",
    ),
    "one that had not: only the request for its event was seen late": (
        Client,
        "event WORKING response answer WAITING request event begin WORKING 40ms WORKING response RESPONDING",
    ),
    "an event that is late, after an invocation that was not seen to its end": (
        Client,
        f"event response {REST} begin 11ms WORKING event response RESPONDING",  # what came before was the answer
    ),
    "no pause between two invocations": (
        Client,
        f"event WORKING response {REST} WAITING begin BEGUN 3ms BEGUN 9ms BEGUN event WORKING response RESPONDING",
    ),
    "no pause after an invocation that was not seen to its end": (
        Client,
        f"event response {REST} begin BEGUN 9ms BEGUN event WORKING response RESPONDING",
    ),
    "the handler's own traffic, elsewhere": (
        Client,
        """
        event WORKING own RESPONDING own_answer RESPONDING 50ms RESPONDING
        response RESPONDING answer request WAITING
        """,
    ),
    "the handler's own traffic beside curl": (
        Curl,
        f"event WORKING own RESPONDING 50ms own_answer RESPONDING connect response RESPONDING {REST} WAITING",
    ),
    "an own request that nobody answers": (Curl, f"event WORKING own RESPONDING connect response {REST} WAITING"),
}


@pytest.mark.parametrize("name", TRACES)
def test_what_looks_tell(name: str) -> None:
    kind, trace = TRACES[name]
    Scene(kind).play(trace)


def test_the_states_are_those_of_the_traces() -> None:
    assert [getattr(conversation, name) for name in STATES] == list(range(len(STATES)))


@pytest.mark.parametrize("kind", [Client, Node, Curl, Workers])
def test_an_environments_first_invocation_is_told_like_any_other(kind: type[Client]) -> None:
    Scene(kind, earlier=0).play(f"BEGUN event WORKING 50ms WORKING connect response RESPONDING {REST} WAITING")


def test_own_traffic_on_the_runtimes_connection_looks_like_a_response() -> None:
    """No known runtime does so. What gives it away is what is sent after it: nothing rests."""
    scene = Scene(Client)
    scene.play("event WORKING response answer WAITING")
    assert scene.talk.rests(scene.client.look())
    scene.play("50ms response")
    assert not scene.talk.rests(scene.client.look())


@pytest.mark.parametrize("count", ["unsent", "unread"])
def test_what_is_still_on_its_way_is_no_rest(count: str) -> None:
    scene = Scene(Client)
    scene.play("event WORKING response answer")
    setattr(scene.client.wires[scene.client.asking], count, 1)
    scene.play("RESPONDING")
    setattr(scene.client.wires[scene.client.asking], count, 0)
    scene.play("request WAITING")


@pytest.mark.parametrize("kind", [Client, Node, Pool])
def test_a_response_that_is_as_long_as_a_request_is_none(kind: type[Client]) -> None:
    scene = Scene(kind)
    scene.play("event WORKING connect")
    scene.client.response(REQUEST)
    scene.play(f"RESPONDING {REST} WAITING")


def test_a_connection_on_which_something_else_was_sent_is_no_request() -> None:
    scene = Scene(Curl)
    scene.play("event WORKING connect")
    scene.client.send(scene.client.responding, REQUEST + 1)
    scene.play("RESPONDING")


# Counts that cannot be


@pytest.mark.parametrize("count", ["sent", "received"])
@pytest.mark.parametrize("state", ["WORKING", "response RESPONDING", "response answer request WAITING"])
def test_a_count_that_falls(state: str, count: str) -> None:
    scene = Scene(Client)
    scene.play(f"event WORKING {state}")
    wire = scene.client.wires[scene.client.asking]
    setattr(wire, count, getattr(wire, count) - 1)
    scene.play("BROKEN")


def test_broken_is_broken_for_ever_and_says_why() -> None:
    scene = Scene(Client)
    scene.play("event WORKING")
    scene.client.send(scene.client.asking, -1)
    scene.play("BROKEN response answer request BROKEN begin event BROKEN")
    assert "bytes became" in scene.talk.contradiction


def test_data_that_came_and_was_not_counted() -> None:
    scene = Scene(Client)
    scene.play("event WORKING 100ms WORKING")
    scene.client.receive(scene.client.asking, 0)
    scene.play("BROKEN")


def test_an_answer_to_nothing() -> None:
    """More of the event does not come so late."""
    scene = Scene(Client)
    scene.play(f"event WORKING {PIECES_MS}ms piece WORKING {JIFFY_MS + 1}ms piece BROKEN")
    assert "answer" in scene.talk.contradiction


def test_what_came_in_time_and_is_seen_late_is_no_answer() -> None:
    Scene(Client).play("event WORKING 5ms piece 60ms WORKING 60ms WORKING")


@pytest.mark.parametrize("state", ["BEGUN", "event WORKING", "event WORKING response RESPONDING"])
def test_counts_that_do_not_age(state: str) -> None:
    scene = Scene(Client)
    scene.play(state)
    look, then = scene.client.look(), scene.now_ns
    before = scene.talk.state
    assert scene.talk.observe(look, then + (STALE_MS - 1) * MS, continuous=True) == before
    assert scene.talk.observe(look, then + STALE_MS * MS, continuous=True) == BROKEN


def test_counts_do_not_age_while_all_is_frozen() -> None:
    scene = Scene(Client)
    scene.play("event WORKING")
    assert scene.talk.observe(scene.client.look(), scene.now_ns + 60_000 * MS, continuous=False) == WORKING


def test_a_connection_that_is_gone_contradicts_nothing() -> None:
    scene = Scene(Node)
    scene.play("event WORKING")
    scene.client.wires.clear()
    scene.play("WORKING")


# What else is asked


def test_a_rest_lasts_until_something_is_sent() -> None:
    scene = Scene(Client)
    scene.play("event WORKING")
    assert not scene.talk.rests(scene.client.look())
    scene.play("response answer request WAITING")
    assert scene.talk.rests(scene.client.look())
    scene.play("60000ms event")
    assert scene.talk.rests(scene.client.look())
    scene.play("10ms response")
    assert not scene.talk.rests(scene.client.look())


def test_between_the_answer_and_the_request_is_no_rest() -> None:
    scene = Scene(Client)
    scene.play("event WORKING response answer WAITING request")
    assert not scene.talk.rests(scene.client.look())


def test_a_new_connection_that_sends_ends_a_rest() -> None:
    scene = Scene(Node)
    scene.play("event WORKING response answer dial request WAITING own")
    assert not scene.talk.rests(scene.client.look())


def test_where_the_asking_connection_is_gone_nobody_knows_of_a_rest() -> None:
    scene = Scene(Curl)
    scene.play(f"event WORKING connect response {REST} WAITING")
    assert scene.talk.rests(scene.client.look())
    scene.play("event")
    assert not scene.talk.rests(scene.client.look())


@pytest.mark.parametrize(
    ("trace", "unasked"),
    [("", False), ("event", False), ("event response", False), ("response", True), ("own", True)],
)
def test_was_something_sent_before_an_event_came(trace: str, unasked: bool) -> None:
    scene = Scene(Client)
    scene.play("event WORKING response answer request WAITING " + trace)
    assert scene.talk.sent_unasked(scene.client.look()) is unasked


@pytest.mark.parametrize(
    ("trace", "asked"),
    [
        ("", False),
        ("request", True),
        ("event", False),
        ("response", False),
        ("request response", False),
        ("own", False),
    ],
)
def test_was_it_a_request_that_was_sent_after_it_had_seemed_to_wait(trace: str, asked: bool) -> None:
    """On one connection it seems so from the answer on."""
    scene = Scene(Client)
    scene.play("event WORKING response answer WAITING " + trace)
    assert scene.talk.asked(scene.client.look()) is asked


@pytest.mark.parametrize(
    ("trace", "completed"),
    [
        ("", False),
        ("event", False),
        ("event WORKING 10ms", False),
        ("event WORKING 10ms response answer request", True),
        ("event WORKING response RESPONDING answer request", True),
        ("event WORKING response answer request WAITING", True),
    ],
)
def test_was_it_completed_by_the_next_event(trace: str, completed: bool) -> None:
    scene = Scene(Client)
    scene.play(trace)
    assert scene.talk.completed(scene.client.look()) is completed


def test_since_when_it_has_its_answer_is_told_at_most() -> None:
    scene = Scene(Client)
    scene.play("event WORKING response answer request 70ms WAITING")
    assert 70 <= (scene.talk.answered_ago_ms() or 0) <= 70 + 2 * JIFFY_MS


def test_a_client_that_keeps_no_connection_does_not_tell_when() -> None:
    scene = Scene(Curl)
    scene.play(f"event WORKING connect response {REST} WAITING")
    assert scene.talk.answered_ago_ms() is None


def test_whether_anything_moved_is_between_the_last_two_looks() -> None:
    scene = Scene(Client)
    moved = []
    for word in ("1ms", "event", "5ms", "response", "5ms", "answer", "request", "5ms"):
        scene.play(word)
        scene.look()
        moved.append(scene.talk.moved)
    assert moved == [False, True, False, True, False, True, True, False]
