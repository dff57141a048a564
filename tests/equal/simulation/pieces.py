"""The sidecar's pure parts, each with arguments by chance: what they return, or the class of what they raise."""

from __future__ import annotations

from truemem.config import Config
from truemem.drift import Drift
from truemem.lines import answer, histogram
from truemem.linux import cgroup, process_evidence, procfs, sockets
from truemem.linux.procfs import FaultSizes
from truemem.measure import child_bound, sampling, thread_bound, window
from truemem.outputs.otlp_document import parse_trace
from truemem.platform import exact_mode, extensions_api, http1, tcp, telemetry
from truemem.records.pending_record import EnvironmentState
from truemem.records.record import rfc3339
from truemem.resources import parse_limits, parse_slots
from truemem.support import log, minijson, numbers
from truemem.verdict import heap_limit_advice

from . import http
from . import kernel as k
from .platform import RUNTIME_PATH, Lambda
from .rolls import EXACT, Rolls, integer, mangled, real, text
from .settings import variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

MANY = 5
"""Arguments for each part and seed."""


MEMBERS = {
    procfs.Status: ("hwm", "rss", "anon", "file", "shmem", "threads"),
    procfs.Stat: (
        *("state", "parent", "faults", "child_faults", "threads", "start_time", "rss", "child_ticks", "ticks", "name"),
        *("has_memory", "mm"),
    ),
    window.Peak: ("estimate", "lower", "upper", "method", "raced"),
    child_bound.Unread: ("most", "estimate", "late", "orphans", "lost"),
    telemetry.PlatformEvent: ("kind", "record", "time_ns"),
}
"""What is told of classes that are no tuples."""


def plain(value: Any) -> str:
    """What a value is, with its type, whatever class of tuple it is in."""
    if isinstance(value, tuple):
        return f"({', '.join([plain(each) for each in value])})"
    if isinstance(value, list):
        return f"[{', '.join([plain(each) for each in value])}]"
    if isinstance(value, dict):
        return f"{{{', '.join([f'{plain(name)}: {plain(each)}' for name, each in value.items()])}}}"
    if isinstance(value, (set, frozenset)):
        return plain(sorted(value))
    if isinstance(value, http1.Message):
        return plain(
            (value.start_line, value.headers, value.status, value.is_last, value.body_bytes, value.body, value.complete)
        )
    if type(value) in MEMBERS:
        return plain(tuple([getattr(value, name) for name in MEMBERS[type(value)]]))
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return repr(value)
    return type(value).__name__


def digits(rolls: Rolls) -> bytes:
    number = b"%d" % integer(rolls)
    kind = rolls.below(12)
    return (number, number, number, b" %s\n" % number, b"+1", b"0x9", b"", b"1_0", b"\xb2", b"-0", b"007", b"1e3")[kind]


def size(rolls: Rolls) -> int:
    """KiB, mostly as a machine may have them."""
    return integer(rolls) % EXACT if rolls.chance(100) else rolls.scale(1 << 24)


def ns(rolls: Rolls) -> int:
    return integer(rolls) if rolls.chance(100) else rolls.scale(1 << 61)


def document(rolls: Rolls) -> bytes:
    value = http.dumps(Lambda.value(_Any(rolls)))  # type: ignore[arg-type]
    return mangled(rolls, value) if rolls.chance(400) else value


class _Any:
    """What Lambda.value needs of a world."""

    def __init__(self, rolls: Rolls) -> None:
        self.rolls = rolls

    def value(self, depth: int = 0) -> Any:
        return Lambda.value(self, depth)  # type: ignore[arg-type]


class Pieces:
    """Files of /proc and others, as a made-up environment has them: whole, or mangled."""

    def __init__(self, rolls: Rolls) -> None:
        self.rolls = rolls
        self.world = Lambda(rolls, 512, False, False)
        runtime = self.world.start_runtime(0)
        runtime.touch(rolls.scale(1 << 22))
        runtime.sockets = [(40_000 << 20) + 20_000 + number for number in range(rolls.below(4))]
        self.world.is_huge = rolls.chance(500)
        self.pid = runtime.pid

    def file(self, name: str) -> bytes:
        """What is at this path, of the runtime where it has a %d."""
        content = self.world._read(name % self.pid if "%" in name else name)
        return mangled(self.rolls, content) if self.rolls.chance(600) else content


