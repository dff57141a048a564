"""Which connections are the runtime's: of all that lead to the Runtime API, those that a function process owns.

The sidecar and every other extension talk to the same address.
"""

from __future__ import annotations

import posix

from .inet_diag import Connection, DiagError, InetDiag
from .procfs import Gone

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .processes import ProcessTable
    from .procfs import Procfs

TRIES = 3
"""So often is the owner of a connection looked for: its process may be too young to be known."""

MANY = 120
"""More connections than this to the Runtime API are not a runtime's talk."""


class RuntimeConnections:
    """The function's established connections to the Runtime API, looked at again and again."""

    def __init__(self, address: str, table: ProcessTable, proc: Procfs) -> None:
        """`address` is the function's AWS_LAMBDA_RUNTIME_API. Raises DiagError if the kernel will not tell."""
        self._diag = InetDiag(address)
        self._table = table
        self._proc = proc
        self._sockstat = -1
        self._known: list[Connection] = []
        self._tries: dict[int, int] = {}
        """Inode to how often its owner was looked for in vain."""
        self._seen = b""
        """The kernel's count of TCP sockets when all connections were listed last."""
        try:
            self._sockstat = posix.open(f"{proc.root}/self/net/sockstat", posix.O_RDONLY | posix.O_CLOEXEC)
        except OSError as error:
            self._diag.close()
            raise DiagError(f"sockstat: {error.strerror}") from None

    def look(self) -> list[Connection]:
        """All of them as of now. Those that are known are asked for one by one, 10 µs each; all are listed anew
        where the number of sockets has changed. Raises DiagError."""
        count = self._count()
        known = [self._diag.look(connection) for connection in self._known] if count == self._seen else [None]
        found = [connection for connection in known if connection is not None]
        if not found or len(found) < len(known):
            self._seen = count
            found = self._list()
        self._known = found
        return found

    def close(self) -> None:
        """Give the descriptors back."""
        self._diag.close()
        posix.close(self._sockstat)

    def _count(self) -> bytes:
        """TCP sockets in use: what changes when one is opened (proc_net(5), sockstat). One that is closed at the same
        time is missed by whoever knew it."""
        try:
            text = posix.pread(self._sockstat, 1024, 0)
        except OSError as error:
            raise DiagError(f"sockstat: {error.strerror}") from None
        start = text.find(b"TCP: inuse ")
        return text[start : text.find(b" orphan", start)]

    def _list(self) -> list[Connection]:
        every = self._diag.connections()
        if len(every) > MANY:
            raise DiagError(f"{len(every)} connections to the Runtime API")
        mine = {connection.inode for connection in self._known}
        strangers = {connection.inode for connection in every} - mine
        self._tries = {inode: tries for inode, tries in self._tries.items() if inode in strangers}
        unclear = {inode for inode in strangers if self._tries.get(inode, 0) < TRIES}
        if unclear:
            mine |= self._owned(unclear)
            for inode in unclear - mine:
                self._tries[inode] = self._tries.get(inode, 0) + 1
                self._seen = b""  # look again: the process that owns it may not be known yet
        return [connection for connection in every if connection.inode in mine]

    def _owned(self, inodes: set[int]) -> set[int]:
        """Those of the sockets that function processes have open."""
        if self._table.changed():
            try:
                self._table.scan()
            except OSError as error:
                raise DiagError(f"/proc: {error.strerror}") from None
        found: set[int] = set()
        for process in reversed(self._table.function()):  # the youngest first: it is there to make a call
            if found == inodes:
                break
            try:
                found |= inodes & self._proc.sockets(process.pid)
            except Gone:
                continue
        return found
