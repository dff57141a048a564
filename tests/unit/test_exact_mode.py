"""Which bytes are the runtime's event and its request for the next one, whatever shape its client has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.lifecycle.exact_windows import AHEAD
from truemem.platform.exact_mode import PIPELINED, ExactMode, Moment, Talk
from truemem.records.request_overlap import RUNNING

INVOCATION = "/2018-06-01/runtime/invocation"
RUNTIME, API = True, False


def request(method: str, path: str, body: bytes | None = None, chunk: int = 0) -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:9001\r\n"
    if body is None:
        return f"{head}\r\n".encode()
    if not chunk:
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    return f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunks(body, chunk)


def chunks(body: bytes, size: int) -> bytes:
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def next_() -> bytes:
    return request("GET", f"{INVOCATION}/next")


def answer(request_id: str, body: bytes = b"null", kind: str = "response", chunk: int = 0) -> bytes:
    return request("POST", f"{INVOCATION}/{request_id}/{kind}", body, chunk)


def response(status: int, body: bytes = b"", **headers: str) -> bytes:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} X\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body


def event(request_id: str, body: bytes = b"{}") -> bytes:
    return response(200, body, Lambda_Runtime_Aws_Request_Id=request_id, Lambda_Runtime_Deadline_Ms="1")


ACCEPTED = response(202, b'{"status":"OK"}\n')


class Line:
    """What passes between one runtime and its API: each piece is looked at, and then handed on. A measurement tells
    how many pieces had been handed on before it."""

    def __init__(self) -> None:
        self.handed_on = 0
        self.exact = ExactMode(lambda: self.handed_on)
        self.talks: dict[int, Talk] = {}

    def passes(self, connection: int, side: bool, piece: bytes) -> int:
        """The number of the piece."""
        talk = self.talks.setdefault(connection, Talk(self.exact))
        (talk.sent if side == RUNTIME else talk.received)(memoryview(piece))
        self.handed_on += 1
        assert self.exact.asking >= 0
        return self.handed_on - 1

    def asks(self, connection: int = 0) -> int:
        return self.passes(connection, RUNTIME, next_())

    def gets(self, request_id: str, connection: int = 0) -> int:
        return self.passes(connection, API, event(request_id))

    def answers(self, request_id: str, connection: int = 0) -> None:
        self.passes(connection, RUNTIME, answer(request_id))
        self.passes(connection, API, ACCEPTED)

    def plays(self, script: str) -> dict[str, int]:
        """`0?` asks on connection 0, `0=a` gets the event a, `0!a` answers it, `0.` is closed. The numbers of their
        pieces, by word; of a word that comes again, the last one's."""
        told = {}
        for word in script.split():
            connection, does, request_id = int(word[0]), word[1], word[2:]
            if does == "?":
                told[word] = self.asks(connection)
            elif does == "=":
                told[word] = self.gets(request_id, connection)
            elif does == "!":
                self.answers(request_id, connection)
            else:
                self.closes(connection)
        return told

    def closes(self, connection: int) -> None:
        if connection in self.talks:
            self.talks.pop(connection).closed()
        assert self.exact.asking >= 0

    @property
    def begun(self) -> dict[str, int]:
        """By request id: when. None has begun twice."""
        known = [moment for moment in self.exact.moments if moment.begun is not None and not moment.is_sample]
        moments = [moment for moment in known if moment.begun is not None and moment.begun.request_id]
        begun = {moment.begun.request_id: moment.measured for moment in moments if moment.begun is not None}
        assert len(begun) == len(moments)
        return begun

    @property
    def ended(self) -> dict[str, int]:
        """By request id: when. None has ended twice."""
        ended = [
            (invocation.request_id, moment.measured) for moment in self.exact.moments for invocation in moment.ended
        ]
        assert len(dict(ended)) == len(ended)
        return dict(ended)

    @property
    def running(self) -> list[str]:
        return [invocation.request_id for invocation in self.exact.running]

    def is_idle(self, asking: int) -> bool:
        return self.exact.asking == asking and not self.exact.running


# Step by step


