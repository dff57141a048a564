"""What is sent when, what waits, what is dropped, and that it is counted. The clock is ours, the sockets are real."""

import json
import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.config import Config
from truemem.output_settings import OtlpSettings
from truemem.outputs import RecordOutputs
from truemem.outputs.otlp_sender import FOREVER_NS, QUEUE, CollectorConnection, OtlpOutput, RequestOutcome
from truemem.records.pending_record import PendingRecord
from truemem.records.record import InvocationRecord
from truemem.support.clock import Clock
from truemem.support.log import set_level

from faults import receivers
from faults.receivers import Behaviour, Collector

REQUEST = b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"
TIMEOUT_MS = 5_000


def finished(connection: CollectorConnection, request: bytes = REQUEST) -> tuple[RequestOutcome, int]:
    """The request's end, and how often `step` was called for it."""
    begun_s = time.monotonic()
    connection.begin(request, 0.0)
    steps = 0
    while connection.outcome is None:
        now_ms = (time.monotonic() - begun_s) * 1000
        poll = select.poll()
        if (interest := connection.interest(now_ms)) is not None:
            poll.register(*interest)
        poll.poll(max(1.0, connection.due_ms() - now_ms))
        connection.step((time.monotonic() - begun_s) * 1000)
        steps += 1
    assert not connection.busy
    assert connection.interest(0.0) is None
    return connection.outcome, steps


@contextmanager
def listening(
    behaviour: Behaviour = receivers.takes, timeout_ms: int = TIMEOUT_MS
) -> Iterator[tuple[Collector, CollectorConnection]]:
    with Collector(behaviour) as collector:
        collector.start()
        yield collector, CollectorConnection("127.0.0.1", collector.port, timeout_ms)


@pytest.mark.parametrize("behaviour", [receivers.takes, receivers.takes_and_closes])
def test_each_request_has_a_connection_of_its_own(behaviour: Behaviour) -> None:
    """One that is kept may be closed just when the next request is sent: that one would be lost."""
    with listening(behaviour) as (collector, connection):
        for _ in range(3):
            outcome, _ = finished(connection)
            assert (outcome.status, outcome.why) == (200, "")
        assert (collector.connections, len(collector.bodies)) == (3, 3)


