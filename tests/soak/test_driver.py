"""The open loop: requests are sent when they are due, whatever is under way."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable

import pytest
from truemem_workbench.local.scaling import Answer
from truemem_workbench.soak.driver import TIMER_S, Arrival, drive

from tests.soak.seen import answer
from tests.soak.simulated import SimulatedLoop


def run(
    moments: Iterable[float],
    serve: Callable[[bytes], Awaitable[Answer]],
    *,
    begun_s: float = 0.0,
    most_at_once: int = 1000,
) -> list[Arrival]:
    """Drive it in simulated time. Returns what came, in the order in which it came."""
    came: list[Arrival] = []
    payloads = (str(number).encode() for number in itertools.count())
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(drive(moments, payloads, serve, came.append, begun_s=begun_s, most_at_once=most_at_once))
    return came


def takes(seconds: float) -> Callable[[bytes], Awaitable[Answer]]:
    async def serve(payload: bytes) -> Answer:
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        await asyncio.sleep(seconds)
        return answer(begun_s=begun_s, ended_s=loop.time())

    return serve


def test_a_slow_function_does_not_slow_the_arrivals() -> None:
    """Each of them takes ten times as long as the gap to the next one."""
    moments = [0.1 * number for number in range(1, 50)]

    came = run(moments, takes(1.0))

    assert [each.due_s for each in came] == moments
    assert [each.sent_s for each in came] == pytest.approx(moments)
    assert [each.latency_ms for each in came] == pytest.approx([1000] * len(moments))
    assert max(each.late_ms for each in came) == 0


def test_latency_counts_from_when_it_was_due() -> None:
    """One request stops the whole tool for a second. Those that were due then waited, and that is said."""
    stopped = False

    async def serve(payload: bytes) -> Answer:
        nonlocal stopped
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        if not stopped:
            stopped = True
            loop.advance(1.0)
        return answer(ended_s=loop.time())

    came = run([0.1, 0.2, 0.6, 1.0, 2.0], serve)

    latencies = {each.due_s: each.latency_ms for each in came}
    late = {each.due_s: each.late_ms for each in came}
    forgiven = 1000 * TIMER_S
    assert latencies == pytest.approx(
        {0.1: 1000, 0.2: 900 - forgiven, 0.6: 500 - forgiven, 1.0: 100 - forgiven, 2.0: 0}
    )
    assert late == pytest.approx({0.1: 0, 0.2: 900 - forgiven, 0.6: 500 - forgiven, 1.0: 100 - forgiven, 2.0: 0})


def test_above_the_bound_a_request_is_dropped() -> None:
    came = run([0.1, 0.2, 0.3, 0.4, 1.15], takes(1.0), most_at_once=3)

    assert [(each.due_s, each.answer is None) for each in came] == [
        (0.4, True),
        (0.1, False),
        (0.2, False),
        (0.3, False),
        (1.15, False),
    ]


def test_each_request_has_the_next_payload() -> None:
    seen: list[bytes] = []

    async def serve(payload: bytes) -> Answer:
        seen.append(payload)
        return answer(ended_s=asyncio.get_running_loop().time())

    run([0.1, 0.2, 0.2, 0.3], serve)

    assert seen == [b"0", b"1", b"2", b"3"]


def test_it_goes_on_from_where_it_stopped() -> None:
    came = run([100.1, 100.2], takes(0.01), begun_s=-100)

    assert [each.sent_s for each in came] == pytest.approx([100.1, 100.2])
    assert [each.latency_ms for each in came] == pytest.approx([10, 10])


def test_an_exception_ends_it_at_once() -> None:
    done = []

    async def serve(payload: bytes) -> Answer:
        if payload == b"1":
            raise LookupError("stopped")
        await asyncio.sleep(50)
        done.append(payload)
        return answer()

    with pytest.raises(LookupError, match="stopped"):
        run([0.0, 1.0, 1000.0], serve)
    assert not done


def test_cancelled_it_leaves_no_request() -> None:
    came: list[Arrival] = []

    async def main() -> None:
        driving = asyncio.create_task(
            drive([0.0, 1.0, 2.0, 9.0], itertools.repeat(b""), takes(1.5), came.append, begun_s=0.0)
        )
        await asyncio.sleep(2.1)
        driving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await driving
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(main())
    assert [each.due_s for each in came] == [0.0]
