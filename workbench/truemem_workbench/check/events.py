"""What a function is invoked with: one event, or a file of them, over and over."""

from __future__ import annotations

from pathlib import Path

from truemem_workbench.support.bad_input import BadInput
from truemem_workbench.support.untrusted_text import loads, read_text


def read_events(path: Path) -> list[object]:
    """A JSON array of events, JSON lines with one event each, or one event on its own. Raises BadInput."""
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise BadInput(f"cannot read events from {path}: {why}. Try --events PATH/events.jsonl") from None
    try:
        whole = loads(text)
    except ValueError:
        return _lines(path, text)
    events = whole if isinstance(whole, list) else [whole]
    if not events:
        raise BadInput(f"no event in {path}: the array is empty. Try --event '{{}}'")
    return events


def _lines(path: Path, text: str) -> list[object]:
    events = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            events.append(loads(line))
        except ValueError as error:
            raise BadInput(
                f"{path} line {number} is not JSON ({error}). Try one event a line, or a JSON array of events"
            ) from None
    if not events:
        raise BadInput(f"no event in {path}: it is empty. Try --event '{{}}'")
    return events
