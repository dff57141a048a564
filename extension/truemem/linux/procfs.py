"""/proc, real or captured: a parser for each file that we use (bytes in, a value out), and the files, kept open.

Fields as in proc_pid_status(5), proc_pid_stat(5), proc_pid_statm(5), proc_loadavg(5) and proc_meminfo(5).
"""

from __future__ import annotations

import posix
import time

from ..support.files import READ_FLAGS, read
from ..support.kept_file import LINE_MOVES, KeptFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final, NoReturn

    from mypy_extensions import i64

PAGE_KIB: Final = posix.sysconf("SC_PAGE_SIZE") // 1024
FALLEN_KIB: Final = 64
"""A smaller difference of level and watermark is the kernel's own bookkeeping."""
DIGITS: Final = 20
"""Digits of the largest number that the kernel prints."""
_SAFE_DIGITS: Final = 18
"""So many digits are no more than 63 bits."""
MM_LENGTH: Final = 15
"""What is no longer has no three addresses."""
ZOMBIE: Final = b"Z"
"""State of a process that has ended, or whose main thread has: then it has more than one."""
SIGKILL_BIT = 1 << 8
"""SIGKILL in a mask of signals: bit n - 1 is signal n (proc_pid_status(5))."""
ESRCH = 3
_ENOENT = 2
UNREADABLE: Final = -1
SLEEPING: Final = b"S"
THREADS_ASKED: Final = 32
"""Threads of one process that are asked for their states: 0.2 ms."""
READ_TRIES: Final = 4
"""How often to try readings that must agree, or a thread that must live while it is read."""
_SPACE: Final = 32
_LINE_END: Final = 10
STATUS_BYTES: Final = 4096
SHORT_BYTES: Final = 479
"""What we use of all other files of a process is shorter than this, for which CPython's own allocator has room. One
page is more than `status` has."""
OF_MEMORY = ("status", "statm", "clear_refs")
"""Files about a process's memory, of those that we use and every thread has as well."""

FAULT_KIB: Final = 64
"""What one page fault can make resident: 16 pages of a file around it (fault_around_bytes)."""
HUGE_FAULT_KIB: Final = 2048
"""What one page fault can make resident where transparent huge pages are on for everything, KiB."""


class Gone(Exception):
    """The process has ended (`errno` 0), or its files cannot be read (what the kernel answered): forget it."""

    def __init__(self, message: str, errno: int = 0) -> None:
        super().__init__(message)
        self.errno = errno


class Status:
    """Memory of one process, from /proc/PID/status. Sizes in KiB, as the kernel prints them."""

    def __init__(self, hwm: int, rss: int, anon: int, file: int, shmem: int, threads: int) -> None:
        self.hwm = hwm
        """VmHWM: peak resident set since exec, or since the last watermark reset."""
        self.rss = rss
        """VmRSS. With VmHWM, up to 63 pages per thread behind the truth before Linux 6.2; since then up to
        a per-CPU batch of some dozen pages."""
        self.anon = anon
        """RssAnon: heap, stacks, private writable memory."""
        self.file = file
        """RssFile: code and mapped files."""
        self.shmem = shmem
        """RssShmem: shared memory and tmpfs."""
        self.threads = threads

    @property
    def has_fallen(self) -> bool:
        """Is the level below its watermark? Else the watermark is as a reset would leave it."""
        return self.hwm - self.rss > FALLEN_KIB

    def counted(self, hwm: int, rss: int) -> Status:
        """The same with another watermark and level: what counts of them, KiB."""
        return Status(hwm, rss, self.anon, self.file, self.shmem, self.threads)


