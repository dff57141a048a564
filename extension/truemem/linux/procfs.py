"""Reads /proc, real or captured, and keeps the descriptors of a process's files (proc_text parses them)."""

from __future__ import annotations

import posix
import time

from ..support.files import FLAGS, KeptFile, read
from .proc_text import (
    ZOMBIE,
    Gone,
    Stat,
    Status,
    is_dying,
    parse_huge_pages,
    parse_last_pid,
    parse_running,
    parse_stat,
    parse_statm,
    parse_status,
    parse_tcp,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import NoReturn

ESRCH = 3
UNREADABLE = -1
TRIES = 4
"""What is read of a process that runs may change between two readings: then it is read once more."""
OF_MEMORY = ("status", "statm", "clear_refs")
"""Files that are about a process's memory, of those that we use and every thread has as well."""
_ENOENT = 2


class ProcessFiles:
    """One process's files in /proc, on descriptors that are opened once and kept: 1 to 10 µs a read.

    A process whose main thread has ended has no memory at its own files (proc_pid_task(5)), but still at those of its
    other threads: what concerns memory is read there then."""

    __slots__ = ("_cpu_clock", "_descriptors", "_folder", "_keep", "_thread")

    def __init__(self, folder: str, keep: bool = True, cpu_clock: int = 0) -> None:
        """`keep=False` opens at each read: for when descriptors are short (1,024 in an environment). `cpu_clock` is
        the id of the clock of all CPU time of the process's threads; 0 where there is none, as in a captured /proc."""
        self._folder = folder
        self._keep = keep
        self._cpu_clock = cpu_clock
        self._thread = ""
        """Folder of the thread that stands for the main one, below the process's; "" while that lives."""
        self._descriptors: dict[str, int] = {}

    def read(self, name: str) -> bytes:
        """The file's text as of now. Raises Gone."""
        if name not in OF_MEMORY:
            return self._read(name)
        try:
            text = self._read(name)
            if not text.startswith(b"0 0 ") if name == "statm" else b"\nVmRSS:" in text:
                return text
        except Gone:
            if not self._thread:
                raise
            text = b""
        return self._read(name) if self._follow() else text or self._read(name)

    def _follow(self) -> bool:
        """Find another thread that has the process's memory; False if there is none: it is a zombie."""
        self._forget(OF_MEMORY)
        for _ in range(TRIES):
            self._thread = ""
            try:
                threads = posix.listdir(self._folder + "task")
            except OSError:
                return False
            for thread in threads:
                self._thread = f"task/{thread}/"
                try:
                    if b"\nVmRSS:" in self._read("status"):
                        return True
                except Gone:
                    pass
                self._forget(OF_MEMORY)
            if len(threads) < 2:
                break
        self._thread = ""
        return False

    def _read(self, name: str) -> bytes:
        try:
            descriptor = self._open(name, FLAGS)
            try:
                # One page is more than any of these files has.
                text = posix.pread(descriptor, 4096, 0)
            finally:
                if not self._keep:
                    posix.close(descriptor)
        except OSError as error:
            _gone(name, error)
        if not text:
            raise Gone(f"{name} is empty")
        return text

    def status(self) -> Status:
        """Memory as of now. Raises Gone."""
        return parse_status(self.read("status"))

    def is_dying(self) -> bool:
        """Has it ended, or is it about to by SIGKILL?"""
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
        stat = parse_stat(text)
        if stat.state == ZOMBIE and stat.threads > 1:
            rss = self.rss()
            thread = parse_stat(ProcessFiles(self._folder + self._thread, keep=False).read("stat"))
            return stat._replace(rss=rss, has_memory=True, mm=thread.mm)
        return stat

    def rss(self) -> int:
        """Resident set in KiB: the cheapest reading there is. Raises Gone."""
        return self.rss_and_shared()[0]

    def rss_and_shared(self) -> tuple[int, int]:
        """See parse_statm. Raises Gone, also of a process that has no memory any more."""
        rss, shared = parse_statm(self.read("statm"))
        if not rss:
            raise Gone("statm: no memory any more")
        return rss, shared

    def others_ns(self) -> int | None:
        """CPU time (ns) of all its threads but the first, those that have ended included. The same twice: in between
        no other thread than the first has run. None where that cannot be told. 2 µs."""
        if not self._cpu_clock:
            return None
        try:
            for _ in range(TRIES):
                before = time.clock_gettime_ns(self._cpu_clock)
                first = int(self._read("schedstat").split(None, 1)[0])  # of the first thread (sched-stats.rst)
                if time.clock_gettime_ns(self._cpu_clock) == before:
                    return before - first
        except (Gone, OSError, ValueError):
            pass
        return None

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
        """Give the descriptors back."""
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
            thread = self._thread if name in OF_MEMORY else ""
            descriptor = posix.open(self._folder + thread + name, flags)
            if self._keep:
                self._descriptors[name] = descriptor
        return descriptor


def _gone(name: str, error: OSError) -> NoReturn:
    errno = error.errno or 0
    raise Gone(f"{name}: {error}", 0 if errno in (ESRCH, _ENOENT) else errno) from None


def _cpu_clock(pid: int) -> int:
    """The clock that counts the time of all threads of a process, to the ns: CPUCLOCK_SCHED, of any process
    (clock_getcpuclockid(3); include/linux/posix-timers_types.h, make_process_cpuclock)."""
    return ~pid << 3 | 2


class Procfs:
    """A /proc, real or captured."""

    def __init__(self, root: str = "/proc") -> None:
        self.root = root
        self._loadavg = KeptFile(f"{root}/loadavg")

    def pids(self) -> list[int]:
        """Every process there is. Raises OSError if the root cannot be listed."""
        return [int(name) for name in posix.listdir(self.root) if name.isdecimal()]

    def process(self, pid: int, keep: bool = True) -> ProcessFiles:
        """The files of one process; nothing is opened yet."""
        return ProcessFiles(f"{self.root}/{pid}/", keep, _cpu_clock(pid) if self.root == "/proc" else 0)

    def process_self(self) -> ProcessFiles:
        """Our own files."""
        return ProcessFiles(f"{self.root}/self/")

    def text(self, name: str, limit: int = 65536) -> bytes:
        """A file below the root, up to `limit` bytes: files of /proc have no size. Raises Gone."""
        try:
            return read(f"{self.root}/{name}", limit)
        except OSError as error:
            _gone(name, error)

    def connections(self) -> list[tuple[int, int, int]]:
        """Every TCP socket of this network namespace, as parse_tcp has it. The kernel gives a page at a time."""
        rows: list[tuple[int, int, int]] = []
        for name in "net/tcp", "net/tcp6":
            text = b""
            try:
                descriptor = posix.open(f"{self.root}/{name}", FLAGS)
                try:
                    while piece := posix.read(descriptor, 65536):
                        text += piece
                finally:
                    posix.close(descriptor)
            except OSError:
                pass  # parse what was read until then
            rows += parse_tcp(text)
        return rows

    def huge_pages(self) -> tuple[int, int] | None:
        """See parse_huge_pages: of all processes of this machine. None where that is not known. 20 µs."""
        try:
            return parse_huge_pages(self.text("vmstat"))
        except Gone:
            return None

    def executable(self, pid: int) -> str:
        """Path of the program that the process runs, or "" when it cannot be told."""
        try:
            return posix.readlink(f"{self.root}/{pid}/exe")
        except OSError:
            return ""

    def sockets(self, pid: int) -> set[int]:
        """Inodes of the sockets that the process has open. Raises Gone."""
        folder = f"{self.root}/{pid}/fd/"
        found: set[int] = set()
        try:
            for name in posix.listdir(folder):
                try:
                    link = posix.readlink(folder + name)
                except OSError:
                    continue  # closed meanwhile
                if link.startswith("socket:[") and link[8:-1].isdecimal():
                    found.add(int(link[8:-1]))
        except OSError as error:
            _gone("fd", error)
        return found

    def thread(self, pid: int) -> int:
        """The last thread of the process; the process itself where that cannot be told."""
        try:
            return max(int(name) for name in posix.listdir(f"{self.root}/{pid}/task"))
        except (OSError, ValueError):
            return pid

    def exists(self, pid: int) -> bool:
        """Is the pid in use, by a zombie perhaps?"""
        return posix.access(f"{self.root}/{pid}", posix.F_OK)

    def leads(self, pid: int) -> bool:
        """Is it a process, and not a thread or nothing? (A thread's folder is there, but not in the list.)"""
        try:
            return b"\nTgid:\t%d\n" % pid in self.text(f"{pid}/status", 1024)
        except Gone:
            return False

    def load(self) -> tuple[int, int]:
        """See parse_last_pid and parse_running: both, of one moment."""
        try:
            text = self._loadavg.read(128)
        except OSError:
            return -1, -1
        return parse_last_pid(text), parse_running(text)

    def last_pid(self) -> int:
        """See parse_last_pid. The descriptor is kept: this is read at every tick."""
        try:
            return parse_last_pid(self._loadavg.read(128))
        except OSError:
            return -1
