"""Which bytes are the runtime's event and its request for the next one, whatever shape its client has."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.lifecycle.on_demand import MOMENTS_AHEAD
from truemem.platform.exact_mode import MOST_PIPELINED, MOST_RUNNING, ExactMode, Moment, RuntimeConnection

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
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Line:
    """What passes between one runtime and its API: each piece is looked at, and then handed on. A measurement tells
    how many pieces had been handed on before it."""

    def __init__(self, pooled: bool = False) -> None:
        self.handed_on = 0
        self.exact = ExactMode(lambda: self.handed_on, pooled)
        self.connections: dict[int, RuntimeConnection] = {}

    def passes(self, connection: int, side: bool, piece: bytes) -> int:
        """The number of the piece."""
        known = self.connections.setdefault(connection, RuntimeConnection(self.exact))
        (known.sent if side == RUNTIME else known.received)(memoryview(piece))
        self.handed_on += 1
        assert self.exact.asking >= 0
        return self.handed_on - 1

    def asks(self, connection: int = 0) -> int:
        return self.passes(connection, RUNTIME, next_())

    def gets(self, request_id: str, connection: int = 0) -> int:
        return self.passes(connection, API, event(request_id))

    def answers(self, request_id: str, connection: int = 0) -> int:
        number = self.passes(connection, RUNTIME, answer(request_id))
        self.passes(connection, API, ACCEPTED)
        return number

    def plays(self, script: str) -> dict[str, int]:
        """`0?` asks on connection 0, `0=a` gets the event a, `0!a` answers it, `0+` gets an interim response, `0.` is
        closed. `<` behind it: all but the last byte, or of an event the first one alone; `>`: the rest of it. The
        numbers of the pieces, by word; of a word that comes again, the last one's."""
        told = {}
        for word in script.split():
            connection, does, request_id = int(word[0]), word[1], word[2:].strip("<>")
            if does == ".":
                self.closes(connection)
                continue
            side, whole = {
                "?": (RUNTIME, next_()),
                "=": (API, event(request_id)),
                "!": (RUNTIME, answer(request_id)),
                "+": (API, CONTINUE),
            }[does]
            cut = 1 if does == "=" else len(whole) - 1
            piece = whole[:cut] if word[-1] == "<" else whole[cut:] if word[-1] == ">" else whole
            told[word] = self.passes(connection, side, piece)
            if does == "!" and word[-1] != "<":
                self.passes(connection, API, ACCEPTED)
            running = [request_id for request_id in self.running if request_id]  # it stands in the event's head
            assert running == [begun for begun in self.begun if begun not in self.ended], word
        return told

    def closes(self, connection: int) -> None:
        if connection in self.connections:
            self.connections.pop(connection).closed()
        assert self.exact.asking >= 0

    def closes_all(self) -> None:
        for connection in list(self.connections):
            self.closes(connection)
        assert self.exact.asking == 0

    @property
    def begun(self) -> dict[str, int]:
        """By request id: when. None has begun twice."""
        begun = [(moment.begun, moment.measured) for moment in self.exact.moments if not moment.is_sample]
        known = [(invocation.request_id, cut) for invocation, cut in begun if invocation and invocation.request_id]
        assert len(dict(known)) == len(known)
        return dict(known)

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
    "begins with the event's first byte": ("0? 0=x< 0=x>", {"x": "0=x<"}, {}, 0),
    "ends with the request's last byte": ("0? 0=x 0!x 0?< 0?>", {"x": "0=x"}, {"x": "0?>"}, 1),
    "closed while it asks": ("0? 0. 1? 1=x", {"x": "1=x"}, {}, 0),
    "closed while it runs": ("0? 0=x 0. 1!x 1?", {"x": "0=x"}, {"x": "1?"}, 1),
    "closed within the event's head": ("0? 0=x< 0. 1? 1=x 1!x 1?", {"x": "1=x"}, {"x": "1?"}, 1),
    "interim responses, as curl waits for": ("0? 0+ 0=x 0!x< 0+ 0!x> 0?", {"x": "0=x"}, {"x": "0?"}, 1),
    "a second worker gets the same event": ("0? 0=x 1? 1=x 1? 0!x 0?", {"x": "0=x"}, {"x": "0?"}, 2),
    "a thread asks for the first time": ("0? 0=x 1? 0!x 0?", {"x": "0=x"}, {"x": "0?"}, 2),
    "a thread asks while another one answers": ("0? 0=x 0!x< 1? 0!x> 0?", {"x": "0=x"}, {"x": "0?"}, 2),
}
"""What is played, where each invocation has begun and ended, and how many requests are open."""