LIVES = {
    "one connection": ("0? 0=x 0!x 0?", {"x": "0=x"}, {"x": "0?"}, 1),
    "the first request ends no invocation": ("0?", {}, {}, 1),
    "closed while it asks": ("0? 0. 1? 1=x", {"x": "1=x"}, {}, 0),
    "closed while it runs": ("0? 0=x 0. 1!x 1?", {"x": "0=x"}, {"x": "1?"}, 1),
    "a second worker gets the same event": ("0? 0=x 1? 1=x 1? 0!x 0?", {"x": "0=x"}, {"x": "0?"}, 2),
    "a thread asks for the first time": ("0? 0=x 1? 0!x 0?", {"x": "0=x"}, {"x": "0?"}, 2),
}
"""What is played, where each invocation has begun and ended, and how many requests are open."""


@pytest.mark.parametrize("life", LIVES)
def test_a_window_begins_with_its_event_and_ends_with_the_next_request(life: str) -> None:
    script, begun, ended, asking = LIVES[life]
    line = Line()
    told = line.plays(script)
    assert line.begun == {request_id: told[word] for request_id, word in begun.items()}
    assert line.ended == {request_id: told[word] for request_id, word in ended.items()}
    assert line.running == [request_id for request_id in begun if request_id not in ended]
    assert line.exact.asking == asking
    for connection in list(line.talks):
        line.closes(connection)
    assert line.exact.asking == 0


def test_the_first_request_ends_what_was_before_the_first_event() -> None:
    line = Line()
    line.asks()
    (moment,) = line.exact.moments
    assert (moment.measured, moment.begun, moment.ended) == (0, None, [])
    assert line.exact.engaged


def test_a_window_begins_with_the_first_byte_of_the_event() -> None:
    """The runtime may read it before the rest has come."""
    line = Line()
    line.asks()
    first = line.passes(0, API, event("a")[:1])
    line.passes(0, API, event("a")[1:])
    assert line.begun == {"a": first}


def test_a_window_ends_with_the_last_byte_of_the_request() -> None:
    line = Line()
    line.plays("0? 0=a 0!a")
    line.passes(0, RUNTIME, next_()[:-1])
    assert line.ended == {}
    last = line.passes(0, RUNTIME, next_()[-1:])
    assert line.ended == {"a": last}


def test_sizes_and_errors_are_told() -> None:
    line = Line()
    line.asks()
    line.passes(0, API, event("a", b"x" * 100))
    line.passes(0, RUNTIME, answer("a", b"y" * 30, chunk=7))
    line.passes(0, API, ACCEPTED)
    line.asks()
    line.passes(0, API, event("b", b""))
    line.passes(0, RUNTIME, answer("b", b"z" * 9, "error"))
    line.passes(0, API, ACCEPTED)
    line.asks()
    ended = [invocation for moment in line.exact.moments for invocation in moment.ended]
    assert [one.answer.body_bytes for one in ended if one.answer is not None] == [30, 9]
    assert [(one.size, one.failed) for one in ended] == [(100, False), (0, True)]


def test_the_size_of_a_response_is_known_when_all_of_it_has_passed() -> None:
    """Response and request for the next event come on two connections, so that the one may overtake the other."""
    line = Line()
    line.plays("0? 0=a")
    line.passes(1, RUNTIME, answer("a", b"y" * 30)[:-10])
    line.passes(1, RUNTIME, b"y" * 10)
    line.asks()
    (invocation,) = line.exact.moments[-1].ended
    assert invocation.answer is not None
    assert invocation.answer.body_bytes == 30


def test_an_invocation_is_answered_with_the_last_byte_of_its_response_until_the_next_one_is_asked_for() -> None:
    line = Line()
    line.plays("0? 0=a")
    assert not line.exact.answered
    whole = answer("a", b"y" * 30)
    line.passes(0, RUNTIME, whole[:-1])
    assert not line.exact.answered
    line.passes(0, RUNTIME, whole[-1:])
    assert line.exact.answered
    line.passes(0, API, ACCEPTED)
    line.asks()
    assert not line.exact.answered


NOT_AN_EVENT = {
    "an error of the API": response(500, b'{"errorType":"InternalServerError"}'),
    "a refusal": response(403, b"{}"),
    "an event without id": response(200, b"{}"),
    "accepted": ACCEPTED,
    "nothing": b"HTTP/1.1 204 No Content\r\n\r\n",
    "not modified": b"HTTP/1.1 304 Not Modified\r\n\r\n",
}


