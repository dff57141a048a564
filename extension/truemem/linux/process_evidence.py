"""What a process shows of itself."""

from __future__ import annotations

import posix

from .procfs import Gone, Procfs, Stat
from .sockets import connections, sockets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

HANDLER = b"\0_HANDLER="
"""Variable of the runtime that Lambda gives to no extension (developer guide, "Extensions API")."""
RUNTIME = b"\0AWS_EXECUTION_ENV="
"""A runtime's variable that images may set for every process: it makes a guess, no more."""
NAME_MAX = 255
"""Longest name of a file (limits.h): what is longer is none."""
_ADDRESS = b"\0AWS_LAMBDA_RUNTIME_API="


class ProcessEvidence:
    """What a process shows of itself, read anew each time: its program, variables and connections, what is above it."""

    def __init__(self, proc: Procfs, extensions_folder: str) -> None:
        self._proc = proc
        self._extensions = extensions_folder.rstrip("/")

    def stat(self, pid: int) -> Stat:
        """Raises Gone."""
        return self._proc.process(pid, keep=False).stat()

    def variables(self, pid: int) -> tuple[str, bool, bool]:
        """Variables by which a runtime is known (proc_pid_environ(5)): its Runtime API's address, or ""; whether there
        is a handler; and whether it may be a runtime. Raises Gone."""
        text = b"\0" + self._proc.text(f"{pid}/environ")
        address = text.partition(_ADDRESS)[2].partition(b"\0")[0].decode("latin-1")
        return address, HANDLER in text, HANDLER in text or RUNTIME in text

    def extension(self, pid: int) -> str:
        """Base name of the extension that the process runs: as its program, or as the script of one."""
        try:
            words = self._proc.text(f"{pid}/cmdline", 4096).split(b"\0")[:3]
        except Gone:
            words = []
        for path in (self._proc.executable(pid), *(word.decode("utf-8", "surrogateescape") for word in words)):
            folder, _, name = path.rpartition("/")
            if 0 < len(name) <= NAME_MAX and folder == self._extensions:
                return name
        return ""

    def is_connected(self, pid: int, address: str) -> bool:
        """Does the process talk to the Runtime API at `address`? For one whose variables do not say."""
        try:
            own = sockets(self._proc.root, pid)
        except Gone:
            return False
        port = port_of(address)
        return bool(own) and any(remote == port and inode in own for _, remote, inode in connections(self._proc.root))

    def holder_of(self, local_port: int, remote_port: int, first: Collection[int]) -> int:
        """The process that has this end of a connection open, or listens there (`remote_port` 0); those of `first`
        (pids) are asked first. 0 if none can be seen that has. Milliseconds."""
        wanted = (local_port, remote_port)
        inodes = {inode for local, remote, inode in connections(self._proc.root) if (local, remote) == wanted}
        try:
            pids = sorted(self._proc.pids(), key=lambda pid: pid not in first) if inodes else []
        except OSError:
            return 0
        for pid in pids:
            try:
                if inodes & sockets(self._proc.root, pid):
                    return pid
            except Gone:
                continue
        return 0

    def cgroups(self, pid: int) -> bytes:
        """The process's cgroups (cgroups(7)); nothing where they are not known."""
        try:
            return self._proc.text(f"{pid}/cgroup", 4096)
        except Gone:
            return b""

    def above(self, pid: int) -> tuple[int, set[int]]:
        """What has started us and the runtime (pid 1, or an emulator; 0: not known), and all of the platform's own
        processes: pid 1, and every process above us. A script that is an extension and starts us is none."""
        pid = self._parent(pid)
        while pid > 1 and self.extension(pid):
            pid = self._parent(pid)
        starter, platform = pid, {1}
        while pid > 1 and pid not in platform:
            platform.add(pid)
            pid = self._parent(pid)
        return starter, platform

    def _parent(self, pid: int) -> int:
        """0 if it is not known."""
        try:
            return self.stat(pid).parent
        except Gone:
            return 0

    def thread(self, pid: int) -> int:
        """The last thread of the process; the process itself where that is not known."""
        try:
            return max(int(name) for name in posix.listdir(f"{self._proc.root}/{pid}/task"))
        except (OSError, ValueError):
            return pid


def port_of(address: str) -> int:
    """The port of `host:port`; -1 without one."""
    port = address.rpartition(":")[2]
    return int(port) if port.isdecimal() and len(port) <= 5 else -1