class Stat:
    """What /proc/PID/stat says beside memory."""

    def __init__(
        self,
        state: bytes,
        parent: int,
        faults: int,
        child_faults: int,
        threads: int,
        start_time: int,
        rss: int,
        child_ticks: int = 0,
        ticks: int = 0,
        command: bytes = b"",
        has_memory: bool = True,
        mm: bytes = b"",
    ) -> None:
        self.state = state
        """State of the process, one letter: R, S, D, Z (zombie), X (dead), T ..."""
        self.parent = parent
        self.faults = faults
        """Page faults of the process, minor and major. Resident memory does not grow without one."""
        self.child_faults = child_faults
        """Page faults of its children that have ended and been waited for."""
        self.threads = threads
        self.start_time = start_time
        """Clock ticks after boot. With the pid, the identity of a process."""
        self.rss = rss
        """Resident set, KiB."""
        self.child_ticks = child_ticks
        """CPU time of its children that have ended and been waited for, and of theirs, in ticks: user and system."""
        self.ticks = ticks
        """CPU time of the process itself, in ticks: user and system."""
        self._command = command
        self.has_memory = has_memory
        """Has the process an address space? Not once it ends, also before it is a zombie. (`rss` may be 0 just after
        exec().)"""
        self.mm = mm
        """Where program and stack begin: another value is another address space, after exec(). Empty where the kernel
        does not say (no permission, or no memory any more). A child of fork() has its parent's."""

    @property
    def name(self) -> str:
        """Name of the program, up to 15 characters: a process may give itself another."""
        return self._command.decode("utf-8", "replace")


def number_at(text: bytes, at: i64) -> tuple[int, i64]:
    """The number that begins at `at`, of DIGITS digits at most, and the position after it: of a space, the end of the
    line or of the text. Raises ValueError for anything else."""
    size: i64 = len(text)
    value: i64 = 0
    start = at
    while at < size:
        digit: i64 = text[at]
        digit -= 48
        if digit < 0 or digit > 9:
            break
        if at - start < _SAFE_DIGITS:
            value = value * 10 + digit
        at += 1
    if at == start or at - start > DIGITS or (at < size and text[at] != _SPACE and text[at] != _LINE_END):
        raise ValueError
    return int(text[start:at]) if at - start > _SAFE_DIGITS else value, at


def _after(text: bytes, at: i64, spaces: i64) -> i64:
    """The position after so many spaces from `at` on; that of the text's end if there are fewer."""
    size: i64 = len(text)
    while spaces and at < size:
        if text[at] == _SPACE:
            spaces -= 1
        at += 1
    return at


def labelled(text: bytes, label: bytes, at: i64) -> tuple[int, i64]:
    """The number after `label` in a file of `Label:  number [kB]` lines, which is most likely at `at` or later (below
    0: anywhere); and where its line ends. Raises Gone if it is not there."""
    length: i64 = len(label)
    if at < 0 or text[at : at + length] != label:
        start: i64 = text.find(label, max(0, at))
        at = text.find(label) if start < 0 else start
    if at < 0:
        raise Gone(f"no {label.strip().decode()}")
    size: i64 = len(text)
    at += length
    while at < size and (text[at] == _SPACE or text[at] == 9):
        at += 1
    try:
        number, at = number_at(text, at)
    except ValueError:
        at = size
    while at < size and text[at] != _LINE_END:
        at += 1
    if at == size:
        raise Gone(f"{label.strip().decode()} is cut off")
    return number, at


def field(text: bytes, label: bytes) -> int:
    """The number after `label` in a file of `Label:  number [kB]` lines. Raises Gone if it is not there."""
    return labelled(text, label, -1)[0]


def parse_status(text: bytes) -> Status:
    """Parse the fields we use. Raises Gone if the process has no memory any more (a zombie prints no Vm lines)."""
    hwm, at = labelled(text, b"\nVmHWM:", -1)  # the kernel prints them in this order, one after the other
    rss, at = labelled(text, b"\nVmRSS:", at)
    anon, at = labelled(text, b"\nRssAnon:", at)
    file, at = labelled(text, b"\nRssFile:", at)
    shmem, at = labelled(text, b"\nRssShmem:", at)
    threads, at = labelled(text, b"\nThreads:", at)
    return Status(hwm, rss, anon, file, shmem, threads)