@pytest.mark.parametrize("bytewise", [False, True], ids=["whole", "bytewise"])
@pytest.mark.parametrize("name", NOT_AN_EVENT)
def test_what_is_no_event_begins_no_invocation(name: str, bytewise: bool) -> None:
    line = Line()
    for _ in range(3):
        line.asks()
        size = 1 if bytewise else 1000
        for at in range(0, len(NOT_AN_EVENT[name]), size):
            line.passes(0, API, NOT_AN_EVENT[name][at : at + size])
        assert line.is_idle(asking=0)
    line.asks()
    delivered = line.gets("a")
    assert (line.begun, line.ended) == ({"a": delivered}, {})


NOT_NEXT = {
    "init error": request("POST", "/2018-06-01/runtime/init/error", b'{"errorType":"Runtime.ImportError"}'),
    "restore next": request("GET", "/2018-06-01/runtime/restore/next"),
    "restore error": request("POST", "/2018-06-01/runtime/restore/error", b"{}"),
    "an extension": request("GET", "/2020-01-01/extension/event/next"),
    "another method": request("POST", f"{INVOCATION}/next", b""),
    "an invocation called next": answer("next"),
    "more than next": request("GET", f"{INVOCATION}/next/more"),
    "a response to nothing": answer("unknown"),
    "a question": request("GET", f"{INVOCATION}/unknown/response"),
    "no path": request("GET", "*"),
}


@pytest.mark.parametrize("name", NOT_NEXT)
def test_other_requests_measure_nothing(name: str) -> None:
    line = Line()
    line.passes(0, RUNTIME, NOT_NEXT[name])
    line.passes(0, API, ACCEPTED)
    assert line.exact.moments == []
    assert line.is_idle(asking=0)
    line.plays("0? 0=a")
    line.passes(0, RUNTIME, NOT_NEXT[name])
    line.passes(0, API, ACCEPTED)
    assert (line.running, line.ended) == (["a"], {})


@pytest.mark.parametrize(
    "path",
    ["/2018-06-01/runtime/invocation/next", "/runtime/invocation/next", "http://host:1/x/runtime/invocation/next"],
)
def test_next_is_known_by_the_end_of_its_path(path: str) -> None:
    """Of whatever version, and behind another vendor's proxy."""
    line = Line()
    line.passes(0, RUNTIME, request("GET", path))
    assert line.exact.asking == 1


def test_a_restored_environment_asks_for_its_event_after_the_restore() -> None:
    line = Line()
    line.passes(0, RUNTIME, NOT_NEXT["restore next"])
    line.passes(0, API, response(200, b""))
    line.asks()
    delivered = line.gets("a")
    assert line.begun == {"a": delivered}


def test_an_interim_response_is_no_event() -> None:
    """curl waits for it before it sends a large response."""
    line = Line()
    line.asks()
    line.passes(0, API, b"HTTP/1.1 100 Continue\r\n\r\n")
    assert line.exact.moments[-1].begun is None
    delivered = line.gets("a")
    line.passes(0, RUNTIME, answer("a", b"x" * 9)[:-9])
    line.passes(0, API, b"HTTP/1.1 100 Continue\r\n\r\n")
    line.passes(0, RUNTIME, b"x" * 9)
    line.passes(0, API, ACCEPTED)
    asked = line.asks()
    assert (line.begun, line.ended) == ({"a": delivered}, {"a": asked})


@given(st.integers(1, len(ACCEPTED) - 1))
def test_the_rest_of_the_last_answer_is_not_yet_the_event(cut: int) -> None:
    """A client that pipelines has asked already: the event may come an hour later."""
    line = Line()
    line.plays("0? 0=a")
    line.passes(0, RUNTIME, answer("a") + next_())
    line.passes(0, API, ACCEPTED[:cut])
    line.passes(0, API, ACCEPTED[cut:])
    assert line.is_idle(asking=1)
    delivered = line.gets("b")
    assert line.begun["b"] == delivered


def test_the_rest_of_an_event_is_not_yet_the_next_one() -> None:
    line = Line()
    line.passes(0, RUNTIME, next_() + next_())
    first = line.passes(0, API, event("a", b"x" * 100)[:-50])
    line.passes(0, API, b"x" * 50)
    assert (line.running, line.exact.asking) == (["a"], 1)
    second = line.gets("b")
    assert line.begun == {"a": first, "b": second}


