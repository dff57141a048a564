"""What each of faults/deaths.py looks like to the sidecar, as recorded in deaths.txt: `python -m tests.unit.deaths`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from truemem.measure.window import Window
from truemem.records.out_of_memory import EXTENSION_CRASH, DeathReport
from truemem.records.pending_record import PendingRecord

from faults.deaths import DEATHS, Died, die
from faults.subject import source

FILE = Path(__file__).with_name("deaths.txt")
LIMIT = 512
"""MiB."""
LAST_NS = 1_000_000_000


class Seen(NamedTuple):
    """One death. None: not known, or it did not end its processes."""

    title: str
    exact: bool
    kernel_kills: int
    status: str | None
    error_type: str | None
    mark_mib: float | None
    reason: str | None
    level_mib: float | None
    mib_per_s: float | None
    unseen_ms: float | None
    """From its last sample to its end."""
    extension: bool
    """One held more than any process of the function."""

    def record(self) -> PendingRecord:
        """As it is when the verdict is due."""
        record = PendingRecord("r", 2, 0)
        of_extension = self.kernel_kills if self.error_type == EXTENSION_CRASH else 0
        record.kernel_kills, record.environment_kills = self.kernel_kills - of_extension, of_extension
        record.status, record.error_type, record.max_memory_used_mib = self.status, self.error_type, self.mark_mib
        if self.reason is not None:
            level_kib = None if self.level_mib is None else round(self.level_mib * 1024)
            growth = None if self.mib_per_s is None else self.mib_per_s * 1024
            record.death = DeathReport(self.reason, level_kib, growth, {"extension": "agent"} if self.extension else {})
        record.window = Window(0, 0, True)
        if self.unseen_ms is not None:
            record.window.curve.see(LAST_NS, 1)
            record.done_ns = LAST_NS + round(self.unseen_ms * 1e6)
        return record


def seen() -> list[Seen]:
    """All that are in the file."""
    return [Seen(*json.loads(line)) for line in FILE.read_text().splitlines()]


def main() -> None:
    """Die each, in both modes."""
    made = [
        _seen(death.title, exact, die(source(), death, LIMIT, exact=exact))
        for exact in (False, True)
        for death in DEATHS
    ]
    FILE.write_text("".join(f"{json.dumps(each)}\n" for each in made))


def _seen(title: str, exact: bool, died: Died) -> Seen:
    record = died.record
    known: dict[str, Any] = record.get("ending", {})
    ended = record.get("closedBy") == "shutdown"
    return Seen(
        title,
        exact,
        died.kernel_kills,
        record.get("status"),
        record.get("errorType"),
        record.get("MaxMemoryUsed"),
        ("timeout" if record.get("status") == "timeout" else "failure") if ended else None,
        known.get("level"),
        known.get("growthPerSecond"),
        record["lastSamples"][-1][0] if record.get("lastSamples") else None,
        "extension" in known.get("holder", {}),
    )


if __name__ == "__main__":
    main()
