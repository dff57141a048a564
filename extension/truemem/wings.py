"""What a feature that can be taken out may hear, and what it may bring. `startup` has the table of those there are.

The spine knows no wing. A wing is a package whose `door(site)` makes a `Wing`, or None where it is not wanted. It
overrides the methods that it wants to hear; what no wing overrides is not called, and costs nothing.
"""

from __future__ import annotations

from .support.log import log, reason
from .support.named_tuple import NamedTuple
from .support.native import mypyc_attr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, Final

    from .config import Config
    from .linux.process_table import ProcessTable
    from .linux.procfs import Procfs
    from .measure.sampling import CpuBudget
    from .measure.watermark import ProcessReadings
    from .measure.window import Window
    from .protocols import Lifecycle, Sender
    from .records.pending_record import EnvironmentState, PendingRecord
    from .records.record import InvocationRecord
    from .support.clock import Clock


class Site(NamedTuple):
    config: Config
    environ: Mapping[bytes, bytes]
    name: str
    """Name of the extension's file."""
    managed: bool
    """True on Managed Instances."""
    table: ProcessTable
    proc: Procfs
    clock: Clock


HEAP_NOTE: Final = "heap"
"""Note of a record: what the function's runtime or allocator says of its heap; and the member of its line."""
IN_USE_NOTE: Final = "in use"
"""Note of a record whose process has a heap page, or a JVM's counters: an InUse."""


class InUse(NamedTuple):
    """What a runtime that can say which lines, or classes, keep memory has in use."""

    pid: int
    """The runtime's process."""
    kib: int | None
    """KiB in use; None if the runtime does not say this time."""
    is_jvm: bool = False
    """A JVM with counters: else a runtime with a preload."""


class PrintedLine:
    def __init__(self, text: str, slots: Sequence[int] = (), lost: int = 0) -> None:
        self.text = text
        self.slots = slots
        """Slots of the journal that have what it tells."""
        self.lost = lost
        """How many records are lost with it, beyond one, and how many losses that it tells of."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Lines:
    """Makes lines of finished records. This one makes one of each, at once."""

    def __init__(self, text: Callable[[InvocationRecord], str]) -> None:
        """`text` makes the line of one."""
        self._text = text

    def add(self, record: InvocationRecord, dropped: int) -> Iterable[PrintedLine]:
        """Lines that can be printed now. What this record's line says was `dropped`."""
        return (PrintedLine(self._text(record), () if record.slot is None else (record.slot,), dropped),)

    def overdue(self, now_ms: int) -> Iterable[PrintedLine]:
        """Records that have waited for long enough, at epoch `now_ms`."""
        return ()

    def rest(self) -> Iterable[PrintedLine]:
        """Records that still wait: the environment ends."""
        return ()


