"""Lets functions die in many ways, and judges whether the records name memory as the cause where it is.

Each death really happens under the local Lambda, in a memory cgroup, as the second invocation of an environment of its
own. The number of kills is the kernel's own count, because one OOM may kill one process or two.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from truemem_workbench.local import Function
from truemem_workbench.local.configuration.layer import with_probe
from truemem_workbench.local.errors import Failure
from truemem_workbench.local.lifecycle import events
from truemem_workbench.local.lifecycle.invocation import PendingInvocation

from faults.result import NotHere, Row, counted
from faults.subject import Subject
from testing.environment import EXTENSIONS, Environment

FUNCTION = Path(__file__).parent / "functions" / "deaths.py"
ALLOCATES = frozenset(
    number for number, line in enumerate(FUNCTION.read_text().splitlines(), 1) if line.endswith("# allocates")
)
"""Lines of it that take memory. The code of a death is no file: a line in it has none."""
VENDOR = EXTENSIONS / "vendor.py"
SIZES = (128, 512, 1769)
"""MiB."""
PATIENCE_S = 60
SHORT_S = 2.0
"""The timeout of what sleeps."""

FUNCTION_DIED, EXTENSION_DIED, NOT_KILLED = "the function's", "an extension", "no process"


@dataclass(frozen=True)
class Death:
    """One way to die, and the right verdict on it."""

    title: str
    code: str
    """Code of the handler, with the names of functions/deaths.py."""
    out_of_memory: bool = False
    killed: str = NOT_KILLED
    """Who the kernel kills: FUNCTION_DIED, EXTENSION_DIED or NOT_KILLED."""
    at_limit: bool = False
    """True if both are right: the kernel kills it at the limit, or it ends by itself."""
    timeout: bool = False
    extensions: tuple[Path, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


def _oom(title: str, code: str) -> Death:
    return Death(title, code, out_of_memory=True, killed=FUNCTION_DIED)


DEATHS = (
    _oom("anonymous memory in the runtime", "grow()"),
    _oom("the same, 500 MiB a second", "grow(pause_s=0.002)"),
    _oom("in a burst, after a second of rest", "import time; time.sleep(1); grow()"),
    _oom("in a child", "answer = wait(fork(grow))"),
    _oom("in a grandchild", "answer = wait(fork(lambda: wait(fork(grow))))"),
    _oom("in a daemon", "answer = ended(orphan(grow, daemon=True))"),
    _oom("in an orphan", "answer = ended(orphan(grow))"),
    _oom("in a child, then exit with 137", "wait(fork(grow)); os._exit(137)"),
    _oom("in 40 small children", "for pid in [fork(lambda: hold(LIMIT // 20)) for _ in range(40)]: wait(pid)"),
    _oom("thread stacks", "stacks()"),
    _oom("a memfd", "fill(os.memfd_create('deaths'))"),
    _oom(
        "a shared mapping",
        "shared = mmap.mmap(-1, 2 * LIMIT * MIB)\nfor _ in range(2 * LIMIT): shared.write(CHUNK)",
    ),
    _oom("a file on tmpfs", "fill(os.open('/dev/shm', os.O_TMPFILE | os.O_RDWR))"),
    _oom("anonymous memory after page cache", "read_files(); grow()"),
    Death("gives up at the limit, exit with 1", "to_the_limit(); os._exit(1)", out_of_memory=True, at_limit=True),
    Death("timeout at the limit", "to_the_limit(); time.sleep(60)", out_of_memory=True, at_limit=True, timeout=True),
    Death(
        "timeout at the limit while thrashing",
        "to_the_limit()\nwhile True: read_files()",
        out_of_memory=True,
        at_limit=True,
        timeout=True,
    ),
    Death("page cache, then exit with 0", "read_files(); os._exit(0)"),
    Death("page cache, then exit with 1", "read_files(); os._exit(1)"),
    Death("page cache, then timeout", "read_files(); time.sleep(60)", timeout=True),
    Death("page cache all the time, then timeout", "while True: read_files()", timeout=True),
    Death("page cache of what was written, then exit with 1", "write_files(); os._exit(1)"),
    Death("page cache, then SIGKILL by itself", "read_files(); end(signal.SIGKILL)"),
    Death("a mapped file of half the limit, then exit with 1", "map_file(0.5); time.sleep(0.3); os._exit(1)"),
    Death("half the limit, then exit with 1", "grow(LIMIT // 2); time.sleep(0.3); os._exit(1)"),
    Death("half the limit given back, then exit with 1", "grow(LIMIT // 2); held.clear(); os._exit(1)"),
    Death(
        "MemoryError, caught",
        "try: limited(64, lambda: bytearray(LIMIT * 2 * MIB))\nexcept MemoryError: answer = 'caught'",
    ),
    Death("MemoryError, not caught", "limited(64, lambda: bytearray(LIMIT * 2 * MIB))"),
    Death("RLIMIT_AS, exit with 1", "try: limited(32, grow)\nexcept OSError: os._exit(1)"),
    Death("RLIMIT_AS in a child", "answer = wait(fork(lambda: limited(32, grow)))"),
    Death("SIGKILL by itself", "end(signal.SIGKILL)"),
    Death("SIGKILL by a child", "wait(fork(lambda: os.kill(os.getppid(), signal.SIGKILL))); time.sleep(60)"),
    Death(
        "SIGKILL by another",
        "me = os.getpid(); ended(orphan(lambda: os.kill(me, signal.SIGKILL), daemon=True)); time.sleep(60)",
    ),
    Death("SIGKILL of a child", "pid = fork(lambda: time.sleep(60)); os.kill(pid, signal.SIGKILL); answer = wait(pid)"),
    Death("a child exits with 137", "answer = wait(fork(lambda: os._exit(137)))"),
    Death("SIGSEGV", "ctypes.string_at(0)"),
    Death("SIGBUS", "bus_error()"),
    Death("SIGABRT", "os.abort()"),
    Death("SIGTERM", "end(signal.SIGTERM)"),
    Death("a fatal error in C", "ctypes.pythonapi.Py_FatalError(b'as asked')"),
    Death("exit with 0", "os._exit(0)"),
    Death("exit with 1", "os._exit(1)"),
    Death("exit with 137, as a shell after a SIGKILL", "os._exit(137)"),
    Death("sys.exit", "sys.exit(1)"),
    Death("an exception", "raise ValueError('as asked')"),
    Death("timeout, idle at a quarter of the limit", "grow(LIMIT // 4); time.sleep(60)", timeout=True),
    Death("timeout while it computes", "while True: pass", timeout=True),
    Death("an extension ends", "time.sleep(60)", extensions=(VENDOR,), variables={"DIES": "1"}),
    Death(
        "an extension takes all memory",
        "time.sleep(60)",
        killed=EXTENSION_DIED,
        extensions=(VENDOR,),
        variables={"EATS": "1"},
    ),
)


@dataclass(frozen=True)
class Died:
    """The result of one death."""

    record: Mapping[str, Any]
    """The line of the invocation that died. {} if there is no certain one."""
    others: Sequence[Mapping[str, Any]]
    """The lines of the invocations before it and after it."""
    kernel_kills: int
    """Kills by the kernel's count."""
    how: str
    """The end as the platform or the function reports it."""


