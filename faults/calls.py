"""Lets every system call of the sidecar fail: once, for a while, and always."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from faults.environment import Died, FaultEnvironment, tally
from faults.result import Row, counted
from faults.subject import Subject, faulty

INVOCATIONS = 8
TOGETHER = 2

ONCE_AND_FOR_GOOD = ("1", "2", "7", "30", "4-15", "1+")
NOT_FOR_GOOD = ("3", "6", "11", "5-12")
"""When calls on the connection to the API fail. They must not fail always: then there is no Lambda."""
FIRST = "1"
CONNECTED_ANEW = "api-recv:EIO:6,"
"""The sidecar connects to the API once, and again only after a fault. This is that fault."""

OF_A_JOURNAL_THAT_IS_THERE = ("fstat", "pread-journal")
"""Calls that are only made if an earlier process has left a journal."""
NOT_EVERYWHERE = ("cgroup",)
"""Groups that not every test machine has."""

EXACT_SILENT = "exact mode, the runtime's connections"
EXACT_BROKEN = "exact mode, a connection breaks"
"""Group in which the runtime's connection breaks, as one without the sidecar can. It asks again."""

GROUPS: dict[str, tuple[tuple[str, str, Sequence[str]], ...]] = {
    "reading /proc and cgroup": (
        ("open-proc", "EACCES EMFILE EIO EINTR", ONCE_AND_FOR_GOOD),
        ("open-cgroup", "EACCES EMFILE EIO", ONCE_AND_FOR_GOOD),
        ("read-proc", "EIO EINTR EAGAIN", ONCE_AND_FOR_GOOD),
        ("pread-proc", "EIO EINTR EACCES", ONCE_AND_FOR_GOOD),
        ("pread-cgroup", "EIO EINTR", ONCE_AND_FOR_GOOD),
        ("read-cgroup", "EIO", ONCE_AND_FOR_GOOD),
        ("listdir", "EACCES EMFILE EIO", ONCE_AND_FOR_GOOD),
        ("readlink", "EACCES EIO", ONCE_AND_FOR_GOOD),
        ("access", "EIO", ONCE_AND_FOR_GOOD),
        ("close", "EIO EINTR", ("5", "1+")),
    ),
    "resetting the watermark": (
        ("open-clear_refs", "EACCES EMFILE EIO", ONCE_AND_FOR_GOOD),
        ("write-clear_refs", "EIO EINTR EACCES EPIPE", ONCE_AND_FOR_GOOD),
    ),
    "raising `oom_score_adj`": (
        ("open-oom_score_adj", "EACCES EMFILE EIO", ONCE_AND_FOR_GOOD),
        ("write-oom_score_adj", "EACCES EIO EINTR", ONCE_AND_FOR_GOOD),
    ),
    "the journal": (
        ("open-journal", "EACCES ENOSPC EMFILE EIO EROFS", ("1", "2", "1+")),
        ("posix_fallocate", "ENOSPC EIO EINTR", (FIRST,)),
        ("lockf", "EAGAIN ENOLCK", (FIRST,)),
        ("fstat", "EIO", (FIRST,)),
        ("unlink", "EACCES EROFS", ("1", "1+")),
        ("pread-journal", "EIO", (FIRST,)),
        ("pwrite", "ENOSPC EIO EINTR", ONCE_AND_FOR_GOOD),
    ),
    "waiting (`poll`)": (("poll", "EINTR EAGAIN EIO", ONCE_AND_FOR_GOOD),),
    "standard output and the log": (
        ("write-stdout", "EPIPE EIO EAGAIN ENOSPC EINTR", ("1", "2", "7", "3-5", "1+")),
        ("write-stderr", "EPIPE EIO EAGAIN", ("1", "1+")),
    ),
    "the telemetry listener": (
        ("listener-socket", "EMFILE ENOMEM", (FIRST,)),
        ("listener-bind", "EACCES EMFILE", (FIRST,)),
        ("listener-listen", "EIO", (FIRST,)),
        ("listener-setblocking", "EIO", (FIRST,)),
        ("listener-getsockname", "ENOBUFS", (FIRST,)),
        ("listener-accept", "EMFILE EIO", ("1", "1-3", "1+")),
        ("listener-accept", "EAGAIN EINTR", ("1", "1-3")),
        ("delivery-setblocking", "EIO", ("1", "1+")),
        ("delivery-recv:EIO:2,delivery-close", "EIO EINTR", ("1+",)),
        ("delivery-recv", "EAGAIN EINTR", NOT_FOR_GOOD),
        ("delivery-recv", "EIO", ONCE_AND_FOR_GOOD),
        ("delivery-send", "EPIPE EAGAIN EINTR", ONCE_AND_FOR_GOOD),
    ),
    "the connection to the API": (
        ("api-socket", "EMFILE ENOMEM", (FIRST,)),
        ("api-connect", "ECONNREFUSED EINTR ENOBUFS", ("1", "1-3")),
        (CONNECTED_ANEW + "api-socket", "EMFILE", ("2", "2-5")),
        (CONNECTED_ANEW + "api-connect", "ECONNREFUSED EINTR", ("2", "2-5")),
        (CONNECTED_ANEW + "api-close", "EIO EINTR", ("1+",)),
        ("api-setsockopt", "EIO", ("1", "1+")),
        ("api-send", "EPIPE EINTR EAGAIN", NOT_FOR_GOOD),
        ("api-recv", "EIO EINTR EAGAIN", NOT_FOR_GOOD),
    ),
    "the rest": (("urandom", "EIO EAGAIN", (FIRST,)),),
    EXACT_SILENT: (
        ("proxy-socket", "EMFILE", ("1", "2")),
        ("proxy-bind", "EADDRINUSE EMFILE", ("1", "2")),
        ("proxy-listen", "EIO", (FIRST,)),
        ("proxy-setblocking", "EIO", ("1", "2")),
        ("proxy-getsockname", "ENOBUFS", (FIRST,)),
        ("proxy-setsockopt", "EIO", (FIRST,)),
        ("proxy-recv", "EIO EAGAIN", ("1", "1+")),
        ("proxy-accept", "EMFILE ENFILE ECONNABORTED EAGAIN EIO", ("1", "1-3")),
        ("dup", "EMFILE", ("1", "1+")),
        ("upstream-socket", "EMFILE ENOMEM", (FIRST,)),
        ("upstream-connect", "ENOBUFS EADDRNOTAVAIL", (FIRST,)),
        ("upstream-setblocking", "EIO", (FIRST,)),
        ("upstream-setsockopt", "EIO", (FIRST, "1+")),
        ("runtime-setsockopt", "EIO", (FIRST, "1+")),
        ("runtime-recv", "EAGAIN", ("1", "3-9", "1-40")),
        ("runtime-send", "EAGAIN", ("1", "3-9", "1-40")),
        ("upstream-recv", "EAGAIN", ("1", "3-9", "1-40")),
        ("upstream-send", "EAGAIN", ("1", "3-9", "1-40")),
        ("poll", "EINTR ENOMEM", ("1", "30", "15-24", "10-40", "1+")),
        ("cut", "EIO BUG", ("1", "2", "5-9", "1+")),
        ("read-proc", "EIO BUG", ("60-70", "100+")),
        ("pread-proc", "EIO BUG", ("4-9", "10+")),
        ("write-clear_refs", "EIO BUG", ("2", "3-7", "2+")),
        ("listdir", "EIO BUG", ("2", "2+")),
    ),
    EXACT_BROKEN: (
        ("upstream-socket", "EMFILE", ("1-3",)),
        ("upstream-connect", "ECONNREFUSED", ("1-5",)),
        ("upstream-getsockopt", "EIO", ("1", "1-3")),
        ("runtime-recv", "ECONNRESET EIO", ("2", "5-9")),
        ("runtime-send", "EPIPE EIO", ("1", "4-6")),
        ("upstream-recv", "ECONNRESET EIO", ("2", "5-9")),
        ("upstream-send", "EPIPE EIO", ("1", "4-6")),
        ("runtime-recv:EIO:3,upstream-close", "EIO", ("1+",)),
        ("upstream-recv:EIO:3,runtime-close", "EIO", ("1+",)),
    ),
}
"""What each group of calls is for: name of the call as faulty.py spells it, error numbers, and when."""


