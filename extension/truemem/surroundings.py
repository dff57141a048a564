"""What the environment holds beside the function, read when a window closes: sidecar, extensions, the whole."""

from __future__ import annotations

import posix

from .cgroup import Level
from .heap import HeapPages
from .processes import KEPT_PROCESSES, SIDECAR, ProcessTable
from .procfs import Gone

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .record import InvocationRecord

EXTENSIONS = 10
"""As many as a function may have: more than that only pretend to be some."""


class Surroundings:
    """Reads what a record says about everybody else."""

    def __init__(self, table: ProcessTable, level: Level, environ: Mapping[bytes, bytes] = posix.environ) -> None:
        self._table = table
        self._level = level
        self._heap_pages = HeapPages(environ)
        self.source = level.source
        """Where the environment's own level comes from: `cgroup2`, `cgroup1` or `meminfo`."""
        self.held_kib = 0
        """RSS of sidecar and extensions, as last read."""

    def describe(self, record: InvocationRecord) -> None:
        """Fill in the record's environment, sidecar and extensions."""
        record.environment = self._level.read()
        self.ask(record)
        self.held_kib = 0
        for process in self._table.others():
            try:
                rss = process.files.rss()
            except Gone:
                self._table.forget(process)
                continue
            self.held_kib += rss
            if process.owner == SIDECAR:
                record.sidecar = rss
            else:
                name = process.owner.partition(":")[2]
                if name in record.extensions or len(record.extensions) < EXTENSIONS:
                    record.extensions[name] = record.extensions.get(name, 0) + rss

    def ask(self, record: InvocationRecord) -> None:
        """Fill in what the function's own allocator says, if it does."""
        pids = [process.pid for process in self._table.function()[:KEPT_PROCESSES]]
        record.heap = self._heap_pages.find(pids, record.request_id, record.time_ms)