def _procfs(rolls: Rolls) -> Iterator[tuple[str, Callable[[], Any]]]:
    pieces = Pieces(rolls)
    for name, parse, path in (
        ("parse_status", procfs.parse_status, "/proc/%d/status"),
        ("is_dying", procfs.is_dying, "/proc/%d/status"),
        ("parse_slots", parse_slots, "/proc/%d/status"),
        ("parse_stat", procfs.parse_stat, "/proc/%d/stat"),
        ("parse_state", procfs.parse_state, "/proc/%d/stat"),
        ("parse_statm", procfs.parse_statm, "/proc/%d/statm"),
        ("parse_limits", parse_limits, "/proc/%d/limits"),
        ("parse_last_pid", procfs.parse_last_pid, "/proc/loadavg"),
        ("parse_tcp", sockets.parse_tcp, "/proc/net/tcp"),
        ("field", lambda text: procfs.field(text, b"\noom_kill "), "/proc/vmstat"),
        ("parse_meminfo", procfs.parse_meminfo, "/proc/meminfo"),
        ("parse_membership", cgroup.parse_membership, "/proc/%d/cgroup"),
    ):
        yield name, lambda parse=parse, path=path: parse(pieces.file(path))  # type: ignore[misc]
    yield "parse_bytes", lambda: cgroup.parse_bytes(digits(rolls))


def _numbers(rolls: Rolls) -> Iterator[tuple[str, Callable[[], Any]]]:
    any_value = _Any(rolls).value
    yield "number", lambda: numbers.number(any_value())
    yield "whole", lambda: numbers.whole(digits(rolls).strip(), rolls.below(24))
    yield "mib", lambda: numbers.mib(rolls.pick((size(rolls), size(rolls), real(rolls), rolls.below(5000))))
    yield "mib_text", lambda: numbers.mib_text(size(rolls))
    yield "rounded", lambda: numbers.rounded(real(rolls))
    yield "ms", lambda: numbers.ms(rolls.pick((integer(rolls), ns(rolls), rolls.below(10**6))))
    yield "loads", lambda: minijson.loads(document(rolls))
    yield "dumps", lambda: minijson.dumps(any_value())
    yield "members", lambda: telemetry.members(document(rolls))
    yield "remaining_ms", lambda: telemetry.remaining_ms({"deadlineMs": any_value()}, ns(rolls))
    yield "epoch_ns", lambda: telemetry.epoch_ns(moment(rolls))
    yield "parse_batch", lambda: batch(rolls)
    yield "port_of", lambda: process_evidence.port_of(text(rolls) + digits(rolls).decode("latin-1"))
    yield (
        "parse_address",
        lambda: tcp.parse_address(f"{rolls.pick(('127.0.0.1', '[::1]', 'localhost', text(rolls)))}:{integer(rolls)}"),
    )
    yield "is_invoke", lambda: extensions_api.is_invoke(document(rolls) + rolls.pick((b"", b'"INVOKE"')))
    yield "rfc3339", lambda: rfc3339(rolls.scale(1 << 46))
    yield (
        "parse_trace",
        lambda: parse_trace(
            {
                "value": rolls.pick(
                    ("Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1", text(rolls))
                )
            }
        ),
    )
    yield "answer", lambda: answer.parse(document(rolls))
    yield "histogram", lambda: histogram.parse_histogram(classes(rolls))
    yield "environment", lambda: remembered(rolls)
    yield "config", lambda: settings(rolls)
    yield "heap", lambda: heap_limit_advice(rolls.pick(("java", "nodejs", "go", "x")), *(size(rolls) for _ in range(3)))
    yield (
        "reason",
        lambda: log.reason(rolls.pick((OSError(5, "x"), ValueError("x"), http1.Malformed("our words"), KeyError(1)))),
    )


