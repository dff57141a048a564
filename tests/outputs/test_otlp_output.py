"""What is sent when, what waits, what is dropped, and that it is counted. The clock is ours, the sockets are real."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from truemem.config import Config
from truemem.lifecycle.otlp_output import FOREVER_NS, QUEUE, OtlpOutput
from truemem.lifecycle.outputs import Outputs
from truemem.platform.output_settings import OtlpSettings
from truemem.records.record import InvocationRecord
from truemem.support.log import set_level

from faults import receivers
from faults.receivers import Behaviour, Collector

S = 1_000_000_000


@pytest.fixture(autouse=True)
def logged() -> Iterator[None]:
    set_level("info")
    yield
    set_level("info")


class Scene:
    """An output, and the time."""

    def __init__(self, port: int, headers: dict[str, str] | None = None) -> None:
        self.now_ns = 0
        clock: Any = SimpleNamespace(monotonic_ns=lambda: self.now_ns, epoch_ns=time.time_ns)
        settings = OtlpSettings("127.0.0.1", port, "/v1/metrics", headers or {}, {"k": "v"}, 10_000, 60_000)
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


def test_there_is_at_most_one_request_a_period_and_none_without_invocations(collector: Collector) -> None:
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


def test_a_connection_is_used_again_but_not_when_a_collector_may_be_closing_it(collector: Collector) -> None:
    seen = set()

    def closes_as_the_next_request_comes(_: Collector, connection: receivers.Connection, __: bytes) -> bool:
        if connection in seen:
            connection.close()
            return False
        seen.add(connection)
        return receivers.takes(_, connection, __)

    made = scene(collector, closes_as_the_next_request_comes)
    for _ in range(3):
        made.invoke()
        made.after(60)
    assert (len(collector.bodies), collector.connections, made.output.lost) == (3, 3, 0)
    collector._behaviour = receivers.takes
    made.invoke()
    made.output.hurry(S, 0.0, last=True)  # at once after the one before
    assert (len(collector.bodies), collector.connections, made.output.lost) == (4, 3, 0)


def test_after_a_snapshot_the_first_period_begins_with_the_first_invocation_whatever_the_clocks_did(
    collector: Collector,
) -> None:
    now = SimpleNamespace(monotonic_ns=50_000 * S, epoch_ns=1_700_000_000 * S)
    clock: Any = SimpleNamespace(monotonic_ns=lambda: now.monotonic_ns, epoch_ns=lambda: now.epoch_ns)
    variables = {b"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.port}".encode()}
    outputs = Outputs(Config({b"TRUEMEM_OUTPUT": b"otlp"}), variables, clock)
    now.monotonic_ns, now.epoch_ns = 100 * S, 1_700_500_000 * S  # days later, on another machine
    outputs.invoked({})
    outputs.add(InvocationRecord(1, {"PeakRSS": 5.0}, {"environmentId": "env"}))
    assert outputs.due_ns(now.monotonic_ns) <= now.monotonic_ns + 60 * S
    outputs.hurry(S, last=True)
    (point,) = receivers.points(json.loads(collector.bodies[0]), "faas.mem_usage")
    assert point["startTimeUnixNano"] == f"{1_700_500_000 * S}"


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
    assert collector.heads[0].startswith(b"POST /v1/metrics HTTP/1.1\r\n")


def test_what_an_absent_collector_missed_it_gets_when_it_is_there() -> None:
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


def test_of_more_periods_than_the_queue_has_room_for_the_oldest_are_dropped_and_counted(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with Collector() as absent:
        made = Scene(absent.port)
        for _ in range(QUEUE + 3):
            made.invoke(2)
            made.after(60)
    assert (made.waiting, made.output.lost) == (QUEUE, 6)
    assert "the queue is full; 2 invocations dropped, 6 in all" in capfd.readouterr().err


def test_not_now_is_tried_once_more_and_not_before_the_time_that_was_asked_for(collector: Collector) -> None:
    refuses = receivers.answers(receivers.status(429, "Retry-After: 300\r\n"))
    made = scene(collector, receivers.once(refuses))
    made.invoke(2)
    made.after(60)
    assert (made.waiting, made.output.lost) == (1, 0)
    made.after(299)
    assert len(collector.bodies) == 1
    made.after(1)
    assert (collector.invocations, made.waiting, made.output.lost) == (2, 0, 0)


def test_twice_not_now_is_dropped_and_what_came_later_is_tried_again(collector: Collector) -> None:
    made = scene(collector, receivers.answers(receivers.status(503)))
    made.invoke(2)
    made.after(60)
    made.invoke(3)
    made.after(60)
    assert (made.waiting, made.output.lost) == (1, 2)


@pytest.mark.parametrize(
    "behaviour",
    [
        receivers.answers(receivers.status(400)),
        receivers.answers(receivers.status(500)),
        receivers.answers(receivers.status(302, "Location: http://localhost/\r\n")),
        receivers.answers(b"garbage\r\n\r\n"),
        receivers.dies,
    ],
)
def test_what_may_have_been_taken_is_not_sent_twice_but_counted(behaviour: Behaviour, collector: Collector) -> None:
    made = scene(collector, receivers.once(behaviour))
    made.invoke(2)
    made.after(60)
    assert (made.waiting, made.output.lost) == (0, 2)
    made.invoke(3)
    made.after(60)
    assert (collector.invocations, made.output.lost) == (3, 2)


def test_what_a_collector_rejects_of_a_request_is_counted(
    collector: Collector, capfd: pytest.CaptureFixture[str]
) -> None:
    made = scene(collector, receivers.answers(receivers.status(200, "", receivers.PARTIAL)))
    made.invoke()
    made.after(60)
    assert (made.output.rejected, made.waiting) == (3, 0)
    assert "rejected 3 data points; its own log may say why" in capfd.readouterr().err


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"null", b"[1]", b'{"partialSuccess":null}', b'{"partialSuccess":{"rejectedDataPoints":"x"}}']
)
def test_a_success_in_any_words_is_one(body: bytes, collector: Collector) -> None:
    made = scene(collector, receivers.answers(receivers.status(200, "", body)))
    made.invoke()
    made.after(60)
    assert (made.output.rejected, made.output.lost, made.waiting) == (0, 0, 0)


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


def test_at_the_end_all_is_sent_and_what_is_not_taken_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    with Collector() as absent:
        made = Scene(absent.port)
        made.invoke(2)
        made.output.hurry(S // 10, 0.0, last=False)
        assert made.waiting == 1
        made.invoke(3)
        made.output.hurry(S // 10, 0.0, last=True)
    assert (made.waiting, made.output.lost) == (0, 5)
    assert "the environment ends; 5 invocations dropped, 5 in all" in capfd.readouterr().err


def test_the_head_says_how_long_the_body_is(collector: Collector) -> None:
    made = scene(collector)
    made.invoke()
    made.after(60)
    assert f"Content-Length: {len(collector.bodies[0])}".encode() in collector.heads[0]
    assert json.loads(collector.bodies[0])
