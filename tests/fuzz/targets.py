"""Whatever takes bytes from outside: each target takes any at all, and fails if something else than the domain's own
error comes out (test_parsers.py)."""

import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from truemem import resources
from truemem.config import SETTING_NAMES, Config
from truemem.heaps import java
from truemem.heaps import page as heap_pages
from truemem.journal import SIZE, Journal, recovered
from truemem.line_schema import MEMBERS
from truemem.lines import answer
from truemem.linux import cgroup, procfs, sockets
from truemem.outputs import dogstatsd, otlp_document
from truemem.platform import http1, telemetry
from truemem.platform.exact_mode import MOST_PIPELINED, ExactMode, RuntimeConnection
from truemem.records.pending_record import EnvironmentState, PendingRecord, PendingRecords
from truemem.records.record import line
from truemem.support import minijson
from truemem.support.files import PAGE_BYTES

from tests.records import fits

LIMIT = 5000
SETTINGS = [f"TRUEMEM_{name}".encode() for name in SETTING_NAMES]
OF_PLATFORM = ("FUNCTION_MEMORY_SIZE", "FUNCTION_NAME", "FUNCTION_VERSION", "INITIALIZATION_TYPE", "LOG_LEVEL")
PLATFORM = [f"AWS_LAMBDA_{name}".encode() for name in OF_PLATFORM]


def http(data: bytes) -> None:
    """In pieces as the first byte says, and the rest at the end."""
    step = data[0] + 1 if data else 1
    reader = http1.MessageReader(LIMIT, requests=step % 2 == 0)
    with suppress(http1.Malformed):
        for start in range(1, len(data), step):
            reader.feed(data[start : start + step])
            while message := reader.take():
                assert len(message.body) <= LIMIT
        assert reader.held <= 2 * (LIMIT + http1.HEAD_LIMIT)
        while reader.held or reader.start_line:
            reader.take(at_end=True)


def telemetry_batch(data: bytes) -> None:
    with suppress(ValueError):
        events, bad = telemetry.parse_batch(data)
        assert bad >= 0
        ledger = PendingRecords()
        record = PendingRecord("one", 1, 0)
        ledger.open(record)
        for event in events:
            event.record["requestId"] = "one"
            ledger.join(event)
            assert len(event.text("instanceId") or "") <= telemetry.MOST_MEMBER_CHARS
        assert len(record.reported.error_type or "") <= telemetry.MOST_MEMBER_CHARS


def json(data: bytes) -> None:
    with suppress(ValueError):
        minijson.dumps(minijson.loads(data))


def proc_files(data: bytes) -> None:
    for parse in procfs.parse_status, procfs.parse_stat, procfs.parse_statm, procfs.parse_meminfo:
        with suppress(procfs.Gone):
            parse(data)
    assert procfs.parse_last_pid(data) >= -1
    assert len(procfs.parse_state(data)) <= 1
    with suppress(procfs.Gone):
        assert min(java.parse_identity(data)) >= 0
    assert resources.parse_slots(data) >= 0
    assert all(limit is None or limit >= 0 for limit in resources.parse_limits(data))
    for local, remote, inode in sockets.parse_tcp(data):
        assert isinstance(local + remote + inode, int)
    with suppress(procfs.Gone):
        assert procfs.field(data, b"\noom_kill ") == int(data.split(b"\noom_kill ")[1].split()[0])


def hsperfdata(data: bytes) -> None:
    """A JVM's counters, which the function can write over; twice, for a file that changes between two readings."""
    layout = java.locate(data)
    if layout is None:
        return
    assert 0 <= layout.start < layout.end <= len(data)
    jvm = java.JavaHeap(layout.policy)
    for part in data[layout.start : layout.end], data[layout.start + 1 : layout.end + 1]:
        counters = java.values(layout, part)
        heap = jvm.read(counters) if counters is not None else None
        if heap is not None:
            assert len(minijson.dumps(heap.document())) < 300
            assert all(0 <= figure < 1 << 62 for figure in heap[1:] if isinstance(figure, int))
            assert heap.used is None or heap.used <= heap.committed


def passwd(data: bytes) -> None:
    assert "/" not in java.parse_user(data, 993)


def cgroup_files(data: bytes) -> None:
    cgroup.parse_membership(data)
    with suppress(procfs.Gone):
        cgroup.parse_bytes(data)


