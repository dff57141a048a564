"""What /proc prints, parsed: bytes in, a value out, for each file that we use.

Fields as in proc_pid_status(5), proc_pid_stat(5), proc_pid_statm(5), proc_pid_limits(5), proc_loadavg(5) and
proc_meminfo(5).
"""

from __future__ import annotations

import posix

from ..support.named_tuple import NamedTuple

PAGE_KIB = posix.sysconf("SC_PAGE_SIZE") // 1024
FALLEN_KIB = 64
"""Less is the kernel's own bookkeeping."""
DIGITS = 20
"""Of the largest number that the kernel prints."""
MM_LENGTH = 15
"""Shorter than three addresses."""
ZOMBIE = b"Z"
"""State of a process that has ended, or whose main thread has: then it has more than one."""


SIGKILL_BIT = 1 << 8
"""Of a mask of signals: bit n - 1 is signal n (proc_pid_status(5))."""


class Gone(Exception):
    """The process has ended, or its files cannot be read: forget it.

    `errno` is 0 when it has simply ended, else what the kernel answered: the caller counts those.
    """

    def __init__(self, message: str, errno: int = 0) -> None:
        super().__init__(message)
        self.errno = errno


class Status(NamedTuple):
    """Memory of one process, from /proc/PID/status. Sizes in KiB, as the kernel prints them."""

    hwm: int
    """VmHWM: peak resident set since exec, or since the last watermark reset."""
    rss: int
    """VmRSS. With VmHWM, up to 63 pages per thread behind the truth before Linux 6.2; since then up to
    a per-CPU batch of some dozen pages."""
    anon: int
    """RssAnon: heap, stacks, private writable memory."""
    file: int
    """RssFile: code and mapped files."""
    shmem: int
    """RssShmem: shared memory and tmpfs."""
    threads: int


class Stat(NamedTuple):
    """What /proc/PID/stat says beside memory."""

    state: bytes
    """One letter: R, S, D, Z (zombie), X (dead), T ..."""
    parent: int
    faults: int
    """Page faults of the process, minor and major. Resident memory does not grow without one."""
    child_faults: int
    """Page faults of its children that have ended and been waited for."""
    threads: int
    start_time: int
    """Clock ticks after boot. With the pid, the identity of a process."""
    rss: int
    """Resident set, KiB."""
    name: str = ""
    """Of the program, up to 15 characters: a process may give itself another."""
    has_memory: bool = True
    """Has it an address space? Not once it ends, also before it is a zombie. (`rss` may be 0 just after exec().)"""
    mm: bytes = b""
    """Where program and stack begin: another value is another address space, after exec(). Empty where the kernel
    does not say (no permission, or no memory any more). A child of fork() has its parent's."""


class Limits(NamedTuple):
    """What one process may use: soft limits (getrlimit(2)). None: unlimited, or not told."""

    descriptors: int | None
    """RLIMIT_NOFILE: descriptors that it may have open. In Lambda 1,024, on Managed Instances 4,096 (developer guide,
    "Lambda quotas")."""
    tasks: int | None
    """RLIMIT_NPROC: processes and threads of its user together. In Lambda 1,024 in the environment (same page)."""


def _field(text: bytes, label: bytes) -> int:
    """The number after `label` in a file of `Label:  number [kB]` lines. Raises Gone if it is not there."""
    start = text.find(label)
    if start < 0:
        raise Gone(f"no {label.strip().decode()}")
    start += len(label)
    end = text.find(b"\n", start)
    words = text[start : end if end >= 0 else len(text)].split(None, 1)
    if end < 0 or not words or not words[0].isdigit() or len(words[0]) > DIGITS:
        raise Gone(f"{label.strip().decode()} is cut off")
    return int(words[0])


def parse_status(text: bytes) -> Status:
    """Parse the fields we use. Raises Gone if the process has no memory any more (a zombie prints no Vm lines)."""
    labels = b"\nVmHWM:", b"\nVmRSS:", b"\nRssAnon:", b"\nRssFile:", b"\nRssShmem:", b"\nThreads:"
    return Status(*[_field(text, label) for label in labels])


def is_dying(text: bytes) -> bool:
    """Of a `status`: is a SIGKILL on its way to the process, or has it no memory any more?"""
    pending = 0
    for label in (b"\nSigPnd:", b"\nShdPnd:"):
        words = text.partition(label)[2].partition(b"\n")[0].split()
        if words and len(words[0]) <= DIGITS:
            try:
                pending |= int(words[0], 16)
            except ValueError:
                continue
    return bool(pending & SIGKILL_BIT) or b"\nVmRSS:" not in text