def test_a_thread_that_asks_for_the_first_time_ends_nothing_of_another_one() -> None:
    """The response of the other one may still be on its way: the connection that brought its event will ask again."""
    line = Line()
    line.plays("0? 0=a")
    line.passes(0, RUNTIME, answer("a", b"streamed")[:-3])
    line.asks(1)
    assert (line.running, line.ended) == (["a"], {})
    line.passes(0, RUNTIME, b"med")
    line.passes(0, API, ACCEPTED)
    asked = line.asks()
    assert line.ended == {"a": asked}
    assert line.is_idle(asking=2)


def test_an_event_that_a_second_worker_gets_as_well_is_a_look() -> None:
    """The Runtime API gives the running event to a worker that asks meanwhile. The first worker's window goes on."""
    line = Line()
    line.plays("0? 0=x 1? 1=x")
    assert [moment.is_sample for moment in line.exact.moments] == [False, False, True]
    assert line.running == ["x"]


# Connections that are lost


def test_an_event_that_is_cut_off_in_its_head_is_none() -> None:
    """Its runtime has not seen it, and asks again."""
    line = Line()
    line.asks()
    line.passes(0, API, event("a")[:20])
    line.plays("0. 1?")
    delivered = line.gets("a", 1)
    assert line.begun == {"a": delivered}
    line.answers("a", 1)
    asked = line.asks(1)
    assert line.ended == {"a": asked}
    assert line.is_idle(asking=1)


def test_invocations_that_are_never_answered_do_not_pile_up() -> None:
    """Their connections are lost, and their runtime asks for more as if nothing had been."""
    line = Line()
    for number in range(RUNNING + 100):
        line.asks(number)
        line.gets(f"{number}", number)
        line.closes(number)
    assert len(line.running) <= RUNNING


def test_invocations_whose_answers_are_not_understood_do_not_pile_up() -> None:
    """They take their own connection, as Node's do: what asks for events is understood still."""
    line = Line()
    line.passes(0, RUNTIME, b"\x16\x03\x01\r\n\r\n")
    for number in range(1, RUNNING + 100):
        line.asks(number)
        line.gets(f"{number}", number)
        line.answers(f"{number}", 0)
        line.closes(number)
    assert len(line.running) <= RUNNING


@pytest.mark.parametrize("side", [RUNTIME, API])
def test_what_is_not_understood_ends_the_understanding_of_that_connection_alone(side: bool) -> None:
    line = Line()
    line.plays("0? 0=a")
    line.passes(0, side, b"\x16\x03\x01\r\n\r\n")
    assert line.talks[0].lost
    assert line.is_idle(asking=0)
    assert not line.exact.engaged
    line.plays("0? 0=b")
    assert line.is_idle(asking=0)
    line.asks(1)
    delivered = line.gets("c", 1)
    assert line.begun["c"] == delivered
    assert line.running == ["c"]


def test_an_answer_that_was_not_asked_for_is_not_understood() -> None:
    line = Line()
    line.gets("a")
    assert line.talks[0].lost
    assert line.exact.moments == []


def test_more_requests_than_any_runtime_has_are_not_understood() -> None:
    line = Line()
    for _ in range(PIPELINED + 1):
        line.asks()
    assert line.talks[0].lost
    assert line.is_idle(asking=0)


# Whatever fails in measuring


def test_a_measurement_that_fails_is_counted_and_the_next_one_made() -> None:
    line = Line()
    readings = iter([1, 2])

    def cut() -> int:
        if line.handed_on == 0:
            raise RuntimeError("a bug")
        return next(readings)

    line.exact.measure = cut
    line.plays("0? 0=a")
    line.passes(0, RUNTIME, answer("a") + next_())
    assert line.exact.failures == 1
    assert [moment.measured for moment in line.exact.moments] == [1, 2]
    assert line.ended == {"a": 2}


@pytest.mark.parametrize("rubbish", [None, b"", object(), [None], float("nan")])
def test_what_a_measurement_says_is_handed_through(rubbish: Any) -> None:
    line = Line()
    line.exact.measure = lambda: rubbish
    line.asks()
    assert [moment.measured for moment in line.exact.moments] == [rubbish]


def test_where_nothing_is_measured_the_bytes_are_understood_all_the_same() -> None:
    line = Line()
    line.exact.measure = None
    line.plays("0? 0=a")
    assert line.running == ["a"]
    assert line.exact.moments == []