def moment(rolls: Rolls) -> str:
    day = f"{rolls.below(10_000):04}-{rolls.below(14):02}-{rolls.below(33):02}"
    part = rolls.pick(("", ".", ".5", ".000", ".123456789", ".1234567890123"))
    made = f"{day}T{rolls.below(25):02}:59:{rolls.below(61):02}{part}Z".encode()
    return (mangled(rolls, made) if rolls.chance(300) else made).decode("latin-1")


def batch(rolls: Rolls) -> Any:
    events = [
        {
            "time": moment(rolls),
            "type": rolls.pick(("platform.report", "platform.start", "x")),
            "record": _Any(rolls).value(1),
        }
        for _ in range(rolls.below(4))
    ]
    body = http.dumps([*events, *rolls.some([_Any(rolls).value(1)], 2)])
    made, bad = telemetry.parse_batch(mangled(rolls, body) if rolls.chance(300) else body)
    metrics = {"durationMs": _Any(rolls).value(2)}
    event = telemetry.PlatformEvent("platform.report", {"metrics": metrics, "requestId": _Any(rolls).value(2)}, None)
    return made, bad, [(each.text("status"), each.metric("durationMs"), each.request_id) for each in [*made, event]]


def classes(rolls: Rolls) -> bytes:
    names = (
        "[B",
        "java.lang.String (java.base@21)",
        "com.acme.Order",
        "[[Lcom.acme.A;",
        "x/0x00",
        text(rolls, surrogates=False),
    )
    rows = [f"{at:4}: {integer(rolls):13} {size(rolls):13}  {rolls.pick(names)}" for at in range(rolls.below(8))]
    made = "\n".join([" num     #instances         #bytes  class name", *rows, "Total 1 2", ""]).encode()
    return mangled(rolls, made) if rolls.chance(300) else made


def remembered(rolls: Rolls) -> Any:
    state = EnvironmentState("boot")
    values = ["boot", "0123456789abcdef", size(rolls), size(rolls), real(rolls), integer(rolls)]
    body = http.dumps(values[: rolls.between(4, 6)])
    resumed = state.resume_from(mangled(rolls, body) if rolls.chance(500) else body)
    state.reached(size(rolls))
    numbers = state.invocations, state.high_water_mark, state.mark_mib, state.kills
    return resumed, numbers, state.restored, state.resumed, state.from_platform, state.text().partition(",")[0]


def settings(rolls: Rolls) -> Any:
    return sorted(vars(Config(variables(rolls, rolls.scale(1 << 14), rolls.chance(100)))).items())


def _streams(rolls: Rolls) -> Iterator[tuple[str, Callable[[], Any]]]:
    yield "messages", lambda: messages(rolls)
    yield "reads along", lambda: read_along(rolls)


def stream(rolls: Rolls, requests: bool) -> bytes:
    made = b""
    for _ in range(1 + rolls.below(3)):
        start = b"POST /x HTTP/1.1" if requests else b"HTTP/1.1 %d OK" % rolls.pick((200, 200, 100, 204, 404, 500))
        made += http.framed(
            rolls,
            start,
            bytes(rolls.scale(300)),
            rolls.pick((b"", b"A: b\r\n", b"Connection: close\r\n")),
            closes=not requests,
        )
    return mangled(rolls, made) if rolls.chance(400) else made


def pieces_of(rolls: Rolls, data: bytes) -> list[bytes]:
    made, at = [], 0
    for cut in sorted([*(rolls.below(len(data) + 1) for _ in range(rolls.below(6))), len(data)]):
        made.append(data[at:cut])
        at = cut
    return made


def messages(rolls: Rolls) -> Any:
    requests = rolls.chance(500)
    reader = http1.MessageReader(rolls.pick((100, 1 << 20)), requests)
    made: list[Any] = []
    for piece in pieces_of(rolls, stream(rolls, requests)):
        reader.feed(piece)
        for _ in range(4):
            message = reader.take()
            made.append((plain(message), reader.held, reader.begun, reader.start_line))
            if message is None:
                break
    if rolls.chance(500):
        made.append(plain(reader.take(True)))
    return made


