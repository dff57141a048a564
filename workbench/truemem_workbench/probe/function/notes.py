"""The notes that the probe's processes leave for each other in /tmp: one line each, KIND and its fields.

`event REQUEST NS`: the extension has an INVOKE. `next NS`: it asks for the next event. `gap BEFORE MONOTONIC WALL`: the
ticker did not run for so long. NS, BEFORE, MONOTONIC and WALL are nanoseconds, the first two of CLOCK_MONOTONIC.
"""

from __future__ import annotations

import os
from pathlib import Path

TMP = Path(os.environ.get("TMPDIR") or "/tmp")
NOTES = TMP / "truemem-probe.notes"
LATE = TMP / "truemem-probe.late"
"""While this file is there, the extension is the last that asks for the next event."""


def note(*fields: object) -> None:
    """Append a line. One small write, so that lines of two processes do not mix."""
    with NOTES.open("ab", buffering=0) as file:
        file.write((" ".join(map(str, fields)) + "\n").encode())


def noted(kind: str) -> list[list[str]]:
    """The fields of all lines of a kind, oldest first. Raises FileNotFoundError if there is no note yet."""
    lines = (line.split() for line in NOTES.read_text().splitlines())
    return [fields for first, *fields in lines if first == kind]