def is_dying(text: bytes) -> bool:
    """Does this `status` say that a SIGKILL is on its way to the process, or that it has no memory any more?"""
    pending = 0
    for label in (b"\nSigPnd:", b"\nShdPnd:"):
        words = text.partition(label)[2].partition(b"\n")[0].split()
        if words and len(words[0]) <= DIGITS:
            try:
                pending |= int(words[0], 16)
            except ValueError:
                continue
    return bool(pending & SIGKILL_BIT) or b"\nVmRSS:" not in text


def parse_stat(text: bytes) -> Stat:
    """Parse /proc/PID/stat. The name may hold spaces and parentheses: fields begin after the last `)`. Raises Gone if
    the text is cut off."""
    name_end: i64 = text.rfind(b")")
    begin = name_end + 2
    if name_end < 0:
        raise Gone("stat is cut off")
    try:
        parent, at = number_at(text, begin + 2)  # fields as proc_pid_stat(5) counts them: 4
        faults, at = number_at(text, _after(text, at + 1, 5))  # 10
        child_faults, at = number_at(text, at + 1)
        major, at = number_at(text, at + 1)
        child_major, at = number_at(text, at + 1)
        user, at = number_at(text, at + 1)
        system, at = number_at(text, at + 1)
        child_user, at = number_at(text, at + 1)
        child_system, at = number_at(text, at + 1)  # 17
        threads, at = number_at(text, _after(text, at + 1, 2))  # 20
        start_time, at = number_at(text, _after(text, at + 1, 1))  # 22
        virtual, at = number_at(text, at + 1)
        rss, at = number_at(text, at + 1)  # 24
    except ValueError:
        raise Gone("stat is cut off") from None
    at = _after(text, at + 1, 1)
    # startcode, endcode, startstack (26 to 28): small numbers where they are hidden
    mm = text[at : max(at, _after(text, at, 3) - 1)]
    return Stat(
        text[begin : begin + 1],
        parent,
        faults + major,
        child_faults + child_major,
        threads,
        start_time,
        rss * PAGE_KIB,
        child_user + child_system,
        user + system,
        text[min(_after(text, 0, 1) + 1, name_end) : name_end],
        virtual != 0,
        mm if len(mm) > MM_LENGTH else b"",
    )


def parse_state(text: bytes) -> bytes:
    """The state alone: one letter, from the stat of a process or a thread; empty if the text is cut off."""
    at = text.rfind(b") ")
    return text[at + 2 : at + 3] if at >= 0 else b""


def parse_statm(text: bytes) -> tuple[int, int]:
    """Resident set, and the part of it that is of files and shared memory, KiB, from /proc/PID/statm. Raises Gone if
    the text is cut off."""
    try:
        rss, at = number_at(text, _after(text, 0, 1))
        shared, at = number_at(text, at + 1)
    except ValueError:
        raise Gone("statm is cut off") from None
    return rss * PAGE_KIB, shared * PAGE_KIB


def parse_last_pid(text: bytes) -> int:
    """The pid given out last, from /proc/loadavg: it moves when a process or a thread is made. -1 if unknown."""
    at: i64 = max(0, len(text) - 1)
    while at > 0 and text[at - 1] != _SPACE:
        at -= 1
    try:
        return number_at(text, at)[0]
    except ValueError:
        return -1


def parse_meminfo(text: bytes) -> tuple[int, int]:
    """(MemTotal, MemAvailable) in KiB. Raises Gone if either is missing."""
    text = b"\n" + text
    total, at = labelled(text, b"\nMemTotal:", 0)
    return total, labelled(text, b"\nMemAvailable:", at)[0]


