"""Logs as people have them on disk, taken apart into log events: one text each, whatever stands around them.

Raw lines; lines behind what `sam logs`, `aws logs tail`, an export to S3 or `truemem local run` put before them, on
one line or with the JSON spread over many; CSV and JSON of the console; answers of the `aws` command. Also gzipped, and
in UTF-16, as PowerShell's `>` writes it.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import re
import shutil
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Literal, cast

from truemem_workbench.support.bad_input import BadInput
from truemem_workbench.support.untrusted_text import chunks, loads

Kind = Literal["lines", "spread", "csv", "json", "wrapped"]
"""`lines`: an event each. `spread`: JSON over many lines. `csv`, `json`: one document. `wrapped`: JSON objects, one a
line, with the event's text inside."""

HEAD = 1 << 20
"""Bytes from which a file's kind is told."""
GZIP_MAGIC = b"\x1f\x8b"
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
"""Byte order marks."""
BINARY = 0.05
"""Share of characters that no text has, from which a file is none. A line may be mangled."""
EVERY = 1000
"""Events after which it is told how far it has come."""
TEXT_KEYS = ("@message", "message", "text")
CSV_COLUMNS = ("@message", "message")
_OPENS = re.compile(r"\{\s*$", re.MULTILINE)
_NO_TEXT = re.compile("[\0-\x08\x0e-\x1a\x1c-\x1f\ufffd]")


def on_disk(file: Path, folder: Path) -> Path:
    """The file; or what comes through a pipe, or for `-` through standard input, as a file in `folder`: it may be
    more than memory holds, and its kind is told before it is read. Raises BadInput if a pipe cannot be read."""
    if str(file) == "-":
        path = folder / "standard-input"
        with path.open("wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
        return path
    if not _is_pipe(file):
        return file
    path = folder / f"pipe-{len(list(folder.iterdir()))}"
    try:
        with path.open("wb") as copy:
            copy.writelines(chunks(file))
    except OSError as error:
        raise BadInput(f"{file} cannot be read: {error.strerror}") from error
    return path


def _is_pipe(file: Path) -> bool:
    """What can be read only once."""
    try:
        return stat.S_ISFIFO(file.stat().st_mode)
    except OSError:
        return False  # told where it is opened


def size_of(path: Path) -> int:
    """Bytes. Raises BadInput if it is no file."""
    try:
        if path.is_dir():
            raise BadInput(f"{path} is a folder. Try {path}/*")
        return path.stat().st_size
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from error


def gzipped(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == GZIP_MAGIC


def as_it_is(path: Path, kind: Kind) -> bool:
    """Is it one event a line, in UTF-8?"""
    if kind != "lines":
        return False
    with path.open("rb") as raw:
        return _plain(raw).read(2) not in UTF_16


def kind_of(path: Path) -> Kind:
    """How its events are to be found. Raises BadInput if it cannot be read."""
    try:
        with path.open("rb") as raw, _decoded(raw) as file:
            head = file.read(HEAD).lstrip("\ufeff \r\n\t")
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(_NO_TEXT.findall(head)) > BINARY * len(head):
        raise BadInput(f"{path} is no log: it is no text. Try the log itself, or its .gz")
    first = head.partition("\n")[0].strip()
    if _is_header(first):
        return "csv"
    document = _parsed(first)
    if isinstance(document, dict):
        if is_line(document) or not _has_text(document):
            return "spread" if _OPENS.search(head) else "lines"
        return "wrapped" if "\n" in head.strip() else "json"
    if isinstance(document, list) or first == "[" or (first == "{" and _whole(path)):
        return "json"
    return "spread" if _OPENS.search(head) else "lines"


def _is_header(first: str) -> bool:
    """Of the console's CSV."""
    try:
        return any(cell in CSV_COLUMNS for cell in next(csv.reader([first.replace("\0", "")]), []))
    except csv.Error:
        return False


def events(path: Path, read: Callable[[int], None] = lambda _: None) -> Iterator[str]:
    """The texts of its log events, in the file's order. `read` hears of the bytes as they are read. Raises BadInput if
    it cannot be read."""
    kind = kind_of(path)
    told = 0
    try:
        with path.open("rb") as raw, _decoded(raw) as file:
            for number, event in enumerate(_events(kind, file)):
                if number % EVERY == 0:
                    read(raw.tell() - told)
                    told = raw.tell()
                yield event
            read(raw.tell() - told)
    except (OSError, EOFError, ValueError, zlib.error, csv.Error) as error:
        raise BadInput(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _events(kind: Kind, file: IO[str]) -> Iterator[str]:
    match kind:
        case "lines":
            yield from (line.rstrip("\r\n") for line in file)
        case "spread":
            yield from joined(file)
        case "csv":
            yield from _csv_events(file)
        case "json":
            yield from _texts(loads(file.read(), lenient=True))
        case "wrapped":
            for line in file:
                yield from _texts(_parsed(line))


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


def _plain(raw: IO[bytes]) -> IO[bytes]:
    """Unpacked, from its beginning."""
    packed = raw.read(2) == GZIP_MAGIC
    raw.seek(0)
    return cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if packed else raw


def _decoded(raw: IO[bytes]) -> IO[str]:
    encoding = "utf-16" if _plain(raw).read(2) in UTF_16 else "utf-8-sig"
    raw.seek(0)
    return io.TextIOWrapper(_plain(raw), encoding=encoding, errors="replace", newline="")


def _csv_events(file: Iterable[str]) -> Iterator[str]:
    csv.field_size_limit(1 << 24)
    lines = itertools.dropwhile(lambda line: not line.strip("\ufeff \r\n\t"), file)
    rows = csv.reader(line.replace("\0", "") for line in lines)
    names = next(rows, [])
    place = next((names.index(name) for name in CSV_COLUMNS if name in names), None)
    if place is None:
        raise csv.Error(f"it has no column {' or '.join(CSV_COLUMNS)}")
    for row in rows:
        yield " ".join(row[place].splitlines()) if place < len(row) else ""


def _texts(document: Any) -> Iterator[str]:
    """Every event's text in a JSON document: `{"message": …}`, `{"field": "@message", "value": …}`, at any depth."""
    if isinstance(document, list):
        for each in document:
            yield from _texts(each)
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
                    yield from _texts(value)


def _text(value: Any) -> str:
    """On one line. The console writes a message that is JSON as what it says, not as a string."""
    if isinstance(value, str):
        return " ".join(value.splitlines())
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _has_text(document: dict[str, Any]) -> bool:
    """Is it a wrapper? A function's own structured line has a `message` too, but not a log's structure around it."""
    if document.keys() & {"events", "results", "logEvents"}:
        return True
    if "@message" in document or ("message" in document and document.keys() & {"timestamp", "ingestionTime"}):
        text = document.get("@message") or document.get("message")
        if isinstance(text, dict):
            return "@message" in document
        return isinstance(text, str) and text.lstrip().startswith(("{", "START ", "INIT_START", "REPORT "))
    return document.keys() <= {"notice", "log", "response", "report", "serving"} and bool(document)


def _whole(path: Path) -> bool:
    """Is the file, which begins with `{` on a line of its own, one JSON document, and not one after the other?"""
    try:
        with path.open("rb") as raw, _decoded(raw) as file:
            document = loads(file.read())
    except ValueError:
        return False
    return isinstance(document, dict)


def _parsed(text: str) -> Any:
    try:
        return loads(text, lenient=True)
    except ValueError:
        return None