def heap_page(data: bytes) -> None:
    """What a function's probe writes, or what the function writes in its place."""
    heap = heap_pages.parse(data, "one", 0)
    if heap is not None:
        assert len(minijson.dumps(heap.document())) < 400


def lines_answer(data: bytes) -> None:
    """What a function's preload answers, or what the function writes in its place."""
    members, lost = answer.parse(data[: answer.MOST_ANSWER_BYTES])
    assert all(fits(MEMBERS[name], value) for name, value in members.items())
    assert minijson.dumps(members).isprintable()
    assert lost >= 0


def passing(data: bytes) -> None:
    """What passes between runtime and Runtime API, in pieces as the first byte says: the same is read as of the whole.
    Nothing is raised, and no more is kept than the beginning of a head."""
    for requests in True, False:
        whole, cut = http1.Framing(requests), http1.Framing(requests)
        heads = whole.feed(memoryview(data)[1:])
        assert _told(_feed(cut, data)) == _told(heads)
        assert (cut.lost, cut.beginning) == (whole.lost, whole.beginning)
        assert len(cut._pending) <= http1.HEAD_LIMIT + 4


def _feed(into: http1.Framing, data: bytes) -> list[http1.Message]:
    step = data[0] + 1 if data else 1
    return [head for start in range(1, len(data), step) for head in into.feed(memoryview(data)[start : start + step])]


def _told(heads: list[http1.Message]) -> list[tuple[bytes, dict[bytes, bytes], int]]:
    return [(head.start_line, head.headers, head.body_bytes) for head in heads]


def talk(data: bytes) -> None:
    """Two connections through the sidecar, in turns as each piece's first byte says."""
    exact = ExactMode(lambda: None)
    talks = [RuntimeConnection(exact), RuntimeConnection(exact)]
    hung_up: list[RuntimeConnection] = []  # the answer may still come on another connection
    for piece in data.split(b"\0"):
        turn = piece[0] if piece else 0
        one = talks[turn & 1]
        (one.received if turn & 2 else one.sent)(memoryview(piece)[1:])
        if turn & 4 and not one.lost:
            one.closed()
            hung_up.append(one)
        assert exact.asking == sum(each.asking for each in talks if not each.lost) >= 0
        assert len(exact.running) <= len(exact.moments) <= len(data)
        assert len(one._waiting) <= MOST_PIPELINED + 1 or one.lost
    for each in talks:
        each.lose()
    assert (exact.asking, exact.failures) == (0, 0)
    assert all(invocation.connection in hung_up for invocation in exact.running)


def settings(data: bytes) -> None:
    """`name index` `value`, by NUL: as the kernel gives an environment, none has one inside."""
    variables = {}
    for part in data.split(b"\0"):
        known = [*SETTINGS, *PLATFORM, b"TRUEMEM_" + part[1:9]]
        variables[known[(part[0] if part else 0) % len(known)]] = part[1:]
    config = Config(variables)
    assert len(config.problems) <= len(variables)
    assert config.memory_mib >= 0
    assert 0.0001 <= config.cpu_budget <= 0.5
    assert 0 <= config.oom_score_adj <= 1000
    assert 0 <= config.aggregate_s <= 300
    minijson.dumps([config.namespace, config.dimensions, config.properties, config.function_name, config.problems])


def journal(data: bytes) -> None:
    """A file in /tmp that the function has written."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal"
        path.write_bytes(data[:SIZE].ljust(SIZE, b"\0"))
        path.chmod(0o600)
        read = Journal(str(path))
        assert read.problem == ""
        history = EnvironmentState()
        if read.history:
            history.resume_from(read.history)
        period = otlp_document.Period(0)
        for record in recovered(read, history, Config({}), kills=1):
            assert len(line(record, Config({}))) < SIZE
            period.add(record, None)
            assert len(dogstatsd.datagram(record, {"functionname": "x"})) <= dogstatsd.MOST_DATAGRAM_BYTES
        otlp_document.resource_metrics({}, "0", period.metrics(1, 0))
        history.text()
        read.forget()
        assert not any(path.read_bytes()[page : page + 1].strip() for page in range(0, SIZE, PAGE_BYTES))
        read.remove()


TARGETS: dict[str, Callable[[bytes], None]] = {
    made.__name__: made
    for made in (
        *(http, telemetry_batch, json, proc_files, cgroup_files, hsperfdata, passwd, heap_page, passing, talk),
        *(lines_answer, settings, journal),
    )
}