# Clients of every shape


class Step(NamedTuple):
    """Bytes that one side sends. `told` is what they mean: of the event from the first byte on, of a request with its
    last one."""

    connection: int
    side: bool
    data: bytes
    told: str = ""
    closes: bool = False
    """The connection, afterwards."""


Draw = Callable[[st.SearchStrategy[Any]], Any]
BODY = st.binary(max_size=40)
CHUNK = st.sampled_from([0, 0, 1, 7])
KIND = st.sampled_from(["response", "response", "error"])


@dataclass
class Client:
    """A runtime and its API: `ids` are invoked one after the other."""

    ids: list[str]
    draw: Draw
    first: int = 0
    """Number of its first connection."""
    steps: list[Step] = field(default_factory=list)

    def python(self) -> list[Step]:
        """One connection that is kept."""
        return self._run(lambda _: self.first, lambda _: self.first, closes=False)

    def node(self) -> list[Step]:
        """A new connection for each event, one that is kept for responses."""
        return self._run(lambda number: self.first + 1 + number, lambda _: self.first, closes=True)

    def curl(self) -> list[Step]:
        """A connection for each call."""
        return self._run(
            lambda number: self.first + 2 * number, lambda number: self.first + 2 * number + 1, closes=True
        )

    def _run(self, asks: Any, answers: Any, closes: bool) -> list[Step]:
        ended = ""
        for number, request_id in enumerate(self.ids):
            asking, answering = asks(number), answers(number)
            self._step(asking, RUNTIME, next_(), f"ended {ended}" if ended else "")
            self._step(asking, API, event(request_id, self.draw(BODY)), f"begun {request_id}", closes)
            reply = answer(request_id, self.draw(BODY), self.draw(KIND), self.draw(CHUNK))
            self._step(answering, RUNTIME, reply)
            self._step(answering, API, ACCEPTED, "", closes and answering != self.first)
            ended = request_id
        self._step(asks(len(self.ids)), RUNTIME, next_(), f"ended {ended}" if ended else "")
        return self.steps

    def _step(self, *step: Any) -> None:
        self.steps.append(Step(*step))


def cut_up(draw: Draw, steps: list[Step], bytewise: bool) -> list[Step]:
    """Each step in pieces."""
    pieces = []
    for step in steps:
        size = len(step.data)
        cuts = range(size) if bytewise else draw(st.lists(st.integers(0, size), max_size=3))
        whole = [step.data[begin:end] for begin, end in pairwise([0, *sorted(cuts), size]) if begin < end]
        for number, data in enumerate(whole):
            last = number == len(whole) - 1
            tells = number == 0 if step.told.startswith("begun") else last
            pieces.append(step._replace(data=data, told=step.told if tells else "", closes=step.closes and last))
    return pieces


def play(line: Line, pieces: list[Step]) -> dict[str, int]:
    """Where each meaning has passed."""
    told: dict[str, int] = {}
    for step in pieces:
        number = line.passes(step.connection, step.side, step.data)
        told |= dict.fromkeys(step.told.split(" & ") if step.told else [], number)
        if step.closes:
            line.closes(step.connection)
    return told


def check(line: Line, told: dict[str, int], ids: list[str], asking: int) -> None:
    assert line.begun == {request_id: told[f"begun {request_id}"] for request_id in ids}
    assert line.ended == {request_id: told[f"ended {request_id}"] for request_id in ids}
    assert line.is_idle(asking)
    for connection in list(line.talks):
        line.closes(connection)
    assert line.is_idle(asking=0)
    assert line.exact.failures == 0


IDS = st.integers(0, 4).map(lambda count: [f"id-{number}" for number in range(count)])


@pytest.mark.parametrize("bytewise", [False, True], ids=["pieces", "bytewise"])
@pytest.mark.parametrize("shape", ["python", "node", "curl"])
def test_each_invocation_begins_with_its_event_and_ends_with_the_next_request(shape: str, bytewise: bool) -> None:
    @given(IDS, st.data())
    def run(ids: list[str], data: st.DataObject) -> None:
        steps = getattr(Client(ids, data.draw), shape)()
        line = Line()
        check(line, play(line, cut_up(data.draw, steps, bytewise)), ids, asking=1)

    run()


