"""Who is who in the environment: the function's processes, this sidecar, and each other extension.

The runtime is known by what only its environment has (developer guide, "Extensions API": variables that
extensions do not get), its children by descent, an extension by its executable's folder; never by name.
"""

from __future__ import annotations

import posix
import time

from .procfs import Gone, ProcessFiles, Procfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .oom_score import OomScore

FUNCTION = "function"
SIDECAR = "truemem"
OTHER = ""

MARKERS = (b"_HANDLER=", b"LAMBDA_TASK_ROOT=", b"AWS_EXECUTION_ENV=")
"""Variables of the runtime which no external extension is given."""

KEPT_PROCESSES = 64
"""Processes whose descriptors stay open: 4 each, of the 1,024 that an environment has."""

YOUNG_SECONDS = 2
"""A process may exec: one that is nobody's is looked at again while it is younger than this,"""
AGAIN_SECONDS = 0.01
"""but not more often than this. (The function's own children are known by descent, at once.)"""

NAME_MAX = 255
"""Of a file (limits.h): what is longer is none."""

FEW = 64
"""So many new pids are looked at one by one, without listing /proc: a function starts a process, a machine is busy."""

_ADDRESS = b"AWS_LAMBDA_RUNTIME_API="
_CLOCK_BOOTTIME = 7
_TICKS = posix.sysconf("SC_CLK_TCK")


class Process:
    """One process of the environment; (pid, start time) is its identity."""

    __slots__ = ("files", "owner", "parent", "pid", "start_time")

    def __init__(self, pid: int, start_time: int, parent: int, owner: str, files: ProcessFiles) -> None:
        self.pid = pid
        self.start_time = start_time
        self.parent = parent
        self.owner = owner
        """FUNCTION, SIDECAR, or `extension:` and the base name of the extension's file."""
        self.files = files