@dataclass(frozen=True)
class Outcome:
    """The result of one environment with one fault. Counts of invocations, unless it says otherwise."""

    fault: str
    failures: int
    """Calls that failed."""
    served: int
    missing: int
    """Invocations without a line."""
    told: int
    """Missing lines that are reported, by `dropped` of a later line or by the log."""
    cut_off: int
    """Broken connections of the runtime, in exact mode."""
    stopped: bool
    """True if it stopped measuring, and said so."""
    broken: str
    """What was not as promised, or ""."""


def faults(groups: Iterable[str] = GROUPS) -> list[tuple[str, str]]:
    """All faults as (group, fault)."""
    return [
        (group, f"{call}:{number}:{when}")
        for group in groups
        for call, numbers, moments in GROUPS[group]
        for number in numbers.split()
        for when in moments
    ]


def under(subject: Subject, fault: str, *, exact: bool = False, may_break: bool = False) -> Outcome:
    """Run one environment with a fault. `may_break`: the runtime's connections may break."""
    broken = ""
    with FaultEnvironment(subject, exact=exact) as environment:
        try:
            environment.begin()
            if fault.startswith(OF_A_JOURNAL_THAT_IS_THERE):
                environment.invoke()
                environment.kill()
                environment.begin()
            for number in range(INVOCATIONS):
                environment.invoke(f"hold {256 * number} 2")
            code = environment.shut_down()
            broken = "" if code == 0 else f"exit code {code} at SHUTDOWN"
        except Died:
            environment.kill()
            broken = "the sidecar has ended"
        except (OSError, AssertionError) as error:  # it does not ask, or closes the connection at an answer
            broken = f"{error!r}"
        failed = environment.tmp / "failed"
        failures = failed.read_bytes().count(b"INJECTED") if failed.exists() else 0
        log = environment.said()
        stopped = "stopped measuring" in log
        if environment.wrong:
            broken = f"{environment.wrong} wrong answers"
        if environment.broken and not may_break:
            broken = broken or f"{environment.broken} connections of the runtime have broken"
        records = environment.records()
        printed = tally(environment.served, records)
    missing = [name for name in environment.served if not printed[name]]
    dropped = sum(record.get("dropped", 0) for record in records)
    after = _after_the_last(environment.served, [record["requestId"] for record in records])
    # What an earlier process has left can't be read: its size is unknown, and the log says why.
    unread = fault.startswith(OF_A_JOURNAL_THAT_IS_THERE) and "/.truemem-" in log
    silent = len(missing) - dropped - after - unread
    told = len(missing) if stopped or silent <= 0 else dropped
    if not broken and silent > 0 and not stopped:
        broken = f"{silent} of {len(missing)} missing lines were lost in silence"
    if not broken and not failures and (missing or stopped):
        broken = f"{len(missing)} lines are missing, and no call has failed"
    if not broken and not failures and fault.endswith((":1", ":1+")) and not any(map(fault.count, NOT_EVERYWHERE)):
        broken = "no such call is ever made"
    if not broken and max(printed.values(), default=0) > 1:
        broken = "a line was printed twice"
    return Outcome(fault, failures, len(environment.served), len(missing), told, environment.broken, stopped, broken)


