"""What each of faults/deaths.py looks like to the sidecar, as recorded in deaths.txt: `python -m tests.unit.deaths`."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from truemem.platform.telemetry import REPORT, RUNTIME_DONE
from truemem.records.pending_record import EXTENSION_CRASH, DeathReport, Measured, PendingRecord

from faults.deaths import DEATHS, Died, die
from faults.subject import source
from tests.records import curve, event, window

FILE = Path(__file__).with_name("deaths.txt")
LIMIT = 512
"""MiB."""
LAST_MS = 1000


class Death(NamedTuple):
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

    def record(self, telemetry: bool = True) -> PendingRecord:
        """As it is when the verdict is due."""
        record = PendingRecord("r", 2, 0)
        of_extension = self.kernel_kills if self.error_type == EXTENSION_CRASH else 0
        record.killed(self.kernel_kills - of_extension)
        record.others_killed(of_extension)
        seen = self.unseen_ms is not None
        record.close(Measured(window(curve=curve((LAST_MS, 1)) if seen else curve())))
        if telemetry:
            done_ms = LAST_MS + self.unseen_ms if self.unseen_ms is not None else None
            record.join(event(RUNTIME_DONE, time_ms=done_ms))
            record.join(event(REPORT, mark_mib=self.mark_mib, status=self.status, errorType=self.error_type))
        if self.reason is not None:
            level_kib = None if self.level_mib is None else round(self.level_mib * 1024)
            growth = None if self.mib_per_s is None else self.mib_per_s * 1024
            record.died(DeathReport(self.reason, level_kib, growth, {"extension": "agent"} if self.extension else {}))
        return record


def seen() -> list[Death]:
    """All that are in the file."""
    return [Death(*json.loads(line)) for line in FILE.read_text().splitlines()]


def main() -> None:
    """Die each, in both modes."""
    made = [
        _seen(death.title, exact, die(source(), death, LIMIT, exact=exact))
        for exact in (False, True)
        for death in DEATHS
    ]
    FILE.write_text("".join(f"{json.dumps(each)}\n" for each in made))


def _seen(title: str, exact: bool, died: Died) -> Death:
    record = died.record
    known: dict[str, Any] = record.get("ending", {})
    ended = record.get("closedBy") == "shutdown"
    return Death(
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
