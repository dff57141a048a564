"""Readers of /proc: a parser on bytes for each file that we use, and kept descriptors for one process.

Everything is re-rootable. Fields as in proc_pid_status(5), proc_pid_stat(5), proc_pid_statm(5),
proc_pid_clear_refs(5), proc_loadavg(5) and proc_meminfo(5).
"""

from __future__ import annotations

import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import NoReturn

PAGE_KIB = posix.sysconf("SC_PAGE_SIZE") // 1024
ESRCH = 3
FALLEN_KIB = 64
"""Less is the kernel's own bookkeeping."""
DIGITS = 20
"""Of the largest number that the kernel prints."""
OF_MEMORY = ("status", "statm", "clear_refs")
"""Files that are about a process's memory, of those that we use and every thread has as well."""
MM_LENGTH = 15
"""Shorter than three addresses."""
ZOMBIE = b"Z"
"""State of a process that has ended, or whose main thread has: then it has more than one."""
_ENOENT = 2


class Gone(Exception):
    """The process has ended, or its files cannot be read: forget it.

    `errno` is 0 when it has simply ended, else what the kernel answered: the caller counts those.
    """

    def __init__(self, message: str, errno: int = 0) -> None:
        super().__init__(message)
        self.errno = errno


class Status:
    """Memory of one process, from /proc/PID/status. Sizes in KiB, as the kernel prints them."""

    __slots__ = ("anon", "file", "hwm", "rss", "shmem", "threads")

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

    def with_hwm(self, hwm: int) -> Status:
        """The same, with another watermark: one that was partly read, and reset, before."""
        return Status(hwm, self.rss, self.anon, self.file, self.shmem, self.threads)


class Stat:
    """What /proc/PID/stat says beside memory."""

    __slots__ = ("child_faults", "faults", "mm", "name", "parent", "rss", "start_time", "state", "threads")

    def __init__(
        self,
        state: bytes,
        parent: int,
        faults: int,
        child_faults: int,
        threads: int,
        start_time: int,
        rss: int,
        name: str = "",
        mm: bytes = b"",
    ) -> None:
        self.mm = mm
        """Where program and stack begin: another value is another address space, after exec(). Empty where the kernel
        does not say (no permission, or no memory any more). A child of fork() has its parent's."""
        self.name = name
        """Of the program, up to 15 characters: a process may give itself another."""
        self.state = state
        """One letter: R, S, D, Z (zombie), X (dead), T ..."""
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
    return Status(
        hwm=_field(text, b"\nVmHWM:"),
        rss=_field(text, b"\nVmRSS:"),
        anon=_field(text, b"\nRssAnon:"),
        file=_field(text, b"\nRssFile:"),
        shmem=_field(text, b"\nRssShmem:"),
        threads=_field(text, b"\nThreads:"),
    )


def has_fallen(text: bytes) -> bool:
    """Is the level of a `status` below its watermark? Else the watermark is as a reset would leave it. Raises Gone."""
    return _field(text, b"\nVmHWM:") - _field(text, b"\nVmRSS:") > FALLEN_KIB


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
            mm=mm if len(mm) > MM_LENGTH else b"",
            name=text[text.find(b"(") + 1 : text.rfind(b")")].decode("utf-8", "replace"),
        )
    except (IndexError, ValueError):
        raise Gone("stat is cut off") from None


def parse_statm(text: bytes) -> int:
    """Resident set in KiB, from /proc/PID/statm. Raises Gone if the text is cut off."""
    fields = text.split(None, 2)
    if len(fields) < 3 or not fields[1].isdigit() or len(fields[1]) > DIGITS:
        raise Gone("statm is cut off")
    return int(fields[1]) * PAGE_KIB


def parse_last_pid(text: bytes) -> int:
    """The pid given out last, from /proc/loadavg: it moves when a process or a thread is made. -1 if unknown."""
    last = text.rsplit(None, 1)[-1:]
    return int(last[0]) if last and last[0].isdigit() and len(last[0]) <= DIGITS else -1


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


def parse_meminfo(text: bytes) -> tuple[int, int]:
    """(MemTotal, MemAvailable) in KiB. Raises Gone if either is missing."""
    text = b"\n" + text
    return _field(text, b"\nMemTotal:"), _field(text, b"\nMemAvailable:")


