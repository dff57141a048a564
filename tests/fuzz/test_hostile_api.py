"""The real sidecar against an Extensions API that breaks every rule: it goes on asking, and never ends by itself."""

import os
from itertools import cycle

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from truemem.config import SETTING_NAMES

from tests.fuzz.platform import SUBSCRIBED, Answer, Platform, invoke, response
from tests.fuzz.test_parsers import mutated

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
    "what its caller calls his trace": Answer(
        response(200, b'{"eventType":"INVOKE","requestId":"x","deadlineMs":1,"tracing":{"value":"SHUTDOWN"}}')
    ),
    "no id, no deadline": Answer(response(200, b'{"eventType":"INVOKE"}')),
    "an id that is no text": Answer(response(200, b'{"eventType":"INVOKE","requestId":"\\ud800\\u0000\\n"}')),
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
for number in (
    b"1e999",
    b"-1e999",
    b"NaN",
    b"9" * 400,
    b"-1",
    b"1.5",
    b'"soon"',
    b'"1795000000000"',
    b"0",
    b"null",
    b"[]",
):
    document = b'{"eventType":"INVOKE","requestId":"x","deadlineMs":%s}' % number
    FAULTS[f"the deadline {number[:9].decode()}"] = Answer(response(200, document))


def serve(faults: list[Answer], subscribed: Answer = SUBSCRIBED) -> None:
    """Good events before and after: those are recorded, whatever was in between."""
    events = [Answer(invoke("before")), *faults, Answer(invoke("after")), Answer(invoke("last"))]
    with Platform(events, subscribed=subscribed) as platform:
        ids = platform.serves(len(events) + 1)
        assert platform.nexts == len(events) + 1
        assert platform.peak_kib < LARGEST_KIB
    assert [known for known in ids if known in ("before", "after", "last")] == ["before", "after", "last"]


@pytest.mark.parametrize("names", [list(FAULTS)[start::4] for start in range(4)], ids=" / ".join)
def test_it_outlives_what_an_api_can_answer(names: list[str]) -> None:
    serve([FAULTS[name] for name in names])


def test_it_waits_for_no_answer_that_does_not_come() -> None:
    """The function would have to wait as well: before its init ends, and for its next event."""
    serve([Answer(EVENT[:-9])], subscribed=Answer(b""))


@pytest.mark.parametrize("managed", [False, True])
@pytest.mark.parametrize("deadline", [b"1e999", b"NaN", b"-1", b'"soon"', b""])
def test_an_impossible_shutdown_deadline_changes_nothing(deadline: bytes, managed: bool) -> None:
    """It is the last event: what is lost with it is lost for good."""
    member = b',"deadlineMs":%s' % deadline if deadline else b""
    ends = response(200, b'{"eventType":"SHUTDOWN","shutdownReason":"spindown"%s}' % member)
    variables = {b"AWS_LAMBDA_INITIALIZATION_TYPE": b"lambda-managed-instances"} if managed else {}
    events = [] if managed else [Answer(invoke("one"))]
    with Platform(events, shutdown=ends, variables=variables) as platform:
        assert platform.serves(len(events) + 1) == ["one"] * len(events)
        assert "ERROR" not in platform.told()


COST = ["closed in the middle of a head", "403", "500", "empty", "another event", "not HTTP", "not JSON", "an array"]


def test_each_answer_that_is_no_event_costs_that_event_alone() -> None:
    events = [Answer(invoke("before"))]
    for name in COST:
        events += [FAULTS[name], Answer(invoke(name))]
    with Platform(events) as platform:
        platform.wait_for_nexts(len(events) + 1)
        records = platform.end()
    assert [record["requestId"] for record in records if record["requestId"] in COST] == COST
    assert sum(record.get("dropped", 0) for record in records) == len(COST)


WEIRD = [
    *(b"", b" \t", b"\xff\xfe\x80", "ü=💥,\u2028=\u202e".encode(), b"a=" + b"9" * 100_000, b"9" * 4000, b"-1", b"nan"),
    *(b"1e999", b"a=b\nc,d=\r\n{},\x1b[2J=x", b'"a"="b",\\=\\'),
]
"""Values of settings."""


@pytest.mark.parametrize("first", [0, 4, 8])
def test_no_setting_stops_it(first: int) -> None:
    """Each has another of the values."""
    names = [f"TRUEMEM_{setting}".encode() for setting in SETTING_NAMES if setting != "ENABLED"] + [b"TRUEMEM_\xff\n"]
    variables = dict(zip(names, cycle(WEIRD[first:] + WEIRD[:first]), strict=False))
    with Platform([Answer(invoke("one"))], variables=variables) as platform:
        assert platform.serves(2) == ["one"]
        assert all(line.startswith("truemem ") for line in platform.told().splitlines())


on_its_way = st.builds(Answer, mutated(EVENT), st.sampled_from(["close", "reset"]))


@settings(max_examples=max(4, settings().max_examples // 25), suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(list(FAULTS.values())) | on_its_way, max_size=5))
def test_it_outlives_any_sequence_of_them(faults: list[Answer]) -> None:
    serve(faults)


def test_it_registers_as_soon_as_the_api_answers() -> None:
    registers = [
        Answer(b"", "reset"),
        Answer(response(500, b'{"errorType":"InternalServerError"}')),
        Answer(b"SSH-2.0-OpenSSH\r\n\r\n", "close"),
    ]
    with Platform([Answer(invoke("first"))], registers=registers) as platform:
        assert platform.serves(2) == ["first"]


def test_a_log_without_a_reader_does_not_end_it() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    registers = [Answer(response(500, b"{}"))]
    with Platform([Answer(invoke("first"))], registers=registers, stderr=writing) as platform:
        os.close(writing)
        assert platform.serves(2) == ["first"]


@pytest.mark.parametrize(
    "answer", [response(403, b'{"errorType":"Extension.RegistrationClosed"}'), response(200, b"{}")]
)
def test_it_leaves_at_once_where_it_may_not_register(answer: bytes) -> None:
    """Init waits for it, and would fail only later."""
    with Platform([], registers=[Answer(answer)]) as platform:
        assert platform.exit_code() == 1
        assert platform.told().startswith("truemem ERROR register")
