"""Reads the events that a function is invoked with: one, or a file of several."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ..support.bad_input import BadInput
from ..support.untrusted_text import loads, read_text


def read_events(path: Path) -> list[object]:
    """Read a file with a JSON array of events, JSON lines with one event each, or one event. Raises BadInput."""
    text = _text(path, "events", "--events PATH/events.jsonl")
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


def _text(path: Path, what: str, example: str) -> str:
    try:
        return read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise BadInput(f"cannot read {what} from {path}: {why}. Try {example}") from None


def text_of(event: object) -> str:
    """The event as JSON: equal events have one text, which is kept once."""
    return sys.intern(json.dumps(event, sort_keys=True))


def read_event(given: str) -> object:
    """Read the value of `--event`: JSON, `@FILE`, or `-` for standard input. Raises BadInput."""
    source = "--event"
    text = given
    if given == "-":
        source, text = "standard input", sys.stdin.read()
    elif given.startswith("@"):
        source = given[1:]
        text = _text(Path(source), "the event", "--event @PATH/event.json")
    try:
        event: object = loads(text)
    except ValueError as error:
        shown = text if len(text) <= 40 else text[:40] + "..."
        raise BadInput(
            f"the event of {source} is not JSON: {shown!r} ({error}). Try --event '{{\"key\": 1}}'"
        ) from None
    return event