class ProcessFiles:
    """One process's files in /proc, on descriptors that are opened once and kept: 1 to 10 µs a read.

    A process whose main thread has ended has no memory at its own files (proc_pid_task(5)), but still at those of its
    other threads: what concerns memory is read there then."""

    __slots__ = ("_descriptors", "_folder", "_keep", "_thread")

    def __init__(self, folder: str, keep: bool = True) -> None:
        """`keep=False` opens at each read: for when descriptors are short (1,024 in an environment)."""
        self._folder = folder
        self._keep = keep
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
        self._thread = ""
        return False

    def _read(self, name: str) -> bytes:
        try:
            descriptor = self._open(name, posix.O_RDONLY | posix.O_CLOEXEC)
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

    def stat(self) -> Stat:
        """State and faults as of now. Raises Gone."""
        return self.parsed_stat(self.read("stat"))

    def parsed_stat(self, text: bytes) -> Stat:
        """A `stat` of this process that was read. Where the main thread has ended it says nothing of memory: another
        thread's is read now. Raises Gone."""
        stat = parse_stat(text)
        if stat.state == ZOMBIE and stat.threads > 1:
            stat.rss = self.rss()
            stat.mm = parse_stat(ProcessFiles(self._folder + self._thread, keep=False).read("stat")).mm
        return stat

    def rss(self) -> int:
        """Resident set in KiB: the cheapest reading there is. Raises Gone."""
        rss = parse_statm(self.read("statm"))
        if not rss:
            raise Gone("statm: no memory any more")
        return rss

    def reset_watermark(self) -> None:
        """Set VmHWM back to the present RSS: `5` to clear_refs (Linux 4.0), no page is walked. Raises OSError."""
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


class Procfs:
    """A /proc, real or captured."""

    def __init__(self, root: str = "/proc") -> None:
        self.root = root
        self._loadavg = -1

    def pids(self) -> list[int]:
        """Every process there is. Raises OSError if the root cannot be listed."""
        return [int(name) for name in posix.listdir(self.root) if name.isdecimal()]

    def process(self, pid: int, keep: bool = True) -> ProcessFiles:
        """The files of one process; nothing is opened yet."""
        return ProcessFiles(f"{self.root}/{pid}/", keep)

    def process_self(self) -> ProcessFiles:
        """Our own files."""
        return ProcessFiles(f"{self.root}/self/")

    def text(self, name: str, limit: int = 65536) -> bytes:
        """A file below the root, up to `limit` bytes: files of /proc have no size. Raises Gone."""
        try:
            descriptor = posix.open(f"{self.root}/{name}", posix.O_RDONLY | posix.O_CLOEXEC)
            try:
                return posix.read(descriptor, limit)
            finally:
                posix.close(descriptor)
        except OSError as error:
            _gone(name, error)

    def connections(self) -> list[tuple[int, int, int]]:
        """Every TCP socket of this network namespace, as parse_tcp has it. The kernel gives a page at a time."""
        rows: list[tuple[int, int, int]] = []
        for name in "net/tcp", "net/tcp6":
            try:
                descriptor = posix.open(f"{self.root}/{name}", posix.O_RDONLY | posix.O_CLOEXEC)
            except OSError:
                continue
            text = b""
            try:
                while piece := posix.read(descriptor, 65536):
                    text += piece
            except OSError:
                pass  # what was read until then
            finally:
                posix.close(descriptor)
            rows += parse_tcp(text)
        return rows

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

    def leads(self, pid: int) -> bool:
        """Is it a process, and not a thread or nothing? (A thread's folder is there, but not in the list.)"""
        try:
            return b"\nTgid:\t%d\n" % pid in self.text(f"{pid}/status", 1024)
        except Gone:
            return False

    def last_pid(self) -> int:
        """See parse_last_pid. The descriptor is kept: this is read at every tick."""
        try:
            if self._loadavg < 0:
                self._loadavg = posix.open(f"{self.root}/loadavg", posix.O_RDONLY | posix.O_CLOEXEC)
            return parse_last_pid(posix.pread(self._loadavg, 128, 0))
        except OSError:
            return -1