@pytest.mark.parametrize("life", LIVES)
def test_a_window_lies_between_event_and_next_request(life: str) -> None:
    script, begun, ended, asking = LIVES[life]
    line = Line()
    told = line.plays(script)
    assert line.begun == {request_id: told[word] for request_id, word in begun.items()}
    assert line.ended == {request_id: told[word] for request_id, word in ended.items()}
    assert line.exact.asking == asking
    line.closes_all()


@pytest.mark.parametrize("pooled", [True, False])
def test_the_one_workers_pool_may_ask_on_any_connection(pooled: bool) -> None:
    line = Line(pooled)
    told = line.plays("0? 0=x 0!x< 1? 0!x> 1?")
    assert line.ended == ({"x": told["1?"]} if pooled else {})


def test_the_first_request_ends_what_was_before_the_first_event() -> None:
    line = Line()
    line.asks()
    (moment,) = line.exact.moments
    assert (moment.measured, moment.begun, moment.ended) == (0, None, [])
    assert line.exact.engaged


def test_sizes_and_errors_are_told() -> None:
    """The last response is on its way on another connection than the request for the next event."""
    line = Line()
    for request_id, size, connection, reply in [
        ("a", 100, 0, answer("a", b"y" * 30, chunk=7)),
        ("b", 0, 0, answer("b", b"z" * 9, "error")),
        ("c", 2, 1, answer("c", b"y" * 40)),
    ]:
        line.asks()
        line.passes(0, API, event(request_id, b"x" * size))
        line.passes(connection, RUNTIME, reply[:-4])
        line.passes(connection, RUNTIME, reply[-4:])
        if connection == 0:
            line.passes(0, API, ACCEPTED)
    line.asks()
    ended = [invocation for moment in line.exact.moments for invocation in moment.ended]
    assert [one.answer.body_bytes for one in ended if one.answer is not None] == [30, 9, 40]
    assert [(one.size, one.failed) for one in ended] == [(100, False), (0, True), (2, False)]


def test_an_invocation_is_answered_until_the_next_request() -> None:
    line = Line()
    answered = []
    for word in ["0?", "0=a", "0!a<", "0!a>", "0?"]:
        line.plays(word)
        answered.append(line.exact.answered)
    assert answered == [False, False, False, True, False]