@given(IDS, st.data())
def test_a_client_that_sends_response_and_next_in_one_piece(ids: list[str], data: st.DataObject) -> None:
    """And an API that may answer them in one piece. The piece ends the invocation before its response is handed on."""
    steps = Client(ids, data.draw).python()
    order = [step for step in steps if step.data != ACCEPTED]
    joined: list[Step] = []
    for side, group in groupby(order, key=lambda step: step.side):
        whole = list(group)
        data_ = b"".join(step.data for step in whole)
        told = " & ".join(step.told for step in whole if step.told)
        if side == API and joined[:-1]:
            if data.draw(st.booleans()):
                joined += cut_up(data.draw, [Step(0, API, ACCEPTED)], bytewise=False)
            else:
                data_ = ACCEPTED + data_
        joined.append(Step(0, side, data_, told))
    if ids:
        joined.append(Step(0, API, ACCEPTED))
    line = Line()
    check(line, play(line, joined), ids, asking=1)


@given(st.lists(IDS, min_size=2, max_size=4), st.booleans(), st.data())
def test_several_threads_each_with_a_request_of_its_own(
    threads: list[list[str]], cut: bool, data: st.DataObject
) -> None:
    """Managed Instances: events overlap, each thread keeps its connection."""
    left, ids = [], []
    for number, own in enumerate(threads):
        names = [f"{number}-{request_id}" for request_id in own]
        ids += names
        left.append(Client(names, data.draw, first=number).python())
    pieces = [cut_up(data.draw, steps, bytewise=False) if cut else steps for steps in left]
    mixed = []
    while any(pieces):
        chosen = data.draw(st.sampled_from([steps for steps in pieces if steps]))
        mixed.append(chosen.pop(0))
    line = Line()
    check(line, play(line, mixed), ids, asking=len(threads))


@given(st.data())
def test_threads_with_a_connection_a_call_are_each_ended_once_and_never_while_unanswered(data: st.DataObject) -> None:
    """Which of those that were answered has asked cannot be known."""
    left, ids = [], []
    for number in range(data.draw(st.integers(2, 3))):
        names = [f"{number}-{one}" for one in data.draw(IDS)]
        ids += names
        shape = data.draw(st.sampled_from(["node", "curl"]))
        left.append(getattr(Client(names, data.draw, first=number * 100), shape)())
    threads = len(left)
    line = Line()
    answered: list[str] = []
    while any(left):
        step = data.draw(st.sampled_from([steps for steps in left if steps])).pop(0)
        answered += [name for name in ids if f"/{name}/".encode() in step.data]
        play(line, [step])
        assert set(line.ended) <= set(answered)
    assert sorted(line.begun) == sorted(line.ended) == sorted(ids)
    assert line.is_idle(asking=threads)


@given(st.data())
def test_connections_that_are_lost_at_any_moment(data: st.DataObject) -> None:
    """The runtime makes new ones, and goes on where it was."""
    line = Line()
    connection = 0
    ids = [f"id-{number}" for number in range(data.draw(st.integers(1, 5)))]
    for request_id in ids:
        while data.draw(st.booleans()):  # lost before the event has come
            line.passes(connection, RUNTIME, next_()[: data.draw(st.integers(1, 100))])
            line.closes(connection)
            connection += 1
        line.asks(connection)
        line.gets(request_id, connection)
        for _ in range(data.draw(st.integers(0, 2))):  # lost while it answers
            line.passes(connection, RUNTIME, answer(request_id)[: data.draw(st.integers(1, 100))])
            line.closes(connection)
            connection += 1
        if connection not in line.talks or data.draw(st.booleans()):
            line.closes(connection)
            connection += 1
        line.passes(connection, RUNTIME, answer(request_id))
        line.passes(connection, API, ACCEPTED)
        if data.draw(st.booleans()):
            line.closes(connection)
            connection += 1
    line.asks(connection)
    assert sorted(line.begun) == sorted(line.ended) == ids
    assert all(line.begun[one] < line.ended[one] for one in ids)
    assert line.is_idle(asking=1)


# Wrong answers before the right one

DEADLINES = [None, "", "1795000000000", "-1", "1e400", "nan", "9" * 5000, "1.5", "soon", "\t"]