def judge(death: Death, died: Died) -> list[str]:
    """List what is wrong with the record. [] if it is right."""
    record, kills = died.record, died.kernel_kills
    if not record:
        return ["no line"]
    signals = record.get("outOfMemory", {}).get("signals", [])
    wrong = []
    if bool(signals) is not death.out_of_memory:
        wrong.append(f"it says {', '.join(signals) or 'nothing'}")
    if bool(record.get("OutOfMemory")) is not bool(signals):
        wrong.append("the metric and its signals differ")
    if not death.at_limit and bool(kills) is (death.killed == NOT_KILLED):
        wrong.append(f"{counted(kills, 'kill')} by the kernel: that was another death")
    of_function = bool(kills) and death.killed != EXTENSION_DIED
    if ("kernel" in signals) is not of_function:
        wrong.append(f"{counted(kills, 'kill')} by the kernel, and it says {', '.join(signals) or 'nothing'}")
    if bool(record.get("environmentKills")) is not (bool(kills) and death.killed == EXTENSION_DIED):
        wrong.append(f"{counted(kills, 'kill')} by the kernel, and environmentKills {record.get('environmentKills')}")
    blamed = [other for other in died.others if other.get("OutOfMemory") or other.get("environmentKills")]
    if blamed:
        wrong.append("an invocation in between is blamed")
    running = record.get("outOfMemory", {}).get("running")
    if running is not None and "line" in running and running["line"] not in ALLOCATES:
        wrong.append(f"it names line {running['line']} of {running['function']}, which takes no memory")
    if record.get("highWaterMark", 0) < record.get("PeakRSS", 0):
        wrong.append("highWaterMark below PeakRSS")
    return wrong


