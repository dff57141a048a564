"""`--event`: what a function is invoked with, from the command line, a file or standard input."""

from __future__ import annotations

import sys
from pathlib import Path

from .bad_input import BadInput
from .untrusted_text import loads, read_text


def read_event(given: str) -> object:
    """`--event`: JSON, `@FILE`, or `-` for standard input. Raises BadInput."""
    source = "--event"
    text = given
    if given == "-":
        source, text = "standard input", sys.stdin.read()
    elif given.startswith("@"):
        source = given[1:]
        try:
            text = read_text(Path(source))
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            raise BadInput(f"cannot read the event from {source}: {why}. Try --event @PATH/event.json") from None
    try:
        event: object = loads(text)
    except ValueError as error:
        shown = text if len(text) <= 40 else text[:40] + "..."
        raise BadInput(
            f"the event of {source} is not JSON: {shown!r} ({error}). Try --event '{{\"key\": 1}}'"
        ) from None
    return event