def shaped(request_id: str, body: bytes, draw: Draw) -> tuple[bytes, bytes, bool]:
    """What may come before it, a right event in any shape that HTTP has, and whether it ends with the connection."""
    headers = [f"Lambda-Runtime-Aws-Request-Id: {request_id}"]
    deadline = draw(st.sampled_from(DEADLINES))
    headers += [f"Lambda-Runtime-Deadline-Ms: {deadline}"] if deadline is not None else []
    shape = draw(st.sampled_from(["length", "chunked", "close"]))
    version = "1.0" if shape == "close" else draw(st.sampled_from(["1.0", "1.1"]))
    payload = body
    if shape == "length":
        headers.append(f"content-length: {len(body)}")
    elif shape == "chunked":
        headers.append("Transfer-Encoding: chunked")
        payload = chunks(body, draw(st.integers(1, 9)))
        if draw(st.booleans()):
            payload = payload.replace(b"\r\n", b';name="a b"\r\n', 1)
        if draw(st.booleans()):
            payload = payload[:-2] + b"Checksum: abc\r\nOther: \r\n\r\n"
    hints = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    interim = draw(st.sampled_from(["", "", "HTTP/1.1 100 Continue\r\n\r\n", hints]))
    head = "\r\n".join([f"HTTP/{version} 200 OK", *draw(st.permutations(headers)), "", ""])
    return interim.encode(), head.encode() + payload, shape == "close"


WRONG = ["refused", "no id", "interim", "cut off", "too long", "too short", "broken", "noise", "rejected"]


