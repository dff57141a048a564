"""Finds log events in a file's content: joins those on several lines, and unpacks CSV and JSON."""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Iterable, Iterator
from typing import Any

from ..support.untrusted_text import loads

TEXT_KEYS = ("@message", "message", "text")
CSV_COLUMNS = ("@message", "message")


def joined(lines: Iterable[str]) -> Iterator[str]:
    """Join JSON objects that are spread over many lines. Other lines stay as they are."""
    begun: list[str] = []
    for whole_line in lines:
        line = whole_line.rstrip("\r\n")
        if not begun:
            if line.endswith("{"):
                begun = [line]
            else:
                yield line
            continue
        if line[:1] in (" ", "\t"):
            begun.append(line.strip())
            continue
        if line.startswith("}"):
            yield "".join((*begun, line))
            begun = []
            continue
        yield from begun  # it was no JSON
        begun = [line] if line.endswith("{") else []
        if not begun:
            yield line
    yield from begun


def is_line(document: dict[str, Any]) -> bool:
    """True if this JSON object is a line of the sidecar: each of them has `schema` and `environmentId`."""
    schema = document.get("schema")
    return isinstance(schema, int) and not isinstance(schema, bool) and isinstance(document.get("environmentId"), str)


def parsed_event(event: str) -> dict[str, Any] | None:
    """The JSON object in an event, after any text before it."""
    document = parsed(event[event.find("{") :]) if "{" in event else None
    return document if isinstance(document, dict) else None


def csv_events(file: Iterable[str]) -> Iterator[str]:
    csv.field_size_limit(1 << 24)
    lines = itertools.dropwhile(lambda line: not line.strip("\ufeff \r\n\t"), file)
    rows = csv.reader(line.replace("\0", "") for line in lines)
    names = next(rows, [])
    place = next((names.index(name) for name in CSV_COLUMNS if name in names), None)
    if place is None:
        raise csv.Error(f"it has no column {' or '.join(CSV_COLUMNS)}")
    for row in rows:
        yield " ".join(row[place].splitlines()) if place < len(row) else ""


def texts(document: Any) -> Iterator[str]:
    """Every event's text in a JSON document: `{"message": …}`, `{"field": "@message", "value": …}`, at any depth."""
    if isinstance(document, list):
        for each in document:
            yield from texts(each)
    elif isinstance(document, dict):
        if is_line(document):
            yield json.dumps(document, separators=(",", ":"), ensure_ascii=False)
        elif document.get("field") == "@message":
            yield _text(document.get("value"))
        else:
            for key, value in document.items():
                if key == "@message" or (key in TEXT_KEYS and isinstance(value, str)):
                    yield _text(value)
                elif isinstance(value, list | dict):
                    yield from texts(value)


def _text(value: Any) -> str:
    """The text on one line. The console writes a JSON message as an object, not as a string."""
    if isinstance(value, str):
        return " ".join(value.splitlines())
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def has_text(document: dict[str, Any]) -> bool:
    """True for a wrapper around an event. A function's own line may have a `message`, but no log around it."""
    if document.keys() & {"events", "results", "logEvents"}:
        return True
    if "@message" in document or ("message" in document and document.keys() & {"timestamp", "ingestionTime"}):
        text = document.get("@message") or document.get("message")
        if isinstance(text, dict):
            return "@message" in document
        return isinstance(text, str) and text.lstrip().startswith(("{", "START ", "INIT_START", "REPORT "))
    return document.keys() <= {"notice", "log", "response", "report", "serving"} and bool(document)


def parsed(text: str) -> Any:
    try:
        return loads(text, lenient=True)
    except ValueError:
        return None
