"""Splits the content of a file into log events: joins those on several lines, and takes CSV and JSON apart."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import IO

from ..support.untrusted_text import first_document
from .wrapped import MOST_TRIES, OBJECT, Event

CSV_COLUMNS = ("@message", "message", "line", "content", "_raw", "log")
"""Columns with the text of an event, in lower case: of the console, of Datadog (Message), and others."""
LONGEST = 4 << 20
"""Longest line that is read as one. CloudWatch's longest event is 1 MiB. A longer one has several JSON objects."""
LARGEST = 64 << 20
"""Most characters of one JSON document that is read whole. A larger one is taken apart into the objects in it."""
MOST_JOINED = 100_000
"""Most lines of one JSON object that are joined."""
_CHUNK = 1 << 18
_BETWEEN = re.compile(r"[\s\ufeff\[\],]*")
"""What may stand between two objects: a list's brackets and commas too."""
_LONGEST_NAME = len("-Infinity")


def joined(lines: Iterable[Event]) -> Iterator[Event]:
    """Join JSON objects that are spread over many lines. Other lines stay as they are."""
    begun: list[str] = []
    for line in lines:
        if begun and isinstance(line, str) and len(begun) < MOST_JOINED:
            if line[:1] in (" ", "\t"):
                begun.append(line.strip())
                continue
            if line.startswith("}"):
                yield "".join((*begun, line))
                begun = []
                continue
        yield from _together(begun)
        begun = [line] if isinstance(line, str) and line.endswith("{") else []
        if not begun:
            yield line
    yield from _together(begun)


def _together(begun: list[str]) -> Iterator[str]:
    """What began like JSON and has no end: one event, so that it counts once."""
    if len(begun) > 1 and OBJECT.search("".join(begun)):
        yield "".join(begun)
    else:
        yield from begun


def csv_events(file: Iterable[str]) -> Iterator[str]:
    csv.field_size_limit(1 << 24)
    lines = itertools.dropwhile(lambda line: not line.strip("\ufeff \r\n\t"), file)
    rows = csv.reader(line.replace("\0", "") for line in lines)
    place = column(next(rows, []))
    if place is None:
        raise csv.Error(f"it has no column {' or '.join(CSV_COLUMNS[:2])}")
    for row in rows:
        yield " ".join(row[place].splitlines()) if place < len(row) else ""


def column(header: list[str]) -> int | None:
    """The place of the column that has the events' text."""
    names = [name.strip().lower() for name in header]
    return next((names.index(name) for name in CSV_COLUMNS if name in names), None)


def lines_of(file: IO[str]) -> Iterator[Event]:
    """The lines of a file. From a line on that is too long for one event, everything is read as `documents`."""
    while line := file.readline(LONGEST):
        if len(line) == LONGEST and not line.endswith(("\n", "\r")):
            yield from documents(file.read, line)
        else:
            yield line.rstrip("\r\n")


def documents(read: Callable[[int], str], text: str = "") -> Iterator[Event]:
    """The JSON objects of a file, with or without line breaks in and between them, alone or in lists. All else is text,
    a line at a time. `text` was read already. `read` returns at most so many characters, and nothing at the end."""
    place = failures = 0
    ended = False
    while True:
        between = _BETWEEN.match(text, place)
        place = between.end() if between else place
        wanted, failed = 0, place
        if place == len(text):
            wanted = _CHUNK
        elif text[place] == "{":
            try:
                document, place = first_document(text, place)
            except ValueError as error:
                failures += 1
                if not _unfinished(error, text):
                    failed = getattr(error, "pos", place)
                elif not ended and len(text) - place < LARGEST:
                    wanted = len(text) - place
            else:
                yield document
                failures = 0
                continue
        elif text.find("\n", place) < 0 and len(text) - place < LONGEST:
            wanted = _CHUNK
        if wanted and not ended:
            new = read(max(wanted, _CHUNK))
            ended = not new
            text, place = text[place:] + new, 0
            continue
        if place == len(text):
            return
        if failures >= MOST_TRIES:  # a hostile file may be all braces: then all that was read is one text
            end, failures = len(text), 0
        else:
            end = _end_of_text(text, place, failed)
        yield text[place:end].rstrip("\r\n")
        place = end


def _unfinished(error: ValueError, text: str) -> bool:
    """True if a document may go on in what was not read yet."""
    pos = getattr(error, "pos", None)
    return pos is not None and (pos >= len(text) - _LONGEST_NAME or str(error).startswith("Unterminated"))


def _end_of_text(text: str, place: int, failed: int) -> int:
    """The end of the line; without a line break, the next object after the place where the document failed."""
    end = text.find("\n", place, place + LONGEST) + 1
    if end:
        return end
    begin = OBJECT.search(text, max(place + 1, failed - len('{"')))
    return begin.start() if begin else len(text)