@pytest.mark.parametrize(
    ("behaviour", "status", "says"),
    [
        (receivers.answers(receivers.status(429, "Retry-After: 7\r\n")), 429, ""),
        (receivers.answers(b"HTTP/1.0 204 No Content\r\n\r\n"), 204, ""),
        (receivers.answers(b"HTTP/1.1 100 Continue\r\n\r\n" + receivers.OK), 200, ""),
        (receivers.answers(b"\x16\x03\x01 garbage\r\n\r\n\r\n"), 0, "no status line"),
        (receivers.answers(b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n"), 0, "more than"),
        (receivers.dies, 0, "closed"),
        (receivers.floods, 0, "more than"),
    ],
)
def test_any_answer_is_an_end(behaviour: Behaviour, status: int, says: str) -> None:
    with listening(behaviour) as (_, connection):
        outcome, _ = finished(connection)
        assert (outcome.status, outcome.left) == (status, True)
        assert says in outcome.why


def test_where_nobody_listens_nothing_has_left() -> None:
    with Collector() as collector:
        outcome, _ = finished(CollectorConnection("127.0.0.1", collector.port, TIMEOUT_MS))
    assert (outcome.status, outcome.left) == (0, False)
    assert "Connection refused" in outcome.why


def test_what_comes_byte_by_byte_costs_few_looks() -> None:
    with listening(receivers.slowly(0.002)) as (_, connection):
        outcome, steps = finished(connection)
    assert outcome.status == 200
    assert steps < len(receivers.OK) / 2  # a busy machine takes longer, with a look in each 20 ms
    sent = 0

    def going_on(collector: Collector, connection: socket.socket, _: bytes) -> bool:
        nonlocal sent
        while not collector.ended.wait(0.001):
            connection.sendall(b"HTTP/1.1 102 Processing\r\n\r\n")
            sent += 1
        return False

    with listening(going_on, timeout_ms=500) as (_, connection):
        outcome, steps = finished(connection)
        assert outcome.why == "no answer in 500 ms"
        assert steps < sent / 4


def test_after_an_interim_answer_in_two_pieces_it_waits() -> None:
    def two_pieces(collector: Collector, connection: socket.socket, _: bytes) -> bool:
        connection.sendall(b"HTTP/1.1 100 Cont")
        time.sleep(0.02)
        connection.sendall(b"inue\r\n\r\n")
        collector.ended.wait(60)
        return False

    with listening(two_pieces, timeout_ms=500) as (_, connection):
        begun_s = time.monotonic()
        connection.begin(REQUEST, 0.0)
        while (now_ms := (time.monotonic() - begun_s) * 1000) < 250:
            connection.step(now_ms)
            time.sleep(0.001)
        assert connection.due_ms() > now_ms  # else the loop would not wait at all
        assert connection.interest(now_ms) is not None


def test_one_that_does_not_read_is_given_up() -> None:
    with Collector(reads=False) as collector:
        collector.start()
        connection = CollectorConnection("127.0.0.1", collector.port, 50)
        outcome, _ = finished(connection, b"x" * (64 << 20))
        assert outcome.why == "no answer in 50 ms"


@given(st.binary(max_size=200), st.booleans())
def test_whatever_comes_nothing_raises(answer: bytes, closes: bool) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        connection = CollectorConnection("127.0.0.1", 1, 10)
        connection._socket = ours
        ours.setblocking(False)
        connection.begin(REQUEST, 0.0)
        theirs.sendall(answer)
        if closes:
            theirs.close()
        for now_ms in range(0, 30, 5):
            connection.step(now_ms)
        assert connection.outcome is not None


S = 1_000_000_000


@pytest.fixture(autouse=True)
def logged() -> Iterator[None]:
    set_level("info")
    yield
    set_level("info")


class Scene:
    """An output, and the time."""

    def __init__(self, port: int, headers: dict[str, str] | None = None, is_cumulative: bool = False) -> None:
        self.now_ns = 0
        clock: Any = SimpleNamespace(monotonic_ns=lambda: self.now_ns, epoch_ns=time.time_ns)
        known = headers or {}, {"k": "v"}, 10_000, 60_000, is_cumulative
        settings = OtlpSettings("127.0.0.1", port, "/v1/metrics", *known)
        config = Config({b"AWS_LAMBDA_FUNCTION_NAME": b"orders", b"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": b"512"})
        self.output = OtlpOutput(settings, config, "eu-west-1", clock)

    def invoke(self, count: int = 1) -> None:
        for _ in range(count):
            self.output.add(InvocationRecord(1, {"PeakRSS": 5.0}, {"environmentId": "env", "tenantId": "t"}), None)

    def after(self, seconds: float) -> None:
        """A request that is due is sent, and has its end."""
        self.now_ns += round(seconds * S)
        begun = time.monotonic()
        while True:
            self.output.step(self.now_ns, (time.monotonic() - begun) * 1000)
            if not self.output._connection.busy:
                return
            time.sleep(0.002)

    @property
    def waiting(self) -> int:
        return len(self.output._queue)


def scene(collector: Collector, behaviour: Behaviour = receivers.takes) -> Scene:
    collector._behaviour = behaviour
    return Scene(collector.port)


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as made:
        yield made.start()


def test_at_most_one_request_a_period(collector: Collector) -> None:
    made = scene(collector)
    assert made.output.due_ns(made.now_ns, 0) == FOREVER_NS
    made.after(3600)
    assert collector.bodies == []
    made.invoke(3)
    made.after(0)
    made.invoke(4)
    made.after(59)
    assert [receivers.invocations(request) for request in collector.taken] == [3]
    made.after(1)
    assert [receivers.invocations(request) for request in collector.taken] == [3, 4]
    first, second = (receivers.points(request, "faas.mem_usage")[0] for request in collector.taken)
    assert first["timeUnixNano"] == second["startTimeUnixNano"]


def test_counts_go_on_where_the_user_wants_them_to(collector: Collector) -> None:
    scene = Scene(collector.port, is_cumulative=True)
    for count in 2, 1:
        scene.invoke(count)
        scene.after(60)
    first, second = (receivers.points(request, "faas.mem_usage")[0] for request in collector.taken)
    assert [first["count"], second["count"]] == [2, 3]
    assert first["startTimeUnixNano"] == second["startTimeUnixNano"] < first["timeUnixNano"] <= second["timeUnixNano"]


def test_after_a_snapshot_a_period_begins_with_an_invocation(collector: Collector) -> None:
    now = SimpleNamespace(monotonic_ns=50_000 * S, epoch_ns=1_700_000_000 * S)
    clock: Any = SimpleNamespace(monotonic_ns=lambda: now.monotonic_ns, epoch_ns=lambda: now.epoch_ns)
    variables = {b"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.port}".encode()}
    outputs = RecordOutputs(Config({b"TRUEMEM_OUTPUT": b"otlp"}), variables, clock)
    now.monotonic_ns, now.epoch_ns = 100 * S, 1_700_500_000 * S  # days later, on another machine
    outputs.begun(PendingRecord("r", 1, 1), {})
    outputs.finished(InvocationRecord(1, {"PeakRSS": 5.0}, {"environmentId": "env"}), None)
    assert outputs.due_ns(now.monotonic_ns) <= now.monotonic_ns + 60 * S
    outputs.hurry(S, last=True)
    (point,) = receivers.points(json.loads(collector.bodies[0]), "faas.mem_usage")
    assert point["startTimeUnixNano"] == f"{1_700_500_000 * S}"


LINES = {
    "growthLines": [
        {
            "file": "a.py",
            "line": 3,
            "function": "keep",
            "perInvocationKiB": 40.0,
            "share": 0.9,
            "stack": ["a.py:3 keep"],
        },
        {"class": "com.acme.Order", "perInvocationKiB": 4.0, "perInvocationObjects": 2, "share": 0.1},
    ],
    "growthProfile": {"invocations": 60, "restKiB": -0.5},
}


def test_a_relay_that_is_late_gets_the_profile_once(capfd: pytest.CaptureFixture[str]) -> None:
    now = SimpleNamespace(ns=0)
    clock: Any = SimpleNamespace(monotonic_ns=lambda: now.ns, epoch_ns=time.time_ns)
    with Collector(receivers.answers(receivers.status(200))) as relay:
        variables = {b"PYROSCOPE_SERVER_ADDRESS": f"http://127.0.0.1:{relay.port}".encode()}
        outputs = RecordOutputs(Config({b"TRUEMEM_OUTPUT": b"pprof", b"TRUEMEM_LINES": b"on"}), variables, clock)
        ordinary = InvocationRecord(1, {}, {"environmentId": "env"})
        for made in ordinary, InvocationRecord(1, {}, LINES), ordinary, InvocationRecord(1, {}, {"recovered": True}):
            outputs.finished(made, None if "recovered" in made.properties else PendingRecord("r", 1, 1))
            outputs.step()
        relay.start()
        for now.ns in range(61 * S, 200 * S, 20 * S):
            outputs.step()
            time.sleep(0.05)
        outputs.hurry(S, last=True)
    (body,) = relay.bodies
    assert all(text in body for text in (b"com.acme.Order", b"keep", b"a.py", b"unknown:", b"inuse_space"))
    assert b"(in no line)" not in body  # it has shrunk
    said = capfd.readouterr().err
    assert "1 profiles taken" in said
    assert "dropped" not in said


@pytest.mark.parametrize(
    ("output", "lines", "has_nothing"),
    [(b"emf,pprof", b"10%", False), (b"emf,pprof", b"off", True), (b"pprof", b"on", True)],
)
def test_a_relay_that_gets_nothing_is_said(
    output: bytes, lines: bytes, has_nothing: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    RecordOutputs(Config({b"TRUEMEM_OUTPUT": output, b"TRUEMEM_LINES": lines}), {}, Clock())
    assert ("pprof has nothing to send" in capfd.readouterr().err) == has_nothing


def test_the_resource_is_the_function_and_what_the_user_adds(collector: Collector) -> None:
    made = Scene(collector.port, {"x-key": "value"})
    made.output.know_account("123456789012")
    made.invoke()
    made.after(60)
    (resource,) = collector.taken[0]["resourceMetrics"]
    found = {each["key"]: next(iter(each["value"].values())) for each in resource["resource"]["attributes"]}
    assert found == {
        "cloud.provider": "aws",
        "cloud.platform": "aws_lambda",
        "cloud.region": "eu-west-1",
        "cloud.account.id": "123456789012",
        "faas.name": "orders",
        "service.name": "orders",
        "faas.max_memory": f"{512 << 20}",
        "faas.instance": "env",
        "service.instance.id": "env",
        "truemem.tenant.id": "t",
        "k": "v",
    }
    assert b"\r\nx-key: value\r\n" in collector.heads[0]
    assert f"Content-Length: {len(collector.bodies[0])}".encode() in collector.heads[0]
    assert collector.heads[0].startswith(b"POST /v1/metrics HTTP/1.1\r\n")


def test_an_absent_collector_gets_it_all_later() -> None:
    with Collector() as late:
        made = Scene(late.port)
        for _ in range(3):
            made.invoke(2)
            made.after(60)
        assert made.waiting == 3
        late.start()
        made.invoke()
        made.after(60)
        assert (late.invocations, len(late.bodies), made.waiting, made.output.lost) == (7, 1, 0, 0)


def test_a_full_queue_drops_the_oldest_and_counts_it(capfd: pytest.CaptureFixture[str]) -> None:
    with Collector() as absent:
        made = Scene(absent.port)
        for _ in range(QUEUE + 3):
            made.invoke(2)
            made.after(60)
    assert (made.waiting, made.output.lost) == (QUEUE, 6)
    assert "the queue is full; 2 invocations dropped, 6 in all" in capfd.readouterr().err


def test_what_is_refused_waits_and_is_not_sent_too_early(collector: Collector) -> None:
    refuses = receivers.answers(receivers.status(429, "Retry-After: 300\r\n"))
    made = scene(collector, receivers.once(refuses))
    made.invoke(2)
    made.after(60)
    assert (made.waiting, made.output.lost) == (1, 0)
    made.after(299)
    assert len(collector.bodies) == 1
    made.after(1)
    assert (collector.invocations, made.waiting, made.output.lost) == (2, 0, 0)
    collector._behaviour = receivers.answers(receivers.status(503))
    for count in (2, 3):
        made.invoke(count)
        made.after(60)
    assert (made.waiting, made.output.lost) == (2, 0)
    collector._behaviour = receivers.takes
    made.invoke()
    made.after(60)
    assert (collector.invocations, made.waiting, made.output.lost) == (8, 0, 0)


@pytest.mark.parametrize(
    "behaviour",
    [
        receivers.answers(receivers.status(500)),
        receivers.answers(receivers.status(302, "Location: http://localhost/\r\n")),
        receivers.answers(b"garbage\r\n\r\n"),
        receivers.dies,
    ],
)
def test_what_may_have_been_taken_is_counted_not_resent(behaviour: Behaviour, collector: Collector) -> None:
    made = scene(collector, receivers.once(behaviour))
    made.invoke(2)
    made.after(60)
    assert (made.waiting, made.output.lost) == (0, 2)
    made.invoke(3)
    made.after(60)
    assert (collector.invocations, made.output.lost) == (3, 2)


@pytest.mark.parametrize(
    ("body", "rejected"),
    [
        (receivers.PARTIAL, 3),
        (b"", 0),
        (b"null", 0),
        (b"[1]", 0),
        (b'{"partialSuccess":null}', 0),
        (b'{"partialSuccess":{"rejectedDataPoints":"x"}}', 0),
    ],
)
def test_a_success_in_any_words_is_one(
    body: bytes, rejected: int, collector: Collector, capfd: pytest.CaptureFixture[str]
) -> None:
    made = scene(collector, receivers.answers(receivers.status(200, "", body)))
    made.invoke()
    made.after(60)
    assert (made.output.rejected, made.output.lost, made.waiting) == (rejected, 0, 0)
    assert ("rejected 3 data points; its own log may say why" in capfd.readouterr().err) is bool(rejected)


def test_the_log_says_once_that_it_works_and_stays_short(
    collector: Collector, capfd: pytest.CaptureFixture[str]
) -> None:
    made = scene(collector)
    for _ in range(3):
        made.invoke()
        made.after(60)
    assert capfd.readouterr().err.count("works, 1 invocations taken") == 1
    collector._behaviour = receivers.answers(receivers.status(500))
    for _ in range(40):
        made.invoke()
        made.after(60)
    assert len(capfd.readouterr().err.splitlines()) < 25


def test_at_the_end_all_is_sent_or_reported(capfd: pytest.CaptureFixture[str]) -> None:
    with Collector() as absent:
        made = Scene(absent.port)
        made.invoke(2)
        made.output.hurry(S // 10, 0.0, last=False)
        assert made.waiting == 1
        made.invoke(3)
        made.output.hurry(S // 10, 0.0, last=True)
    assert (made.waiting, made.output.lost) == (0, 5)
    assert "the environment ends; 5 invocations dropped, 5 in all" in capfd.readouterr().err
