"""Logs as people have them on disk, taken apart into log events: one text each, whatever stands around them.

Raw lines; lines behind what `sam logs`, `aws logs tail`, an export to S3 or `truemem local run` put before them, on
one line or with the JSON spread over many; CSV and JSON of the console; answers of the `aws` command. Also gzipped.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Literal, cast

from ..local.errors import BadInput

Kind = Literal["lines", "spread", "csv", "json", "wrapped"]
"""`lines`: an event each. `spread`: JSON over many lines. `csv`, `json`: one document. `wrapped`: JSON objects, one a
line, with the event's text inside."""

HEAD = 1 << 20
"""Bytes from which a file's kind is told."""
GZIP_MAGIC = b"\x1f\x8b"
TEXT_KEYS = ("@message", "message", "text")
CSV_COLUMNS = ("@message", "message")
_OPENS = re.compile(r"\{\s*$", re.MULTILINE)


def on_disk(file: Path, folder: Path) -> Path:
    """The file; or for `-` standard input, as one in `folder`: it may be more than memory holds, and its kind is told
    before it is read."""
    if str(file) != "-":
        return file
    path = folder / "standard-input"
    with path.open("wb") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
    return path


def gzipped(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == GZIP_MAGIC


def kind_of(path: Path) -> Kind:
    """How its events are to be found. Raises BadInput if it cannot be read."""
    try:
        with _opened(path) as file:
            head = file.read(HEAD).lstrip("\ufeff \r\n\t")
    except (OSError, EOFError) as error:
        raise BadInput(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    first = head.partition("\n")[0].strip()
    if any(cell in CSV_COLUMNS for cell in next(csv.reader([first.replace("\0", "")]), [])):
        return "csv"
    document = _parsed(first)
    if isinstance(document, dict):
        if is_line(document) or not _has_text(document):
            return "spread" if _OPENS.search(head) else "lines"
        return "wrapped" if "\n" in head.strip() else "json"
    if isinstance(document, list) or first == "[" or (first == "{" and _whole(path)):
        return "json"
    return "spread" if _OPENS.search(head) else "lines"


def events(path: Path) -> Iterator[str]:
    """The texts of its log events, in the file's order. Raises BadInput if it cannot be read."""
    kind = kind_of(path)
    try:
        with _opened(path) as file:
            match kind:
                case "lines":
                    yield from (line.rstrip("\r\n") for line in file)
                case "spread":
                    yield from joined(file)
                case "csv":
                    yield from _csv_events(file)
                case "json":
                    yield from _texts(json.load(file))
                case "wrapped":
                    for line in file:
                        yield from _texts(_parsed(line))
    except (OSError, EOFError, ValueError, csv.Error) as error:
        raise BadInput(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def joined(lines: Iterable[str]) -> Iterator[str]:
    """JSON objects that were spread over many lines on one again; all other lines as they are."""
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
    """Is this JSON object one of the sidecar's lines? `schema` and `environmentId` are on every one of them."""
    schema = document.get("schema")
    return isinstance(schema, int) and not isinstance(schema, bool) and isinstance(document.get("environmentId"), str)


def parsed_event(event: str) -> dict[str, Any] | None:
    """The JSON object in an event, behind whatever stands before it."""
    document = _parsed(event[event.find("{") :]) if "{" in event else None
    return document if isinstance(document, dict) else None


def _opened(path: Path) -> IO[str]:
    if gzipped(path):
        return cast("IO[str]", gzip.open(path, "rt", encoding="utf-8-sig", errors="replace", newline=""))
    return path.open(encoding="utf-8-sig", errors="replace", newline="")


def _csv_events(file: Iterable[str]) -> Iterator[str]:
    csv.field_size_limit(1 << 24)
    reader = csv.DictReader(line.replace("\0", "") for line in file)
    column = next(name for name in CSV_COLUMNS if name in (reader.fieldnames or ()))
    for row in reader:
        yield " ".join((row[column] or "").splitlines())


def _texts(document: Any) -> Iterator[str]:
    """Every event's text in a JSON document: `{"message": …}`, `{"field": "@message", "value": …}`, at any depth."""
    if isinstance(document, list):
        for each in document:
            yield from _texts(each)
    elif isinstance(document, dict):
        if is_line(document):
            yield json.dumps(document, separators=(",", ":"), ensure_ascii=False)
        elif document.get("field") == "@message":
            yield str(document.get("value"))
        else:
            for key, value in document.items():
                if isinstance(value, list | dict):
                    yield from _texts(value)
                elif key in TEXT_KEYS and isinstance(value, str):
                    yield " ".join(value.splitlines())


def _has_text(document: dict[str, Any]) -> bool:
    """Is it a wrapper? A function's own structured line has a `message` too, but not a log's structure around it."""
    if document.keys() & {"events", "results", "logEvents"}:
        return True
    if "@message" in document or ("message" in document and document.keys() & {"timestamp", "ingestionTime"}):
        text = document.get("@message") or document.get("message")
        return isinstance(text, str) and text.lstrip().startswith(("{", "START ", "INIT_START", "REPORT "))
    return document.keys() <= {"notice", "log", "response", "report", "serving"} and bool(document)


def _whole(path: Path) -> bool:
    """Is the file, which begins with `{` on a line of its own, one JSON document, and not one after the other?"""
    try:
        with _opened(path) as file:
            document = json.load(file)
    except ValueError:
        return False
    return isinstance(document, dict)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
