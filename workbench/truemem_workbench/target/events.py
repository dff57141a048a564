"""The events that a function is invoked with: from the command line, or a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeGuard

import click

from ..support.bad_input import BadInput
from ..support.untrusted_text import loads, read_text

FILE = click.Path(dir_okay=False, path_type=Path)


def read_event(given: str) -> object:
    """Read the value of `--event`: JSON, `@FILE`, or `-` for standard input. Raises BadInput."""
    source, text = "--event", given
    if given == "-":
        source, text = "standard input", sys.stdin.read()
    elif given.startswith("@"):
        source, text = given[1:], _text(Path(given[1:]), "the event", "--event @PATH/event.json")
    try:
        event: object = loads(text)
    except ValueError as error:
        start = text if len(text) <= 40 else text[:40] + "..."
        raise BadInput(
            f"the event of {source} is not JSON: {start!r} ({error}). Try --event '{{\"key\": 1}}'"
        ) from None
    return event


def read_events(path: Path) -> list[object]:
    """Read a file with a JSON array of events, JSON lines with one event each, or one event, with times or without
    (`truemem events --times`). Raises BadInput."""
    text = _text(path, "events", "--events PATH/events.jsonl")
    try:
        whole = loads(text)
    except ValueError:
        events, empty = _of_lines(path, text), "it is empty"
    else:
        events, empty = whole if isinstance(whole, list) else [whole], "the array is empty"
    if not events:
        raise BadInput(f"no event in {path}: {empty}. Try --event '{{}}'")
    return [each["event"] if is_timed(each) else each for each in events]


def is_timed(document: object) -> TypeGuard[Mapping[str, Any]]:
    """True for an event with its time, as `truemem events --times` writes it."""
    return isinstance(document, Mapping) and document.keys() == {"timestamp", "event"}


def _of_lines(path: Path, text: str) -> list[object]:
    events = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            events += [loads(line)] if line.strip() else []
        except ValueError as error:
            raise BadInput(
                f"{path} line {number} is not JSON ({error}). Try one event a line, or a JSON array of events"
            ) from None
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