def die(subject: Subject, death: Death, memory_mib: int, *, exact: bool = False) -> Died:
    """Run an idle invocation, the death, and two more invocations. Raises NotHere without a memory cgroup."""
    with Environment(
        with_probe(Function.from_handler(f"{FUNCTION}:handler"), death.variables),
        sidecar=subject.path,
        extensions=death.extensions,
        environment=death.variables,
        exact=exact,
        memory_mib=memory_mib,
        timeout_s=SHORT_S + 1.5 * death.at_limit + memory_mib / 500 if death.timeout else PATIENCE_S,
    ) as environment:
        for notice in environment.local.notices:
            if "no permission for a memory cgroup" in notice:
                raise NotHere(notice)
        memory = environment.local.environment.memory
        report_in_time(environment)
        environment.local.invoke({"code": ""})
        made = environment.local.invoke({"code": death.code})
        kills = memory.kills()
        if not death.extensions:  # one that ends does so again, and again
            environment.local.invoke({"code": ""})
            environment.local.invoke({"code": "answer = wait(fork(int))"})
        environment.local.stop()
        lines = [json.loads(line) for line in environment.local.extension_stdout(environment.name)]
        ends = [
            str(event["record"].get("errorType", ""))
            for event in environment.local.events
            if event["type"] == "platform.runtimeDone" and event["record"]["requestId"] == made.request_id
        ]
    certain = [line for line in lines if line["requestId"] == made.request_id and not line.get("mayRepeat")]
    said: Any = made.payload
    if made.function_error is not None and isinstance(said, dict):
        said = said.get("errorType", said)
    return Died(
        certain[0] if len(certain) == 1 else {},
        [line for line in lines if line["requestId"] != made.request_id],
        kills,
        next((end for end in ends if end), str(said or "nothing")),
    )


def report_in_time(environment: Environment) -> None:
    """Deliver platform.report, with the mark, of an invocation that died before SHUTDOWN.

    That is not documented. The local Lambda sends it after the end, as AWS's emulator does. A sidecar that gets it
    earlier can be misled.
    """
    served = environment.local.environment
    runtime_done = served.journal.runtime_done

    def and_report(pending: PendingInvocation, failure: Failure | None) -> float:
        ended = runtime_done(pending, failure)
        if failure is not None:
            report = events.make_report(
                pending.request_id, failure, 1.0, None, served.settings.memory_mib, served.memory.mark(), None
            )
            served.journal.emit("platform.report", report.record([], pending.tracing()) | pending.tenant())
        return ended

    served.journal.runtime_done = and_report  # type: ignore[method-assign]


def deaths(subject: Subject, death: Death, advance: Callable[[], None], sizes: Sequence[int] = SIZES) -> Row:
    """Run a death at each size, in both modes."""
    ways: Counter[str] = Counter()
    killed: list[int] = []
    said: Counter[str] = Counter()
    wrong = []
    for memory_mib in sizes:
        for exact in (False, True):
            died = die(subject, death, memory_mib, exact=exact)
            ways[died.how] += 1
            killed.append(died.kernel_kills)
            signals = died.record.get("outOfMemory", {}).get("signals", [])
            others = died.record.get("environmentKills")
            said[", ".join([*signals, *(["`environmentKills`"] if others else [])]) or "no"] += 1
            mode = "exact mode" if exact else "default mode"
            wrong += [f"{death.title}, {memory_mib} MiB, {mode}: {each}" for each in judge(death, died)]
            advance()
    least, most = min(killed), max(killed)
    return Row(
        death.title,
        ", ".join(way for way, _ in ways.most_common()),
        f"{least}" if least == most else f"{least} to {most}",
        "; ".join(f"{what}: {number}" if len(said) > 1 else what for what, number in said.most_common()),
        wrong,
    )