class ProcessFiles:
    """One process's files in /proc, on descriptors that are opened once and kept: 1 to 10 µs a read.

    A process whose main thread has ended has no memory at its own files (proc_pid_task(5)), but still at those of its
    other threads: what concerns memory is read there then."""

    def __init__(self, folder: str, keep: bool = True, cpu_clock: int = 0) -> None:
        """`keep=False` opens at each read: for when descriptors are short (1,024 in an environment). `cpu_clock` is
        the id of the clock of all CPU time of the process's threads; 0 where there is none, as in a captured /proc."""
        self._folder = folder
        self._keep = keep
        self._cpu_clock = cpu_clock
        self._of_thread = ""
        """Folder of the thread that stands for the main one, below the process's; "" while that lives."""
        self._descriptors: dict[str, int] = {}
        self._text = b""
        """The `stat` that was parsed last: while the process waits it stays the same."""
        self._stat = Stat(b"", 0, 0, 0, 0, 0, 0)

    def read(self, name: str) -> bytes:
        """The file's text as of now. Raises Gone."""
        if name not in OF_MEMORY:
            return self._read(name)
        try:
            text = self._read(name)
            # Not `in`, which takes twice as long for bytes.
            if not text.startswith(b"0 0 ") if name == "statm" else text.find(b"\nVmRSS:") >= 0:
                return text
        except Gone:
            if not self._of_thread:
                raise
            text = b""
        return self._read(name) if self._follow() else text or self._read(name)

    def _follow(self) -> bool:
        """Find another thread that has the process's memory; False if there is none: it is a zombie."""
        self._forget(OF_MEMORY)
        for _ in range(READ_TRIES):
            self._of_thread = ""
            try:
                threads = posix.listdir(self._folder + "task")
            except OSError:
                return False
            for thread in threads:
                self._of_thread = f"task/{thread}/"
                try:
                    if b"\nVmRSS:" in self._read("status"):
                        return True
                except Gone:
                    pass
                self._forget(OF_MEMORY)
            if len(threads) < 2:
                break
        self._of_thread = ""
        return False

    def _read(self, name: str) -> bytes:
        try:
            descriptor = self._open(name, READ_FLAGS)
            try:
                text = posix.pread(descriptor, STATUS_BYTES if name == "status" else SHORT_BYTES, 0)
            finally:
                if not self._keep:
                    posix.close(descriptor)
        except OSError as error:
            gone(name, error)
        if not text:
            raise Gone(f"{name} is empty")
        return text

    def status(self) -> Status:
        """Memory as of now. Raises Gone."""
        try:
            return parse_status(self._read("status"))
        except Gone:  # perhaps another thread has it
            return parse_status(self.read("status"))

    def is_dying(self) -> bool:
        try:
            return is_dying(self.read("status"))
        except Gone:
            return True

    def stat(self) -> Stat:
        """State and faults as of now. Raises Gone."""
        return self.parsed_stat(self.read("stat"))

    def parsed_stat(self, text: bytes) -> Stat:
        """A `stat` of this process that was read. Where the main thread has ended it says nothing of memory: another
        thread's is read now. Raises Gone."""
        stat = self.parse(text)
        if stat.state == ZOMBIE and stat.threads > 1:
            stat = parse_stat(text)
            stat.rss = self.rss()
            stat.has_memory = True
            stat.mm = parse_stat(ProcessFiles(self._folder + self._of_thread, keep=False).read("stat")).mm
        return stat

    def parse(self, text: bytes) -> Stat:
        """A `stat` of this process as it was read (parse_stat). Raises Gone."""
        if text is not self._text and text != self._text:
            self._stat = parse_stat(text)
            self._text = text
        return self._stat

    def rss(self) -> int:
        """Resident set in KiB: the cheapest reading there is. Raises Gone."""
        return self.rss_and_shared()[0]

    def rss_and_shared(self) -> tuple[int, int]:
        """Resident set, and the part of it that is of files and shared memory, KiB. Raises Gone, also of a process that
        has no memory any more."""
        try:
            levels = parse_statm(self._read("statm"))
            if levels[0]:
                return levels
        except Gone:
            pass
        levels = parse_statm(self.read("statm"))  # perhaps another thread has it
        if not levels[0]:
            raise Gone("statm: no memory any more")
        return levels

    def cpu_ns(self) -> int | None:
        """CPU time (ns) of all its threads, those that have ended included; None where that is not known. The time of
        a thread that runs just now is counted when it stops, or at the next tick."""
        total = self._cpu_ns()
        return total if total >= 0 else None

    def _cpu_ns(self) -> int:
        try:
            return time.clock_gettime_ns(self._cpu_clock) if self._cpu_clock else -1
        except OSError:
            return -1

    def others_ns(self) -> int | None:
        """CPU time (ns) of all its threads but the first; None where that is not known (cpu_times)."""
        return self.cpu_times()[1]

    def cpu_times(self) -> tuple[int | None, int | None]:
        """CPU time (ns) of all its threads (cpu_ns), and of all but the first; None where that is not known. If the
        second is the same twice, no other thread than the first has run in between. 2 µs."""
        total = self._cpu_ns()
        try:
            for _ in range(READ_TRIES if total >= 0 else 0):
                before = total
                first = number_at(self._read("schedstat"), 0)[0]  # of the first thread (sched-stats.rst)
                total = self._cpu_ns()
                if total == before >= 0:
                    return total, total - first
        except (Gone, ValueError):
            pass
        return total if total >= 0 else None, None

    def others_rest(self, others_ns: int) -> bool:
        """Have all threads but the first slept since `others_ns` was read (cpu_times), and do now? 6 µs each.

        The kernel adds what a thread runs to its time when it stops, or at the next tick: the time of one that sleeps
        is final. Only interruptible sleep counts ("S", proc_pid_stat(5)): no thread waits like that while it unmaps.
        False where there are more than THREADS_ASKED."""
        first = self._folder[:-1].rpartition("/")[2]
        return self._sleep(but=first) and self.others_ns() == others_ns

    def asleep_ns(self) -> int | None:
        """CPU time (ns) of all its threads, if all of them sleep now; None where one does not, or that is not known.
        The same twice: in between none has run, as in `others_rest`. 6 µs each."""
        return self.cpu_ns() if self._sleep() else None

    def _sleep(self, but: str = "") -> bool:
        try:
            threads = posix.listdir(self._folder + "task")
            for thread in threads if len(threads) <= THREADS_ASKED else ():
                if thread != but and parse_state(read(f"{self._folder}task/{thread}/stat", 256)) != SLEEPING:
                    return False
        except OSError:  # one has ended meanwhile: its time is known, and has changed
            return False
        return len(threads) <= THREADS_ASKED

    def final_faults(self) -> int | None:
        """All page faults of a process whose `status` has no memory any more, and of the children that it has waited
        for. It has given its memory back, so that no more come, also if it is not a zombie yet. None where it is gone:
        its parent has waited for it, or nothing had to. UNREADABLE where it lives: its main thread has ended, and its
        others come and go."""
        try:
            stat = parse_stat(self._read("stat"))
        except Gone:
            return None
        return UNREADABLE if stat.has_memory or stat.threads > 1 else stat.faults + stat.child_faults

    def reset_watermark(self) -> None:
        """Set VmHWM back to the present RSS: `5` to clear_refs (proc_pid_clear_refs(5), Linux 4.0). No page is walked.
        Raises OSError."""
        descriptor = self._open("clear_refs", posix.O_WRONLY | posix.O_CLOEXEC)
        try:
            posix.write(descriptor, b"5")
        finally:
            if not self._keep:
                posix.close(descriptor)

    def close(self) -> None:
        self._forget(tuple(self._descriptors))

    def _forget(self, names: Iterable[str]) -> None:
        for name in names:
            try:
                posix.close(self._descriptors.pop(name))
            except (KeyError, OSError):  # it is closed, whatever it says (close(2))
                continue

    def _open(self, name: str, flags: int) -> int:
        descriptor = self._descriptors.get(name)
        if descriptor is None:
            thread = self._of_thread if name in OF_MEMORY else ""
            descriptor = posix.open(self._folder + thread + name, flags)
            if self._keep:
                self._descriptors[name] = descriptor
        return descriptor


