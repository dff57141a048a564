"""What the journal keeps, as text. `recovery` reads it again, in the next process of the environment."""

from __future__ import annotations

from ..support import minijson
from .out_of_memory import death_report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..measure.window import Window
    from .pending_record import PendingRecord
    from .record import InvocationRecord


def journal_text(record: InvocationRecord) -> str:
    """A finished record as the journal keeps it."""
    return minijson.dumps([record.time_ms, record.metrics, record.properties])


def curve(
    record: PendingRecord,
    window: Window,
    largest: tuple[str, int, int] | None,
    others_kib: int,
    extensions: Mapping[str, int],
) -> str:
    """What is known of the invocation that runs, in its open `window`. `largest` is the function's largest
    process, (name, pid, KiB); `others_kib` is what sidecar and `extensions` hold. Samples are
    epoch ms and KiB: the process that reads them does not know when this one ended."""
    death = death_report("", window, others_kib, largest, extensions)
    samples = window.curve.thinned(record.time_ms * 1_000_000, window.curve.last_ns())
    seen = [window.baseline, window.sampled, window.last, death.level_kib]
    return minijson.dumps([*seen, death.largest, [[at_ns / 1e6, kib] for at_ns, kib in samples]])
