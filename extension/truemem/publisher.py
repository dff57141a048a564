"""From what is known of each invocation to its line: joins, decides what is due, prints, counts what was lost."""

from __future__ import annotations

import posix

from .emf import line
from .ledger import Ledger
from .output import Output
from .telemetry import INIT_START, LOGS_DROPPED, Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .config import Config
    from .record import InvocationRecord


class Publisher:
    """The records of one environment on their way to stdout."""

    def __init__(self, config: Config, reports: bool, lost_elsewhere: Callable[[], int]) -> None:
        """`reports`: is telemetry subscribed to? `lost_elsewhere` counts what readers and listener have lost."""
        self._config = config
        self._lost_elsewhere = lost_elsewhere
        self._ledger = Ledger(reports)
        self._output = Output()
        self._environment_id = posix.urandom(8).hex()
        self._lost = 0
        self._told = 0

    def open(self, record: InvocationRecord) -> None:
        """An invocation begins."""
        self._ledger.open(record)

    def current(self) -> InvocationRecord | None:
        """The invocation whose window is open, or None."""
        return self._ledger.current()

    def last(self) -> InvocationRecord | None:
        """The last invocation, if it has not been printed yet."""
        return self._ledger.last()

    def find(self, request_id: str | None) -> InvocationRecord | None:
        """That invocation, if it has not been printed yet."""
        return self._ledger.find(request_id)

    def complete(self) -> bool:
        """True when no record waits for a report."""
        return self._ledger.complete()

    def lose(self, count: int = 1) -> None:
        """Something was lost: the next line says so."""
        self._lost += count

    def join(self, event: Event) -> None:
        """Add what the platform says."""
        if event.kind == INIT_START:
            self._environment_id = event.text("instanceId") or self._environment_id
        elif event.kind == LOGS_DROPPED:
            count = event.record.get("droppedRecords")
            self.lose(count if isinstance(count, int) else 1)
        else:
            self._ledger.join(event)

    def print_due(self, running_ms: float) -> bool:
        """Print one record that is complete, or has waited long enough (see Ledger.due); False if there is none.

        One at a time: what is to be done at once is looked at in between.
        """
        record = self._ledger.due(running_ms)
        if record is not None:
            self._print(record)
        return record is not None

    def print_rest(self) -> None:
        """Print everything there is: the environment ends."""
        for record in self._ledger.rest():
            self._print(record)
        self._output.flush(wait_ms=100)

    def flush(self) -> None:
        """Write what stdout did not take before."""
        self._output.flush()

    def _print(self, record: InvocationRecord) -> None:
        lost = self._lost + self._output.dropped + self._lost_elsewhere()
        record.dropped, self._told = lost - self._told, lost
        record.environment_id = self._environment_id
        self._output.put(line(record, self._config))
