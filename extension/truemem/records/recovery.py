"""What a killed process left in the journal, as records. Pure, but for the journal that it comes from.

The file lies in /tmp, where the function can write as well: whatever is not what we would have written is passed over.
"""

from __future__ import annotations

from ..line_schema import METRICS, PROPERTIES
from ..measure.memory_curve import SHOWN
from ..measure.window import Window
from ..support import minijson
from .journal_text import journal_text
from .out_of_memory import DeathReport
from .pending_record import PendingRecord
from .record import InvocationRecord, finished

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..config import Config
    from .environment_state import EnvironmentState
    from .journal import Journal, JournalEntry


def records(journal: Journal, history: EnvironmentState, config: Config, kills: int) -> list[InvocationRecord]:
    """Each with the slot that has it: the closed records in their order, then the one that ran when the process was
    killed. `kills`: OOM kills that the kernel has counted since; one of them may have been ours."""
    left: list[InvocationRecord] = []
    for slot, entry in journal.records:
        closed = _closed(entry, slot)
        if closed is None:
            journal.printed(slot)
        else:
            left.append(closed)
            history.invocations = max(history.invocations, int(closed.properties["invocation"]))
    # a retry has the id once more
    known_ids = {(record.properties["requestId"], record.properties["invocation"]) for record in left}
    running = [found for found in (_running(entry, history) for entry in journal.running) if found is not None]
    last = max((pending.invocation for pending, _ in running), default=0)
    for pending, death in running:
        fired: list[str] = []
        if pending.invocation == last:  # else the next one had come: it was at its end, and lived
            pending.killed(kills)
            if death is not None:
                pending.died(death)
            fired = pending.signals(config.memory_mib, history.mark_mib)
        if (pending.request_id, pending.invocation) in known_ids:
            journal.end(pending.invocation)  # the kill came between its slot and this; else it would be told once more
        else:
            record = finished(pending, config, history.environment_id, fired)
            kept = journal.keep(pending.invocation, journal_text(record))
            left.append(record.having(recovered=True)._replace(slot=kept))
    left.sort(key=lambda record: record.properties["invocation"])
    return left


def _closed(entry: JournalEntry, slot: int) -> InvocationRecord | None:
    """A closed record; None for what we have not written."""
    try:
        time_ms, values, members = minijson.loads(entry.text)
        known = values.keys() <= METRICS.keys() and members.keys() <= PROPERTIES.keys()
        numbers = [time_ms, members["invocation"], *values.values()]
    except (ValueError, TypeError, AttributeError, KeyError):
        return None
    if not known or not isinstance(members.get("requestId"), str) or not all(map(_is_number, numbers)):
        return None
    marks = {"recovered": True, **({"mayRepeat": True} if entry.may_repeat else {})}
    return InvocationRecord(int(time_ms), values, {**members, **marks}, slot)


def _running(entry: JournalEntry, history: EnvironmentState) -> tuple[PendingRecord, DeathReport | None] | None:
    """The invocation that ran, with what its curve tells; and how it died, if it did."""
    try:
        number, time_ms, event = entry.text.split(b" ", 2)
        request_id = minijson.loads(event)["requestId"]
        record = PendingRecord(request_id, int(number), int(time_ms))
    except (ValueError, TypeError, KeyError):
        return None
    if not isinstance(request_id, str):
        return None
    record.follows_init(cold_start=record.invocation == 1, suppressed=False)
    history.invocations = max(history.invocations, record.invocation)
    try:
        window, death = _seen(minijson.loads(entry.curve))
    except (ValueError, TypeError):  # it ran for too short a time to have one
        record.not_measured(0.0)
        return record, None
    record.measured(window, "", 0.0)
    return record, death


def _seen(curve: Any) -> tuple[Window, DeathReport | None]:
    """What a curve tells. Raises ValueError or TypeError for what is none."""
    baseline, sampled, last, level, largest, samples = curve
    pairs = [(at_ms, kib) for at_ms, kib in samples]
    numbers = [baseline, sampled, last, level or 0, *(number for pair in pairs for number in pair)]
    if not all(map(_is_number, numbers)) or not isinstance(largest, dict) or len(pairs) > SHOWN:
        raise ValueError
    window = Window(int(baseline), 0, True)
    window.sampled, window.last = int(sampled), int(last)
    for at_ms, kib in pairs:
        window.curve.see(round(at_ms * 1e6), int(kib))
    if level is None and not window.curve.samples:
        return window, None  # nothing was read
    named = {name: largest[name] for name in ("process", "extension", "pid", "rss") if name in largest}
    level_kib, growth = None if level is None else int(level), window.curve.growth_kib_per_s()
    return window, DeathReport("", level_kib, growth, named, at_ms=round(window.curve.last_ns() / 1e6))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e15