def read_along(rolls: Rolls) -> Any:
    """Two connections of the runtime, in exact mode."""
    told: list[Any] = []
    count = 0

    def measure() -> int:
        nonlocal count
        count += 1
        if rolls.chance(20):
            raise ValueError
        return count

    exact = exact_mode.ExactMode(measure, pooled=rolls.chance(300))
    connections = [exact_mode.RuntimeConnection(exact) for _ in range(2)]
    for number in range(rolls.below(14)):
        connection = rolls.pick(connections)
        kind = rolls.below(12 if connection.asking > 0 or rolls.chance(100) else 6)
        request_id = b"%d" % rolls.below(4)
        answer_of = b"HTTP/1.1 %d OK" % rolls.pick((200, 200, 200, 202, 100, 403))
        data = b"GET %snext HTTP/1.1\r\n\r\n" % RUNTIME_PATH
        if kind in (4, 5):
            data = http.framed(
                rolls,
                b"POST %s%s/%s HTTP/1.1" % (RUNTIME_PATH, request_id, rolls.pick((b"response", b"error"))),
                bytes(rolls.scale(90)),
            )
        if kind > 5:
            data = http.framed(
                rolls, answer_of, bytes(rolls.scale(90)), b"Lambda-Runtime-Aws-Request-Id: %s\r\n" % request_id
            )
        if rolls.chance(60):
            data = mangled(rolls, data)
        for piece in pieces_of(rolls, data):
            if kind == 11:
                rolls.pick((connection.ended, connection.finished, connection.closed, connection.lose))()
            elif piece:
                (connection.sent if kind < 6 else connection.received)(memoryview(piece))
        moment = exact.take(rolls.between(1, 3)) if rolls.chance(500) else None
        told.append(
            (number, exact.begun, exact.asking, exact.failures, exact.engaged, exact.answered, len(exact.moments))
        )
        told.append(
            [
                (each.request_id, each.size, each.whole, each.unsure, each.elsewhere, each.failed)
                for each in exact.running
            ]
        )
        told.append([connection.asking, connection.lost, connection.body_left(True), connection.body_left(False)])
        if moment is not None:
            told.append((moment.measured, moment.is_sample, len(moment.ended), moment.begun is None))
    return told


def _measures(rolls: Rolls) -> Iterator[tuple[str, Callable[[], Any]]]:
    yield "init_interval_ns", lambda: sampling.init_interval_ns(ns(rolls), rolls.chance(500))
    yield "urgent_ns", lambda: sampling.urgent_ns(rolls.pick((None, real(rolls), abs(real(rolls)) * 1e9)), ns(rolls))
    yield "interval_ns", lambda: sampling.interval_ns(ns(rolls), size(rolls), ns(rolls), rolls.chance(500))
    yield "child_interval_ns", lambda: sampling.child_interval_ns(ns(rolls), size(rolls))
    yield "budget", lambda: budget(rolls)
    yield "curve", lambda: curve(rolls)
    yield "boundary", lambda: boundary(rolls)
    yield "peak", lambda: peak(rolls)
    yield "family", lambda: family(rolls)
    yield "lives", lambda: lives(rolls)
    yield "threads", lambda: threads(rolls)
    yield "own part", lambda: own_part(rolls)


def budget(rolls: Rolls) -> Any:
    now_ns = ns(rolls)
    made = sampling.CpuBudget(rolls.pick((0.01, 0.0001, 0.5)), rolls.pick((0.07, 1.0, 5.8)), now_ns)
    told: list[Any] = []
    for _ in range(rolls.below(12)):
        now_ns += rolls.scale(10**10) - (rolls.scale(10**9) if rolls.chance(100) else 0)
        cost_ns = rolls.scale(10**8)
        if rolls.chance(500):
            made.spend(cost_ns, now_ns, rolls.chance(300))
        elif rolls.chance(300):
            made.spend_beside(cost_ns, now_ns)
        told.append(
            (
                made.rest_ns(now_ns),
                made.affords(cost_ns, now_ns),
                made.sparing(now_ns),
                made.wait_ns(now_ns, rolls.scale(10**7)),
            )
        )
    return told