@mypyc_attr(allow_interpreted_subclasses=True)
class Keeper:
    """Keeps what must outlive a SIGKILL of this process. This one keeps nothing."""

    problem = ""
    """Why it does not, for the log."""
    history = b""
    """What the last process has remembered."""

    def empty(self) -> bool:
        """Has no earlier process left anything?"""
        return True

    def forget(self) -> None:
        """What was left is another environment's."""

    def recover(self, history: EnvironmentState, config: Config, kills: int) -> list[tuple[InvocationRecord, bool]]:
        """What an earlier process has left, `kills` OOM kills ago: each record, and whether it was sent elsewhere."""
        return []

    def remember(self, history: str) -> None:
        """Keep the history, which goes on over a reset."""

    def begin(self, number: int, time_ms: int, event: bytes) -> None:
        """The environment's invocation `number` runs, since epoch `time_ms`: `event` as the platform sent it."""

    def checkpoint_due(self, level_kib: int, urgent: bool, now_ns: int) -> bool:
        """Is the checkpoint to be written at this level? `urgent`: the invocation may be about to die. `now_ns`:
        monotonic."""
        return False

    def checkpoint(
        self,
        record: PendingRecord,
        window: Window,
        largest: tuple[str, int, int] | None,
        others_kib: int,
        extensions: Mapping[str, int],
    ) -> None:
        """What is known of the memory of the invocation that runs (see death_report)."""

    def keep(self, number: int, record: InvocationRecord) -> int | None:
        """The record is closed: its slot, or None where it is not kept."""
        return None

    def sending(self, slot: int) -> None:
        """The record is about to be sent elsewhere; its line may wait for others still."""

    def printing(self, slot: int) -> None:
        """The record's line is about to be written."""

    def printed(self, slot: int) -> None:
        """The record's line is written, or lost for good."""

    def remove(self) -> None:
        """The environment ends."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Wing:
    """Hears nothing, and brings nothing. Each wing overrides what it is for."""

    lost = 0
    where = ""
    """Where the wing sends records, for the log."""
    keeper: Keeper | None = None
    sender: Sender | None = None
    managed: Callable[[Any], Lifecycle] | None = None
    """Makes the lifecycle of Managed Instances, of Parts (lifecycle/parts)."""
    lines: Callable[[Callable[[InvocationRecord], str]], Lines] | None = None

    def readings_taken(self, readings: ProcessReadings) -> None:
        """The function's watermarks were read and reset. The runtime waits: a few µs."""

    def sampled(self, levels: Mapping[int, int], level_kib: int, until_ns: float | None, now_ns: int) -> None:
        """The function was sampled: RSS of its processes by pid, and what the environment holds, KiB. The memory limit
        is reached in `until_ns` if it grows on; None where it does not. `now_ns`: monotonic."""

    def begun(self, record: PendingRecord, members: Mapping[str, Any]) -> None:
        """The invocation has begun: members of INVOKE, or of platform.start."""

    def window_closed(self, records: Sequence[PendingRecord], window: Window, budget: CpuBudget, dying: bool) -> None:
        """The window of these invocations was closed. What takes more than some µs is paid out of `budget`. `dying`:
        the environment ends with them."""

    def finishing(self, record: PendingRecord) -> None:
        """The record is printed now, and its members are asked for: once."""

    def members(self, record: PendingRecord) -> Mapping[str, object]:
        """Members of its line, by name: asked for when it is closed, and when it is printed."""
        return {}

    def finished(self, made: InvocationRecord, record: PendingRecord | None) -> None:
        """The invocation is about to be printed. `record` is None where an earlier process has measured it."""

    def ending(self, records: Sequence[PendingRecord]) -> None:
        """The environment ends: these are printed now, and none after them."""


class Wings:
    """The wings that are there. What fails in one is counted, and costs the spine nothing."""

    def __init__(self, wings: Sequence[Wing] = ()) -> None:
        self._wings = wings
        self._failures = 0
        self.readings_taken = self._overridden("readings_taken")
        self.sampled = self._overridden("sampled")
        self.begun = self._overridden("begun")
        self.window_closed = self._overridden("window_closed")
        self.finishing = self._overridden("finishing")
        self.finished = self._overridden("finished")
        self.ending = self._overridden("ending")
        self._members = self._overridden("members")
        self.keeper: Keeper = next((wing.keeper for wing in wings if wing.keeper is not None), Keeper())
        self.sender = next((wing.sender for wing in wings if wing.sender is not None), None)
        self.managed = next((wing.managed for wing in wings if wing.managed is not None), None)
        self.lines = next((wing.lines for wing in wings if wing.lines is not None), None)
        self.where = ",".join(wing.where for wing in wings if wing.where)

    @property
    def lost(self) -> int:
        """What all of them have lost."""
        return self._failures + sum(wing.lost for wing in self._wings)

    def members(self, record: PendingRecord) -> dict[str, object]:
        added: dict[str, object] = {}
        for members in self._members:
            found = members(record)
            if found:
                added.update(found)
        return added

    def _overridden(self, name: str) -> tuple[Callable[..., Any], ...]:
        made = [wing for wing in self._wings if getattr(type(wing), name) is not getattr(Wing, name)]
        return tuple(self._guarded(getattr(wing, name)) for wing in made)

    def _guarded(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*arguments: object) -> object:
            try:
                return call(*arguments)
            except Exception as error:
                self._failures += 1
                log("error", reason(error))
                return None

        return guarded
