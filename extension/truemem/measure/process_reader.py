"""Reads the function's processes: their status, and a reset of their watermarks where that is needed."""

from __future__ import annotations

import time

from ..linux.kernel import probe
from ..linux.new_pids import NO_LIMIT_NS
from ..linux.proc_text import Gone, has_fallen
from ..linux.procfs import ESRCH, Procfs
from .readings import Reading, Readings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..linux.process_table import ProcessTable
    from ..linux.procfs import ProcessFiles

AT_ONCE = 12
"""Processes that are read while the answer waits: 0.3 ms. The others are read later."""


class ProcessReader:
    """Nothing is parsed here: the runtime waits."""

    def __init__(self, table: ProcessTable, proc: Procfs, clock: Callable[[], int] = time.time_ns) -> None:
        """`clock` gives epoch ns."""
        self._table = table
        self._proc = proc
        self._clock = clock
        self.refused = probe(proc)
        """Why the watermark cannot be reset here, or "" while it can."""
        self.lost = 0
        """Readings that failed although the process lives."""

    def read_and_reset(self, at_rest: bool = False, most: int = AT_ONCE) -> Readings:
        """Read and reset, now: the runtime waits for this, or may run already. `at_rest`: it waits, so that there is
        nothing to compare with where nothing is reset. `most` processes, the others by `read_rest`."""
        cut = Readings(self._table.function(), self._proc.last_pid())
        self._read(cut, most, NO_LIMIT_NS, at_rest)
        if len(cut.readings) > 1:
            for reading in cut.readings:
                try:
                    reading.again = reading.process.files.rss()
                except Gone:
                    reading.again = 0
        cut.done_ns = self._clock()
        for reading in cut.readings:
            reading.end_ns = cut.done_ns
        cut.split = bool(cut.left)
        return cut

    def read_rest(self, cut: Readings, first: set[int], most_ns: int) -> None:
        """Read the other processes, for so long at most. Those of `first` (pids) come first."""
        if cut.left:
            cut.left.sort(key=lambda process: process.pid not in first)
            self._read(cut, len(cut.left), most_ns, at_rest=False)

    def reset(self, files: ProcessFiles) -> None:
        """Reset the watermark, or note why it cannot be. Raises Gone."""
        if self.refused:
            return
        try:
            files.reset_watermark()
        except OSError as error:
            if error.errno == ESRCH:
                raise Gone("clear_refs: no such process") from None
            self.refused = f"clear_refs: {error.strerror}"

    def failed(self, gone: Gone) -> None:
        """Count it where the process lives."""
        self.lost += gone.errno != 0

    def _read(self, cut: Readings, most: int, most_ns: int, at_rest: bool) -> None:
        until_ns = self._clock() + most_ns
        waiting, cut.left = cut.left[:most], cut.left[most:]
        for at, process in enumerate(waiting, 1):
            files = process.files
            try:
                before = files.read("stat")
                status = files.read("status")
                reset = has_fallen(status)
                if reset:
                    self.reset(files)
                after = before if at_rest and not reset else files.read("stat")
                cut.readings.append(Reading(process, before, status, after, reset and not self.refused))
            except Gone as gone:
                self.lost += gone.errno != 0
                cut.ended.append(process)
            now_ns = self._clock()
            if cut.readings:
                cut.readings[-1].end_ns = cut.readings[-1].end_ns or now_ns
            if now_ns > until_ns:
                cut.left = waiting[at:] + cut.left
                return