def curve(rolls: Rolls) -> Any:
    made, at_ns, level = window.MemoryCurve(), ns(rolls), size(rolls)
    for _ in range(rolls.pick((0, 1, 2, 9, 200))):
        at_ns += rolls.scale(10**10) - 1000
        level += rolls.scale(10**5) - rolls.scale(10**5)
        made.see(at_ns, level)
    since, end = at_ns - rolls.scale(10**11), at_ns + rolls.scale(10**8)
    return (
        made.last_ns(),
        made.tail(since, end),
        made.thinned(since, end),
        made.ns_until(level + size(rolls)),
        made.growth_kib_per_s(),
    )


def sizes(rolls: Rolls) -> FaultSizes:
    return FaultSizes(*rolls.pick(((4, 64), (2048, 2048))), rolls.chance(500))


def boundary(rolls: Rolls) -> Any:
    made = window.Boundary(rolls.pick((0, ns(rolls), window.NEVER_NS)))
    _filled(rolls, made)
    return made.not_before_ns, made.exact, made.lost, made.reached(), made.hidden(), made.settled(), made.unread


def _filled(rolls: Rolls, made: window.Boundary) -> window.Boundary:
    at_ns = made.not_before_ns if made.not_before_ns < window.NEVER_NS else 10**18

    def near() -> int:
        return max(0, at_ns + rolls.scale(10**6) - rolls.scale(10**6))

    for _ in range(rolls.pick((0, 1, 3, 20))):
        made.ended(near(), size(rolls))
    made.levels = [(near(), size(rolls)) for _ in range(rolls.below(3))]
    made.samples = [
        [window.Sample(near(), size(rolls), size(rolls), size(rolls), size(rolls)) for _ in range(1 + rolls.below(3))]
        for _ in range(rolls.below(3))
    ]
    made.unobserved_kib, made.found_late_kib = rolls.pick((0, size(rolls))), rolls.pick((0, 0, size(rolls)))
    made.fault_kib, made.lost_ns = rolls.pick((4, 64)), rolls.pick((0, near()))
    made.prove(rolls.pick((None, near())))
    return made


def peak(rolls: Rolls) -> Any:
    def status() -> procfs.Status:
        return procfs.Status(size(rolls), size(rolls), size(rolls), size(rolls), size(rolls), 1 + rolls.below(9))

    def some_boundary() -> window.Boundary:
        return _filled(rolls, window.Boundary(rolls.pick((0, 10**18, window.NEVER_NS))))

    def flag() -> bool:
        return rolls.chance(200)

    def zero() -> int:
        return rolls.pick((0, 0, size(rolls)))

    closing = [status() for _ in range(rolls.below(4))]
    made = window.Window(
        size(rolls),
        before=zero(),
        resets=not flag(),
        opening=some_boundary(),
        end=some_boundary(),
        sampled=size(rolls),
        last=size(rolls),
        lived=zero(),
        unseen=zero(),
        multi_process=flag(),
        process_exited=flag(),
        lost=flag(),
        closing=closing,
        watermarks=[size(rolls) for _ in closing],
        unread=zero(),
        unread_estimate=zero(),
        births=rolls.pick((-1, 0, 3)),
        deaths=rolls.pick((-1, 0, 3)),
        orphans=flag(),
        dip=zero(),
        threads=flag(),
        limit=zero(),
        child_most=zero(),
        risen=zero(),
    )
    return window.current(made), window.peak(made), window.peak(made._replace(resets=False))


def family(rolls: Rolls) -> Any:
    made = child_bound.ProcessFamily()
    for _ in range(rolls.below(9)):
        made.ended(size(rolls), rolls.pick((None, size(rolls))), rolls.below(3))
        if rolls.chance(300):
            made.called_exec(size(rolls), size(rolls))
    made.found, made.threads = rolls.below(3), rolls.below(3)
    made.reaped, made.credited = rolls.pick((0, size(rolls))), rolls.pick((0, size(rolls)))
    if rolls.chance(500):
        made.credit({0, 1})
    bound = made.bound(
        *(rolls.chance(500), rolls.between(-1, 5), rolls.pick((None, 0, size(rolls))), sizes(rolls), rolls.below(3)),
        rolls.pick((0, 131_072, size(rolls))),
    )
    return bound, made.waited, made.unseen(rolls.between(-1, 9)), made.credited, made.growth