NOT_AN_EVENT = {
    "an error of the API": response(500, b'{"errorType":"InternalServerError"}'),
    "a refusal": response(403, b"{}"),
    "a refusal that names an invocation": response(403, b"{}", Lambda_Runtime_Aws_Request_Id="a"),
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


@pytest.mark.parametrize("accepted", [ACCEPTED, response(200)], ids=["accepted", "restored"])
@pytest.mark.parametrize("name", NOT_NEXT)
def test_other_requests_measure_nothing(name: str, accepted: bytes) -> None:
    line = Line()
    line.passes(0, RUNTIME, NOT_NEXT[name])
    line.passes(0, API, accepted)
    assert line.exact.moments == []
    assert line.is_idle(asking=0)
    told = line.plays("0? 0=a")
    line.passes(0, RUNTIME, NOT_NEXT[name])
    line.passes(0, API, accepted)
    assert (line.begun, line.running, line.ended) == ({"a": told["0=a"]}, ["a"], {})


@pytest.mark.parametrize("before", ["/2018-06-01", "", "http://host:1/x"])
def test_next_is_known_by_the_end_of_its_path(before: str) -> None:
    """Of whatever version, and behind another vendor's proxy."""
    line = Line()
    line.passes(0, RUNTIME, request("GET", f"{before}/runtime/invocation/next"))
    assert line.exact.asking == 1


@given(st.integers(1, len(ACCEPTED) - 1), st.integers(1, len(event("b")) - 1))
def test_the_rest_of_an_answer_is_not_the_next_event(of_answer: int, of_event: int) -> None:
    """A client that pipelines has asked already: the event may come an hour later."""
    line = Line()
    line.plays("0? 0=a")
    line.passes(0, RUNTIME, answer("a") + next_() + next_())
    line.passes(0, API, ACCEPTED[:of_answer])
    line.passes(0, API, ACCEPTED[of_answer:])
    assert line.is_idle(asking=2)
    first = line.passes(0, API, event("b")[:of_event])
    line.passes(0, API, event("b")[of_event:])
    assert (line.running, line.exact.asking) == (["b"], 1)
    second = line.gets("c")
    assert (line.begun["b"], line.begun["c"]) == (first, second)


def test_a_response_and_the_next_request_in_one_piece() -> None:
    """And an API that answers both in one."""
    line = Line()
    line.plays("0? 0=a")
    both = line.passes(0, RUNTIME, answer("a") + next_())
    delivered = line.passes(0, API, ACCEPTED + event("b"))
    assert (line.ended, line.begun["b"], line.running) == ({"a": both}, delivered, ["b"])


# Connections that are lost


def test_invocations_without_an_answer_do_not_pile_up() -> None:
    """Connections are lost, and their runtime asks for more as if nothing had been; or answers take their own
    connection, as Node's do, and are not understood."""
    line = Line()
    line.passes(0, RUNTIME, b"\x16\x03\x01\r\n\r\n")
    for number in range(1, MOST_RUNNING + 100):
        line.asks(number)
        line.gets(f"{number}", number)
        if number % 2:
            line.answers(f"{number}", 0)
        line.closes(number)
    assert len(line.running) <= MOST_RUNNING


@pytest.mark.parametrize("side", [RUNTIME, API])
def test_one_connection_alone_is_not_understood_any_more(side: bool) -> None:
    line = Line()
    assert not line.exact.engaged
    line.plays("1? 1=x 0? 0=a")
    line.passes(0, side, b"\x16\x03\x01\r\n\r\n")
    assert line.connections[0].lost
    assert (line.running, line.exact.asking) == (["x"], 0)
    line.plays("0? 0=b 1!x 1?")
    assert line.is_idle(asking=1)
    delivered = line.gets("c", 1)
    assert line.begun["c"] == delivered
    assert line.running == ["c"]


@pytest.mark.parametrize(
    ("requests", "events"), [(0, 1), (MOST_PIPELINED + 1, 0)], ids=["an event", "too many requests"]
)
def test_what_no_runtime_asks_for_is_not_understood(requests: int, events: int) -> None:
    line = Line()
    for _ in range(requests):
        line.asks()
    for _ in range(events):
        line.gets("a")
    assert line.connections[0].lost
    assert line.begun == {}
    assert line.is_idle(asking=0)


# Whatever fails in measuring


def test_a_failed_measurement_is_counted() -> None:
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


def test_bytes_are_understood_without_measuring() -> None:
    line = Line()
    line.exact.measure = None
    line.asks()
    line.gets("a")
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


SHAPES: dict[str, tuple[Callable[[int], int], Callable[[int], int], bool]] = {
    "python": (lambda number: 0, lambda number: 0, False),
    "node": (lambda number: 1 + number, lambda number: 0, True),
    "curl": (lambda number: 2 * number, lambda number: 2 * number + 1, True),
}
"""Of each client: the connections on which an invocation is asked for and answered, and whether they are closed. Python
keeps one; Node keeps one for responses, and has a new one for each event; curl has one for each call."""


def client(shape: str, ids: list[str], draw: Draw, first: int = 0) -> list[Step]:
    """A runtime and its API: `ids` are invoked one after the other. `first`: the number of its first connection."""
    asks, answers, closes = SHAPES[shape]
    steps = []
    ended = ""
    for number, request_id in enumerate(ids):
        asking, answering = first + asks(number), first + answers(number)
        steps += [
            Step(asking, RUNTIME, next_(), ended),
            Step(asking, API, event(request_id, draw(BODY)), f"begun {request_id}", closes),
            Step(answering, RUNTIME, answer(request_id, draw(BODY), draw(KIND), draw(CHUNK))),
            Step(answering, API, ACCEPTED, closes=closes and answering != first),
        ]
        ended = f"ended {request_id}"
    return [*steps, Step(first + asks(len(ids)), RUNTIME, next_(), ended)]


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
    line.closes_all()
    assert line.is_idle(asking=0)
    assert line.exact.failures == 0


IDS = st.integers(0, 4).map(lambda count: [f"id-{number}" for number in range(count)])


@pytest.mark.parametrize("bytewise", [False, True], ids=["pieces", "bytewise"])
@pytest.mark.parametrize("shape", SHAPES)
@given(ids=IDS, data=st.data())
def test_invocations_of_each_client_have_their_windows(
    shape: str, bytewise: bool, ids: list[str], data: st.DataObject
) -> None:
    line = Line()
    steps = client(shape, ids, data.draw)
    check(line, play(line, cut_up(data.draw, steps, bytewise)), ids, asking=1)


@given(st.integers(2, 4), st.booleans(), st.data())
def test_several_threads_each_with_a_request_of_its_own(count: int, cut: bool, data: st.DataObject) -> None:
    """Managed Instances: events overlap, each thread keeps its connection."""
    threads = [[f"{number}-{request_id}" for request_id in data.draw(IDS)] for number in range(count)]
    pieces = [client("python", ids, data.draw, first=number) for number, ids in enumerate(threads)]
    if cut:
        pieces = [cut_up(data.draw, steps, bytewise=False) for steps in pieces]
    line = Line()
    check(line, play(line, list(mixed(data.draw, pieces))), list(chain(*threads)), asking=count)


def mixed(draw: Draw, threads: list[list[Step]]) -> Iterator[Step]:
    """The steps of each in their order, those of all in any."""
    while any(threads):
        yield draw(st.sampled_from([steps for steps in threads if steps])).pop(0)


@given(st.data())
def test_threads_with_a_connection_a_call_end_once_each(data: st.DataObject) -> None:
    """Which of those that were answered has asked cannot be known."""
    threads = [[f"{number}-{one}" for one in data.draw(IDS)] for number in range(data.draw(st.integers(2, 3)))]
    ids = list(chain(*threads))
    shape = st.sampled_from(["node", "curl"])
    steps = [client(data.draw(shape), names, data.draw, 100 * number) for number, names in enumerate(threads)]
    line = Line()
    answered: list[str] = []
    for step in mixed(data.draw, steps):
        answered += [name for name in ids if f"/{name}/".encode() in step.data]
        play(line, [step])
        assert set(line.ended) <= set(answered)
    assert sorted(line.begun) == sorted(line.ended) == sorted(ids)
    assert line.is_idle(asking=len(threads))


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
        while (moment := self.exact.take(MOMENTS_AHEAD)) is not None:
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
        first = line.handed_on
        for step in cut_up(draw, [Step(connection, side, message)], bytewise=False):
            line.passes(*step[:3])
            if draw(st.booleans()):
                windows.work_out()
        return first, line.handed_on - 1

    def breaks(in_order: bool, leaves_open: bool = False) -> None:
        nonlocal connection
        if in_order:
            line.connections[connection].ended()  # the API's side first
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
                breaks(draw(st.booleans()), leaves_open=kind != "rejected" and draw(st.booleans()))
        passes(RUNTIME, next_())
        interim, right, until_close = shaped(request_id, draw(BODY), draw)
        passes(API, interim)
        told[request_id] = passes(API, right)
        if until_close:
            breaks(in_order=True)
        for _ in range(draw(st.integers(0, 2))):
            passes(RUNTIME, answer(request_id)[: draw(st.integers(1, 100))])
            breaks(in_order=False)
        passes(RUNTIME, answer(request_id, draw(BODY), draw(KIND), draw(CHUNK)))
        passes(API, ACCEPTED)
        if draw(st.booleans()):
            breaks(in_order=False)
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
        assert line.exact.asking == sum(each.asking for each in line.connections.values() if not each.lost)
    begun = [moment.begun for moment in line.exact.moments if moment.begun is not None]
    ended = [invocation for moment in line.exact.moments for invocation in moment.ended]
    assert len(set(map(id, begun))) == len(begun)
    assert len(set(map(id, ended))) == len(ended)
    assert set(map(id, ended)) <= set(map(id, begun))
    assert not set(map(id, ended)) & set(map(id, line.exact.running))
    line.closes_all()
    assert line.exact.failures == 0