def wrong(request_id: str, kind: str, draw: Draw) -> tuple[bytes, bool]:
    """An answer that is no event, or not all of one; and whether the client cannot go on with the connection."""
    interim, whole, until_close = shaped(request_id, draw(st.binary(min_size=1, max_size=40)), draw)
    named = {"Lambda_Runtime_Aws_Request_Id": request_id}
    match kind:
        case "refused":
            status = draw(st.sampled_from([201, 202, 204, 301, 304, 403, 410, 429, 500, 503]))
            if status in (204, 304):
                return f"HTTP/1.1 {status} X\r\nLambda-Runtime-Aws-Request-Id: {request_id}\r\n\r\n".encode(), False
            return response(status, b"{}", **(named if draw(st.booleans()) else {})), False
        case "no id":
            return response(200, draw(BODY)), False
        case "interim":
            return b"HTTP/1.1 100 Continue\r\n\r\n", True
        case "cut off" if not until_close:
            return interim + whole[: draw(st.integers(0, len(whole) - 1))], True
        case "rejected":  # a deadline that the client cannot read, perhaps
            return interim + whole, until_close
        case "too long":
            return response(200, b"{}", **named).replace(b"Length: 2", b"Length: 7"), True
        case "too short":
            return response(200, b"{}", **named).replace(b"Length: 2", b"Length: 1"), True
        case "broken":
            heads = [b"HTTP/1.1 101 Switching\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", b"\r\n\r\n"]
            heads.append(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n")
            return draw(st.sampled_from(heads)) + whole, True
    return draw(st.binary(max_size=40)).replace(b"\n", b"") + b"\r\n", True


@dataclass
class Windows:
    """The loop, which works out moments when there is time: between two of them lies one window."""

    exact: ExactMode
    opened: Moment | None = None
    ended: dict[str, tuple[Moment, Moment, bool]] = field(default_factory=dict)
    """By request id: the moments at which the window of an invocation opened and closed, and whether that is sure."""

    def work_out(self) -> None:
        while (moment := self.exact.take(AHEAD)) is not None:
            if moment.is_sample:
                continue
            for invocation in moment.ended:
                assert invocation.request_id not in self.ended
                assert self.opened is not None
                self.ended[invocation.request_id] = self.opened, moment, not invocation.unsure
            self.opened = moment


@given(st.data())
def test_a_window_never_opens_before_the_right_event(data: st.DataObject) -> None:
    """Whatever came in its place before, on whichever connection, and however cut."""
    draw = data.draw
    line = Line()
    windows = Windows(line.exact)
    connection = 0
    told: dict[str, tuple[int, int]] = {}

    def passes(side: bool, message: bytes) -> tuple[int, int]:
        pieces = cut_up(draw, [Step(connection, side, message)], bytewise=False)
        numbers = []
        for step in pieces:
            numbers.append(line.passes(*step[:3]))
            if draw(st.booleans()):
                windows.work_out()
        return (numbers[0], numbers[-1]) if numbers else (line.handed_on, line.handed_on)

    def breaks(leaves_open: bool) -> None:
        nonlocal connection
        if draw(st.booleans()):
            line.talks[connection].ended()  # the API's side first, and in order
        if not leaves_open:
            line.closes(connection)
        connection += 1

    for number in range(draw(st.integers(1, 3))):
        request_id = f"id-{number}"
        while draw(st.booleans()):
            passes(RUNTIME, next_())
            kind = draw(st.sampled_from(WRONG))
            answered, over = wrong(draw(st.sampled_from([request_id, request_id, "id-0", "id-7"])), kind, draw)
            passes(API, answered)
            if over or draw(st.booleans()):
                # Who has a whole event on one connection, and asks on another one, is two workers.
                breaks(leaves_open=kind != "rejected" and draw(st.booleans()))
        passes(RUNTIME, next_())
        interim, right, until_close = shaped(request_id, draw(BODY), draw)
        passes(API, interim)
        told[request_id] = passes(API, right)
        if until_close:
            line.talks[connection].ended()
            line.closes(connection)
            connection += 1
        passes(RUNTIME, answer(request_id, draw(BODY), draw(KIND), draw(CHUNK)))
        passes(API, ACCEPTED)
        if draw(st.booleans()):
            line.closes(connection)
            connection += 1
    passes(RUNTIME, next_())
    assert line.exact.failures == 0
    windows.work_out()
    for request_id, (opened, closed, sure) in windows.ended.items():
        if sure:
            first, last = told[request_id]
            assert opened.begun is not None
            assert opened.begun.request_id == request_id
            assert first <= opened.measured <= last < closed.measured
    assert set(windows.ended) == set(told)


# Anything at all

WORDS = [next_(), answer("a"), answer("b", kind="error"), event("a"), event("b"), ACCEPTED, *NOT_AN_EVENT.values()]
NOISE = st.sampled_from([*WORDS, b"\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b"\x00"]) | st.binary(max_size=30)


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans(), NOISE, st.booleans(), st.integers(0, 200)), max_size=25))
def test_nothing_raises_and_nothing_is_counted_twice(script: list[tuple[int, bool, bytes, bool, int]]) -> None:
    line = Line()
    for connection, side, data, closes, cut in script:
        line.passes(connection, side, data[:cut])
        line.passes(connection, side, data[cut:])
        if closes:
            line.closes(connection)
        assert line.exact.asking == sum(talk.asking for talk in line.talks.values() if not talk.lost)
    begun = [moment.begun for moment in line.exact.moments if moment.begun is not None]
    ended = [invocation for moment in line.exact.moments for invocation in moment.ended]
    assert len(set(map(id, begun))) == len(begun)
    assert len(set(map(id, ended))) == len(ended)
    assert set(map(id, ended)) <= set(map(id, begun))
    assert not set(map(id, ended)) & set(map(id, line.exact.running))
    for connection in list(line.talks):
        line.closes(connection)
    assert line.exact.asking == 0
    assert line.exact.failures == 0


@given(st.sampled_from(["python", "node", "curl"]), IDS.filter(len), st.binary(min_size=1, max_size=40), st.data())
def test_noise_in_the_middle_spoils_no_other_connection(
    shape: str, ids: list[str], noise: bytes, data: st.DataObject
) -> None:
    """What comes after it is measured as ever."""
    line = Line()
    steps = cut_up(data.draw, getattr(Client(ids, data.draw), shape)(), bytewise=False)
    at = data.draw(st.integers(0, len(steps) - 1))
    spoiled = steps[at]._replace(data=noise, told="")
    play(line, [*steps[:at], spoiled, *steps[at:]])
    for connection in list(line.talks):
        line.closes(connection)
    assert line.exact.asking == 0
    before: list[Moment] = list(line.exact.moments)
    after = Client(["x", "y"], data.draw, first=1000).python()
    told = play(line, after)
    assert line.exact.asking == 1
    assert {name: line.begun[name] for name in ("x", "y")} == {name: told[f"begun {name}"] for name in ("x", "y")}
    assert {name: line.ended[name] for name in ("x", "y")} == {name: told[f"ended {name}"] for name in ("x", "y")}
    assert line.exact.moments[: len(before)] == before