def lives(rolls: Rolls) -> Any:
    made = child_bound.Lives()
    for pid in range(rolls.pick((0, 3, 40))):
        made.add(pid, rolls.between(-1, 45), size(rolls), size(rolls))
    return made.likely, made.most


def own_part(rolls: Rolls) -> Any:
    faults, hwm, least = size(rolls), size(rolls), size(rolls)
    stat = procfs.Stat(b"S", 1, faults, 0, 1, 5, hwm)
    return (
        child_bound.own_part_of_vfork(faults, hwm, least, sizes(rolls)),
        child_bound.own_part_of_fork(faults, hwm, least, size(rolls), sizes(rolls)),
        child_bound.handed_on(stat, sizes(rolls), rolls.chance(300)),
        child_bound.shares_memory(hwm, hwm + rolls.below(300)),
    )


def threads(rolls: Rolls) -> Any:
    def memory() -> thread_bound.ProcessMemory:
        return thread_bound.ProcessMemory(size(rolls), size(rolls), size(rolls), (rolls.below(4), rolls.below(4)))

    made = thread_bound.ThreadBound(
        rolls.pick((None, memory())), rolls.pick((None, 0, ns(rolls))), rolls.chance(500), rolls.chance(300)
    )
    told: list[Any] = []
    for _ in range(rolls.pick((0, 1, 4, 20))):
        others_ran = rolls.chance(600)
        made.look(memory(), size(rolls), rolls.pick((None, ns(rolls))), others_ran, sizes(rolls), size(rolls))
        if rolls.chance(600):
            huge = rolls.pick((None, lambda: None, lambda: (3, 4)))
            told.append(
                made.bound(
                    *(size(rolls), size(rolls), size(rolls), rolls.pick((372, 744)), rolls.pick((0, size(rolls)))),
                    *(huge, rolls.pick((None, ns(rolls))), others_ran),
                )
            )
        told.append((made.touched, made.hidden, made.several_ran, made.unmaps_files, len(made.intervals)))
    return told


def drift(rolls: Rolls) -> list[Any]:
    """A life of several hundred invocations, which grow, stay, jump, or fall."""
    made, level, time_ms = Drift(), rolls.scale(1 << 18) + 1000, rolls.scale(1 << 42)
    slope, noise = rolls.scale(3000) * rolls.pick((0, 1, 1, -1)), rolls.scale(5000) + 1
    told: list[Any] = []
    for number in range(1, rolls.pick((60, 300, 900))):
        if rolls.chance(4):
            slope, level = rolls.scale(2000) * rolls.pick((0, 1, -1)), level + rolls.scale(100_000)
        level = max(0, level + slope)
        held, time_ms = level + rolls.below(noise), time_ms + rolls.scale(10**5)
        made.see(held, held + rolls.scale(1 << 17) * rolls.pick((0, 0, 0, 1)))
        if rolls.chance(950):
            made.add(held, time_ms)
        if number % 16 == 0:
            told.append((made.due(), made.document(number, rolls.pick((None, size(rolls))))))
    return told


def try_all(seed: int) -> list[str]:
    """All parts, with what comes of this seed: a line for each."""
    rolls = Rolls(seed + (1 << 40))
    k.begin(k.Kernel(rolls, None))
    told: list[str] = []
    for parts in (_procfs, _numbers, _streams, _measures):
        for name, part in parts(rolls):
            for number in range(MANY):
                rolls.begin((seed << 20) + (len(told) << 4) + number)  # what one part does shifts no other one
                told.append(f"{name}: {_outcome(part)}")
    if seed % 4 == 0:
        told.append(f"drift: {_outcome(lambda: drift(rolls))}")
    return told


def _outcome(part: Callable[[], Any]) -> str:
    try:
        return plain(part())
    except log.OwnWords as error:
        return f"{type(error).__name__} {error}"
    except Exception as error:
        return type(error).__name__