def sweep(planned: Sequence[tuple[str, str]], advance: Callable[[], None]) -> list[Row]:
    """Run the `planned` faults (see `faults`). Returns a row for each group."""

    def one(group: str, fault: str) -> Outcome:
        exact = group in (EXACT_SILENT, EXACT_BROKEN)
        with tempfile.TemporaryDirectory(prefix="truemem-faulty-", dir="/tmp") as folder:
            try:
                return under(faulty(Path(folder), fault), fault, exact=exact, may_break=group == EXACT_BROKEN)
            finally:
                advance()

    with ThreadPoolExecutor(TOGETHER) as pool:
        outcomes = list(pool.map(one, *zip(*planned, strict=True)))
    groups: dict[str, list[Outcome]] = {}
    for (group, _), outcome in zip(planned, outcomes, strict=True):
        groups.setdefault(group, []).append(outcome)
    return [row(f"system calls fail: {group}", found) for group, found in groups.items()]


def row(name: str, outcomes: Sequence[Outcome]) -> Row:
    """The row of a group's faults. Faults whose call was never made are left out."""
    made = [outcome for outcome in outcomes if outcome.failures]
    served = sum(outcome.served for outcome in made)
    missing = sum(outcome.missing for outcome in made)
    stopped = sum(outcome.stopped for outcome in made)
    broken = [f"{outcome.fault}: {outcome.broken}" for outcome in outcomes if outcome.broken]
    cut_off = sum(outcome.cut_off for outcome in made)
    saw = f"{counted(cut_off, 'broken connection')}, then right answers" if cut_off else "nothing"
    lost = "nothing"
    if missing:
        lost = f"{counted(missing, 'line')} of {served:,}, reported"
    if stopped:
        lost += f"; in {counted(stopped, 'environment')} it stopped measuring, reported"
    return Row(
        name,
        f"{counted(len(made), 'fault')}, {counted(sum(outcome.failures for outcome in made), 'failed call')}, "
        f"{served:,} invocations",
        saw if not broken else "**see below**",
        lost,
        broken,
    )


def _after_the_last(served: Sequence[str], printed: Sequence[str]) -> int:
    """Number of invocations after the last line. No later line could report them."""
    last = max((served.index(name) for name in printed if name in served), default=-1)
    return len(served) - 1 - last
