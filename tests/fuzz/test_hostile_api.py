"""The real sidecar against an Extensions API that breaks every rule: it goes on asking, and never ends by itself."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.platform import Answer, Platform, invoke, response

LARGEST_KIB = 48 * 1024
"""RSS of a sidecar under an ordinary python3 that keeps nothing."""

EVENT = invoke("decoy")

FAULTS = {
    "closed": Answer(b"", "close"),
    "reset": Answer(b"", "reset"),
    "reset in the middle of a body": Answer(EVENT[:-9], "reset"),
    "closed in the middle of a head": Answer(EVENT[:20], "close"),
    "403": Answer(response(403, b'{"errorType":"Extension.UnknownExtensionIdentifier"}')),
    "500": Answer(response(500, b'{"errorType":"InternalServerError"}')),
    "204": Answer(b"HTTP/1.1 204 No Content\r\n\r\n", "close"),
    "empty": Answer(response(200, b"")),
    "an array": Answer(response(200, b'["INVOKE"]')),
    "not JSON": Answer(response(200, b'"INVOKE"}{')),
    "another event": Answer(response(200, b'{"eventType":"WAKE"}')),
    "members of the wrong types": Answer(response(200, b'{"eventType":"INVOKE","requestId":[1],"deadlineMs":{}}')),
    "no number": Answer(response(200, b'{"eventType":"INVOKE","requestId":"x","deadlineMs":NaN}')),
    "too large": Answer(response(200, b'"INVOKE"' + b" " * (2 << 20)), "close"),
    "a length that is not kept": Answer(EVENT.replace(b"Content-Length: ", b"Content-Length: 9"), "close"),
    "endless, without a length": Answer(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (3 << 20), "close"),
    "endless head": Answer(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000, "close"),
    "many small chunks": Answer(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 100_000, "close"
    ),
    "not HTTP": Answer(b"\x16\x03\x01\x00\xa5" * 50, "close"),
    "byte by byte": Answer(EVENT, piece=1),
    "answered twice": Answer(EVENT + EVENT),
    "answered with more": Answer(EVENT + b"HTTP/1.1 200 OK\r\nContent-Le"),
}


def serve(faults: list[Answer]) -> None:
    """Good events before and after: those are recorded, whatever was in between."""
    events = [Answer(invoke("before")), *faults, Answer(invoke("after")), Answer(invoke("last"))]
    with Platform(events) as platform:
        platform.wait_for_nexts(len(events) + 1)
        ids = [record["requestId"] for record in platform.end()]
        assert platform.nexts == len(events) + 1
        assert platform.peak_kib < LARGEST_KIB
    assert [known for known in ids if known in ("before", "after", "last")] == ["before", "after", "last"]


@pytest.mark.parametrize("names", [list(FAULTS)[start::4] for start in range(4)], ids=" / ".join)
def test_it_outlives_what_an_api_can_answer(names: list[str]) -> None:
    serve([FAULTS[name] for name in names])


@st.composite
def mutated(draw: st.DrawFn) -> Answer:
    """An event that something happened to on its way."""
    data = bytearray(EVENT)
    for _ in range(draw(st.integers(1, 5))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 20))] = draw(st.binary(max_size=20))
    return Answer(bytes(data[: draw(st.integers(0, len(data)))]), draw(st.sampled_from(["close", "reset"])))


@settings(max_examples=max(4, settings().max_examples // 25), suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(list(FAULTS.values())) | mutated(), max_size=5))
def test_it_outlives_any_sequence_of_them(faults: list[Answer]) -> None:
    serve(faults)


def test_it_registers_as_soon_as_somebody_answers() -> None:
    registers = [
        Answer(b"", "reset"),
        Answer(response(500, b'{"errorType":"InternalServerError"}')),
        Answer(b"SSH-2.0-OpenSSH\r\n\r\n", "close"),
    ]
    with Platform([Answer(invoke("first"))], registers=registers) as platform:
        platform.wait_for_nexts(2)
        assert [record["requestId"] for record in platform.end()] == ["first"]


@pytest.mark.parametrize(
    "answer", [response(403, b'{"errorType":"Extension.RegistrationClosed"}'), response(200, b"{}")]
)
def test_it_leaves_at_once_where_it_may_not_register(answer: bytes) -> None:
    """Init waits for it, and would fail only later."""
    with Platform([], registers=[Answer(answer)]) as platform:
        assert platform.exit_code() == 1
        assert platform.told().startswith("truemem ERROR register")