def gone(name: str, error: OSError) -> NoReturn:
    """Raise Gone for an answer of the kernel."""
    errno = error.errno or 0
    raise Gone(f"{name}: {error}", 0 if errno in (ESRCH, _ENOENT) else errno) from None


class Procfs:
    def __init__(self, root: str = "/proc") -> None:
        self.root = root
        self._loadavg = KeptFile(f"{root}/loadavg")
        self._vmstat = KeptFile(f"{root}/vmstat")

    def pids(self) -> list[int]:
        """Every process there is. Raises OSError if the root cannot be listed."""
        return [int(name) for name in posix.listdir(self.root) if name.isdecimal()]

    def process(self, pid: int, keep: bool = True) -> ProcessFiles:
        """The files of one process; nothing is opened yet."""
        # CPUCLOCK_SCHED of any process (clock_getcpuclockid(3); linux/posix-timers_types.h, make_process_cpuclock)
        clock = ~pid << 3 | 2
        return ProcessFiles(f"{self.root}/{pid}/", keep, clock if self.root == "/proc" else 0)

    def text(self, name: str, limit: int = 65536) -> bytes:
        """A file below the root, up to `limit` bytes: files of /proc have no size. Raises Gone."""
        try:
            return read(f"{self.root}/{name}", limit)
        except OSError as error:
            gone(name, error)

    def huge_pages(self) -> tuple[int, int] | None:
        """Huge pages that the kernel has made resident since it started, for all processes: at a page fault, and out of
        small ones, with what was missing between these (admin-guide/mm/transhuge.rst). None where that is not known.
        20 µs."""
        last = b"\nthp_collapse_alloc "
        try:
            text, at = self._vmstat.line(last)
            return labelled(text, b"\nthp_fault_alloc ", max(0, at - LINE_MOVES))[0], labelled(text, last, at)[0]
        except (Gone, OSError):
            return None

    def executable(self, pid: int) -> str:
        """Path of the program that the process runs, or "" when it is not known."""
        try:
            return posix.readlink(f"{self.root}/{pid}/exe")
        except OSError:
            return ""

    def exists(self, pid: int) -> bool:
        """Is the pid in use, by a zombie perhaps?"""
        return posix.access(f"{self.root}/{pid}", posix.F_OK)

    def has_thread(self, pid: int, thread: int) -> bool:
        """Is `thread` one of the process's threads, beside its first? One call, where `leads` takes four."""
        return thread != pid and posix.access(f"{self.root}/{pid}/task/{thread}", posix.F_OK)

    def leads(self, pid: int) -> bool:
        """Is the pid a process, and not a thread or nothing? (A thread's folder is there, but not in the list.)"""
        try:
            return b"\nTgid:\t%d\n" % pid in self.text(f"{pid}/status", 1024)
        except Gone:
            return False

    def last_pid(self) -> int:
        """The pid given out last; -1 if unknown (parse_last_pid). The descriptor is kept: this is read at every
        tick."""
        try:
            return parse_last_pid(self._loadavg.read(128))
        except OSError:
            return -1


class FaultSizes:
    """What one page fault can make resident here, KiB (transhuge: admin-guide/mm/transhuge.rst)."""

    def __init__(self, own: int, most: int, asked: bool) -> None:
        self.own = own
        """KiB that a fault brings of memory that is no file's: a page."""
        self.most = most
        """KiB that a fault brings of a file: the pages around it as well."""
        self.asked = asked
        """A process that asks for huge pages gets more (madvise(2), MADV_HUGEPAGE): those are counted
        (Procfs.huge_pages)."""