def parse_identity(text: bytes) -> tuple[int, int]:
    """(effective uid, innermost pid) of a `status`. The pid is that in the process's own pid namespace (NSpid, since
    Linux 4.1), 0 where the kernel does not say. Raises Gone if the text is cut off."""
    uids, pids = (text.partition(label)[2].partition(b"\n")[0].split() for label in (b"\nUid:", b"\nNSpid:"))
    numbers = [*uids[1:2], *pids[-1:]]
    if len(uids) < 2 or not all(number.isdigit() and len(number) <= DIGITS for number in numbers):
        raise Gone("status is cut off")
    return int(uids[1]), int(pids[-1]) if pids else 0


def has_fallen(text: bytes) -> bool:
    """Is the level of a `status` below its watermark? Else the watermark is as a reset would leave it. Raises Gone."""
    return _field(text, b"\nVmHWM:") - _field(text, b"\nVmRSS:") > FALLEN_KIB


def parse_slots(text: bytes) -> int:
    """FDSize of a `status`: slots of its table of descriptors, at least as many as it has open. 0 if not told."""
    try:
        return _field(text, b"\nFDSize:")
    except Gone:
        return 0


def parse_limits(text: bytes) -> Limits:
    """The soft limits that we use, of /proc/PID/limits: one in a line, after its name."""
    return Limits(*[_soft_limit(text, name) for name in (b"\nMax open files ", b"\nMax processes ")])


def _soft_limit(text: bytes, name: bytes) -> int | None:
    _, found, rest = text.partition(name)
    words = rest.partition(b"\n")[0].split(None, 2)
    # Without a second word the line may be cut off.
    if not found or len(words) < 2 or not words[0].isdigit() or len(words[0]) > DIGITS:
        return None
    return int(words[0])


def parse_stat(text: bytes) -> Stat:
    """Parse /proc/PID/stat. The name may hold spaces and parentheses: fields begin after the last `)`.

    Raises Gone if the text is cut off.
    """
    fields = text[text.rfind(b")") + 1 :].split()
    mm = b" ".join(fields[23:26])  # startcode, endcode, startstack: small numbers where they are not told
    try:
        return Stat(
            state=fields[0],
            parent=int(fields[1]),
            faults=int(fields[7]) + int(fields[9]),
            child_faults=int(fields[8]) + int(fields[10]),
            threads=int(fields[17]),
            start_time=int(fields[19]),
            rss=int(fields[21]) * PAGE_KIB,
            has_memory=fields[20] != b"0",
            mm=mm if len(mm) > MM_LENGTH else b"",
            name=text[text.find(b"(") + 1 : text.rfind(b")")].decode("utf-8", "replace"),
        )
    except (IndexError, ValueError):
        raise Gone("stat is cut off") from None


def parse_statm(text: bytes) -> tuple[int, int]:
    """Resident set, and the part of it that is of files and shared memory, KiB, from /proc/PID/statm. Raises Gone if
    the text is cut off."""
    fields = text.split(None, 3)[1:3]
    if len(fields) < 2 or not all(field.isdigit() and len(field) <= DIGITS for field in fields):
        raise Gone("statm is cut off")
    return int(fields[0]) * PAGE_KIB, int(fields[1]) * PAGE_KIB


def parse_last_pid(text: bytes) -> int:
    """The pid given out last, from /proc/loadavg: it moves when a process or a thread is made. -1 if unknown."""
    last = text.rsplit(None, 1)[-1:]
    return int(last[0]) if last and last[0].isdigit() and len(last[0]) <= DIGITS else -1


def parse_running(text: bytes) -> int:
    """Threads of all processes that run or wait for a CPU just now, from /proc/loadavg; -1 if unknown."""
    running = text.rpartition(b"/")[0].rsplit(None, 1)[-1:]
    return int(running[0]) if running and running[0].isdigit() and len(running[0]) <= DIGITS else -1


def parse_tcp(text: bytes) -> list[tuple[int, int, int]]:
    """(local port, remote port, inode) of each socket in /proc/net/tcp or tcp6; the remote port is 0 where it listens.
    Lines that are cut off are left out."""
    rows = []
    for line in text.split(b"\n")[1:]:
        fields = line.split(None, 10)
        try:
            local, remote = (int(field[field.rindex(b":") + 1 :], 16) for field in fields[1:3])
            rows.append((local, remote, int(fields[9])))
        except (ValueError, IndexError):
            continue
    return rows


def parse_huge_pages(text: bytes) -> tuple[int, int]:
    """Huge pages that the kernel has made resident since it started, from /proc/vmstat: at a page fault, and out of
    small ones, with what was missing between these (admin-guide/mm/transhuge.rst). Raises Gone if they are missing."""
    return _field(text, b"\nthp_fault_alloc "), _field(text, b"\nthp_collapse_alloc ")


def parse_meminfo(text: bytes) -> tuple[int, int]:
    """(MemTotal, MemAvailable) in KiB. Raises Gone if either is missing."""
    text = b"\n" + text
    return _field(text, b"\nMemTotal:"), _field(text, b"\nMemAvailable:")