class ProcessTable:
    """The processes of one environment, kept up to date by `scan`."""

    def __init__(
        self,
        proc: Procfs,
        api_address: str,
        extensions_folder: str = "/opt/extensions",
        oom_score: OomScore | None = None,
    ) -> None:
        """`api_address` is our AWS_LAMBDA_RUNTIME_API: the function's processes have the same. `oom_score` is
        raised for each of those that is found."""
        self._proc = proc
        self._oom_score = oom_score
        self.api_address = api_address
        self._extensions = extensions_folder.rstrip("/")
        self._self = posix.getpid()
        self._known: dict[int, Process] = {}
        self._nobody: set[int] = {1}
        """Processes that are none of ours: pid 1, a developer's other programs."""
        self._young: set[int] = set()
        """Nobody's yet, but young enough to exec into somebody."""
        self._elsewhere: dict[int, tuple[int, int]] = {}
        """(start time, parent) of runtimes that talk to another address: behind a proxy of another
        extension, or in another environment on the same machine."""
        self._last_pid = -2
        self._scanned_at = 0.0
        self.errors = 0
        """Processes whose files could not be read although they live."""

    def function(self) -> list[Process]:
        """The function's processes: the runtime first, for it is the one that races us."""
        return [process for process in self._known.values() if process.owner == FUNCTION]

    def others(self) -> list[Process]:
        """Sidecar and extensions."""
        return [process for process in self._known.values() if process.owner != FUNCTION]

    def oom_score_refused(self) -> str:
        """Why oom_score_adj cannot be raised here, or ""."""
        return self._oom_score.refused if self._oom_score is not None else ""

    def forget(self, process: Process) -> None:
        """The process has ended."""
        process.files.close()
        self._known.pop(process.pid, None)

    def changed(self) -> bool:
        """Is there anything new since the last scan? One read of /proc/loadavg."""
        last = self._proc.last_pid()
        if last < 0 or last != self._last_pid:
            return True
        return bool(self._young) and time.monotonic() - self._scanned_at > AGAIN_SECONDS

    def scan(self) -> None:
        """Find new processes and say whose they are. Raises OSError if /proc cannot be listed."""
        before, self._last_pid = self._last_pid, self._proc.last_pid()
        self._scanned_at = time.monotonic()
        young, self._young = self._young, set()
        if before > 0 and 0 < self._last_pid - before <= FEW:
            # Pids are given out in order: these are all that can be new, and threads.
            made = range(before + 1, self._last_pid + 1)
            present = {pid for pid in made if self._proc.leads(pid)} | young
        else:
            present = set(self._proc.pids())
            # A pid that is gone from one scan to the next may come back as somebody else's.
            self._nobody &= present | {1}
            self._elsewhere = {pid: facts for pid, facts in self._elsewhere.items() if pid in present}
        for pid in sorted(present - self._nobody - self._known.keys() - self._elsewhere.keys()):
            try:
                self._classify(pid)
            except Gone as gone:
                self.errors += gone.errno != 0

    def adopt_elsewhere(self) -> bool:
        """Take runtimes that talk to another address for the function's, if there is no other: a proxy. Those of
        another cgroup are another environment's."""
        if self.function() or not self._elsewhere:
            return False
        group = self._group(self._self)
        for pid, (start, parent) in self._elsewhere.items():
            if self._group(pid) != group:
                continue
            self._add(pid, start, parent, FUNCTION)
        self._elsewhere.clear()
        return bool(self.function())

    def runtime_address(self) -> str:
        """The runtime's own AWS_LAMBDA_RUNTIME_API, as of now: another one than ours where a proxy is in between. (A
        wrapper may set it after the process was found, and then exec the runtime.)"""
        for process in self.function()[:1]:
            try:
                return _address(b"\0" + self._proc.text(f"{process.pid}/environ")) or self.api_address
            except Gone:
                continue
        return self.api_address

    def _group(self, pid: int) -> bytes:
        """The process's cgroups (cgroups(7)); nothing where that cannot be told."""
        try:
            return self._proc.text(f"{pid}/cgroup", 4096)
        except Gone:
            return b""

    def _classify(self, pid: int) -> None:
        stat = self._proc.process(pid, keep=False).stat()
        owner = self._owner(pid, stat.parent)
        if owner == FUNCTION + "?":
            self._elsewhere[pid] = (stat.start_time, stat.parent)
        elif owner:
            self._add(pid, stat.start_time, stat.parent, owner)
        elif time.clock_gettime(_CLOCK_BOOTTIME) - stat.start_time / _TICKS > YOUNG_SECONDS:
            self._nobody.add(pid)
        else:
            self._young.add(pid)

    def _owner(self, pid: int, parent: int) -> str:
        if pid == self._self:
            return SIDECAR
        by_descent = self._known.get(parent)
        if by_descent is not None and by_descent.owner != SIDECAR:
            return by_descent.owner
        try:
            variables = b"\0" + self._proc.text(f"{pid}/environ")
        except Gone:
            return OTHER
        if any(b"\0" + marker in variables for marker in MARKERS):
            return FUNCTION if _address(variables) == self.api_address else FUNCTION + "?"
        name = self._extension(pid)
        return "extension:" + name if name else OTHER

    def _extension(self, pid: int) -> str:
        """Base name of the extension that the process runs: as its program, or as the script of one."""
        words = self._proc.text(f"{pid}/cmdline", 4096).split(b"\0")[:3]
        for path in (self._proc.executable(pid), *(word.decode("utf-8", "surrogateescape") for word in words)):
            folder, _, name = path.rpartition("/")
            if 0 < len(name) <= NAME_MAX and folder == self._extensions:
                return name
        return ""

    def _add(self, pid: int, start_time: int, parent: int, owner: str) -> None:
        files = self._proc.process(pid, keep=len(self._known) < KEPT_PROCESSES)
        # What is a child of one of them has inherited it.
        if owner == FUNCTION and self._oom_score is not None and parent not in self._known:
            self._oom_score.raise_for(pid)
        self._known[pid] = Process(pid, start_time, parent, owner, files)


def _address(variables: bytes) -> str:
    return variables.partition(b"\0" + _ADDRESS)[2].partition(b"\0")[0].decode("latin-1")
