"""Reads the performance counters of the function's JVMs, where there are any: /tmp/hsperfdata_USER/PID.

HotSpot keeps them in a mapped file, made to be read by other processes. It is always below /tmp, whatever TMPDIR says;
USER is the name that the JVM's effective uid has in /etc/passwd, and PID the innermost of its pids
(src/hotspot/os/posix/perfMemory_posix.cpp). A user without a name has no file. The function can write there: a file
is read if it is regular, of the process's own user, writable for no other, and small. Only our own root is looked in,
which the function's processes share: one that a process makes for itself could keep us waiting.
"""

from __future__ import annotations

import posix

from ..support.files import read
from ..support.named_tuple import NamedTuple
from .hsperf import MOST_BYTES, PROLOGUE, Layout, locate, values
from .java_heap import NUMBERS, POLICY, TEXTS, JavaHeap
from .proc_text import Gone, parse_identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .process_table import Process
    from .runtime_heap import RuntimeHeap

LOOKS = 3
"""So often is a process without a file looked at, each time an invocation ends: it may yet become a JVM, by exec()."""
MOST_NEW = 8
"""Processes that are looked at in one invocation. The others are, in the next one."""
MOST_OPEN = 8
"""Files that are held open: a function may start many JVMs."""
_PASSWD_MAX = 65536
_NAME_MAX = 128
_KIND, _REGULAR = 0o170000, 0o100000
_OPEN = posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NOFOLLOW | posix.O_NONBLOCK


class _Counters:
    """One JVM's file. The descriptor stays open: the JVM writes to this file for as long as it lives."""

    def __init__(self, descriptor: int, layout: Layout) -> None:
        self.descriptor = descriptor
        self._layout = layout
        self._heap = JavaHeap(layout.texts.get(POLICY, b""))

    def read(self) -> bytes:
        """The part of the file that has the counters. Not parsed: this is all that is urgent."""
        try:
            return posix.pread(self.descriptor, self._layout.end - self._layout.start, self._layout.start)
        except OSError:
            return b""

    def parse(self, part: bytes) -> RuntimeHeap | None:
        counters = values(self._layout, part)
        return self._heap.read(counters) if counters is not None else None


class Shown(NamedTuple):
    """What was read of one JVM's counters at one moment."""

    process: tuple[int, int]
    """Its pid and start time."""
    part: bytes


class HsperfFiles:
    """The counters of one environment's JVMs."""

    def __init__(self, root: str = "") -> None:
        """`root`: the folder with `tmp` and `etc/passwd`; "" for the real ones."""
        self._root = root
        self._looks: dict[tuple[int, int], int] = {}
        """By (pid, start time): how often a process was looked at that has no file."""
        self._open: dict[tuple[int, int], _Counters] = {}
        self._users: dict[int, str] = {}
        self._first: tuple[int, int] | None = None
        """Whose counters were told last."""

    def take(self) -> Shown | None:
        """Read the counters that were told last once more; None where none were. 2 µs."""
        counters = self._open.get(self._first) if self._first is not None else None
        return Shown(self._first, counters.read()) if counters is not None and self._first is not None else None

    def heap(self, processes: Sequence[Process], shown: Shown | None = None) -> RuntimeHeap | None:
        """The heap of the first of these processes that is a JVM and says so: as it was when `shown` was taken, if that
        is of this one."""
        new = MOST_NEW
        heap = None
        for process in processes:
            key = process.pid, process.start_time
            counters = self._open.get(key)
            if counters is None and new and len(self._open) < MOST_OPEN and self._looks.get(key, 0) < LOOKS:
                new -= 1
                counters = self._find(process)
                if counters is None:
                    self._looks[key] = self._looks.get(key, 0) + 1
                else:
                    self._open[key] = counters
            if counters is None:
                continue
            heap = counters.parse(shown.part if shown is not None and shown.process == key else counters.read())
            if heap is not None:
                self._first = key
                break
        if len(self._looks) + len(self._open) > len(processes):
            self._forget({(process.pid, process.start_time) for process in processes})
        return heap

    def _forget(self, living: set[tuple[int, int]]) -> None:
        """What is kept of processes that have ended."""
        for key in self._looks.keys() - living:
            del self._looks[key]
        for key in self._open.keys() - living:
            posix.close(self._open.pop(key).descriptor)

    def _find(self, process: Process) -> _Counters | None:
        try:
            uid, pid = parse_identity(process.files.read("status"))
            user = self._user(uid)
            if not user:
                return None
            folder = posix.open(f"{self._root}/tmp/hsperfdata_{user}", _OPEN | posix.O_DIRECTORY)
            try:
                return _counters(posix.open(str(pid or process.pid), _OPEN, dir_fd=folder), uid)
            finally:
                posix.close(folder)
        except (OSError, Gone):
            return None

    def _user(self, uid: int) -> str:
        """The name of a user; "" without one. Raises OSError."""
        if uid not in self._users:
            if len(self._users) >= MOST_OPEN:
                self._users.clear()
            self._users[uid] = parse_user(read(f"{self._root}/etc/passwd", _PASSWD_MAX), uid)
        return self._users[uid]


def parse_user(passwd: bytes, uid: int) -> str:
    """The first name that this uid has (passwd(5)); "" if it has none, or one that names no folder."""
    for line in passwd.split(b"\n"):
        fields = line.split(b":", 4)
        if len(fields) > 3 and fields[2] == b"%d" % uid:
            name = fields[0]
            return name.decode("utf-8", "surrogateescape") if len(name) <= _NAME_MAX and b"/" not in name else ""
    return ""


def _counters(descriptor: int, owner: int) -> _Counters | None:
    """Those of the file, if it is one. Closes the descriptor if not. Raises OSError."""
    kept = None
    try:
        about = posix.fstat(descriptor)
        is_safe = about.st_mode & _KIND == _REGULAR and not about.st_mode & 0o022 and about.st_uid == owner
        if is_safe and about.st_nlink == 1 and PROLOGUE <= about.st_size <= MOST_BYTES:
            layout = locate(posix.pread(descriptor, MOST_BYTES, 0), NUMBERS, TEXTS)
            kept = _Counters(descriptor, layout) if layout is not None else None
        return kept
    finally:
        if kept is None:
            posix.close(descriptor)
