"""Reads log files of many forms, and splits them into log events.

The one place that knows what kind a file is. `wrapped.inside` finds the sidecar's lines in the events, however they are
wrapped. Every kind may be gzipped, or in UTF-16, as PowerShell's `>` writes it.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import shutil
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Literal, cast

from ..support.bad_input import BadInput
from ..support.untrusted_text import chunks, first_document
from .log_events import LONGEST, column, csv_events, documents, joined, lines_of
from .unread import like_line, may_be_line
from .wrapped import OBJECT, Event

Kind = Literal["lines", "wrapped", "spread", "csv", "json"]
"""`lines`: one event per line. `wrapped`: the same, with the event inside other JSON. `spread`: JSON over many lines,
after a prefix. `csv`: a table with a column of events. `json`: documents over many lines, or all on one line."""

HEAD = 1 << 20
"""Bytes that are read to recognise the form."""
GZIP_MAGIC = b"\x1f\x8b"
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
"""Byte order marks."""
BINARY = 0.05
"""A file with this share of characters that no text has is not a log. A line may be damaged."""
EVERY = 1000
"""Events between two reports of progress."""
_OPENS = re.compile(r"\{\s*$", re.MULTILINE)
_LIST = re.compile(r"\[\s*(?:[\[\]{]|$)")
_NO_TEXT = re.compile("[\0-\x08\x0e-\x1a\x1c-\x1f\ufffd]")


def on_disk(file: Path, folder: Path) -> Path:
    """Return the file, or a copy in `folder` of a pipe or (for `-`) of standard input. Raises BadInput.

    A copy, because the input may be larger than memory, and its form must be known before it is read.
    """
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
    """True if the file can be read only once."""
    try:
        return stat.S_ISFIFO(file.stat().st_mode)
    except OSError:
        return False  # told where it is opened


def size_of(path: Path) -> int:
    """Size in bytes. Raises BadInput if it is not a file."""
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
    """True if the file has one event per line, in UTF-8, and is gzipped once at most."""
    if kind != "lines":
        return False
    with path.open("rb") as raw:
        return _unpacked(raw).read(2) not in (GZIP_MAGIC, *UTF_16)


def kind_of(path: Path) -> Kind:
    """Recognise the form of a file. Raises BadInput if it cannot be read."""
    try:
        with path.open("rb") as raw, _decoded(raw) as file:
            head = file.read(HEAD).lstrip("\ufeff \r\n\t")
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(_NO_TEXT.findall(head)) > BINARY * len(head):
        raise BadInput(f"{path} is not a log, because it is not text. Try the log itself, or its .gz")
    first, newline, _ = head.partition("\n")
    first = first.strip()
    if _is_header(first):
        return "csv"
    if _LIST.match(head) or (
        first.startswith("{") and (first.endswith(("{", "[", ",", ":")) or _endless(head, newline))
    ):
        return "json"
    if _OPENS.search(head):
        return "spread"
    return "wrapped" if _is_wrapped(head) else "lines"


def _is_wrapped(head: str) -> bool:
    """True if the first of the sidecar's lines is inside other JSON, or not alone on its line."""
    line = next(filter(may_be_line, head.splitlines()), "")
    begin = OBJECT.search(line)
    try:
        document, end = first_document(line, begin.start()) if begin else ({}, 0)
    except ValueError:
        return False  # one that is cut off
    return begin is not None and not (like_line(document) and not line[end:].strip())


def _endless(head: str, newline: str) -> bool:
    """True if the first line is too long for one event: then it has many JSON objects."""
    return not newline and len(head) >= HEAD


def _is_header(first: str) -> bool:
    """True for the first line of a CSV that has a column of events."""
    try:
        return column(next(csv.reader([first.replace("\0", "")]), [])) is not None
    except csv.Error:
        return False


def events(path: Path, read: Callable[[int], None] = lambda _: None) -> Iterator[Event]:
    """Read a file's log events in order, still wrapped. `read` is called with the bytes read. Raises BadInput."""
    kind = kind_of(path)
    told = 0
    try:
        with path.open("rb") as raw, _decoded(raw) as file:
            for number, event in enumerate(_events(kind, file)):
                if number % EVERY == 0 or not isinstance(event, str):  # a document may have thousands of events
                    read(raw.tell() - told)
                    told = raw.tell()
                yield event
            read(raw.tell() - told)
    except (OSError, EOFError, ValueError, zlib.error, csv.Error) as error:
        raise BadInput(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _events(kind: Kind, file: IO[str]) -> Iterator[Event]:
    match kind:
        case "lines" | "wrapped":
            return lines_of(file)
        case "spread":
            return joined(lines_of(file))
        case "csv":
            return csv_events(file)
        case "json":
            return documents(file.read)


def odd_lines(path: Path) -> Iterator[Event]:
    """The events of those lines alone that are longer than LONGEST bytes or not UTF-8: DuckDB leaves them out."""
    with path.open("rb") as raw:
        file = _plain(raw)
        while line := file.readline(LONGEST + 1):
            text = line.decode(errors="replace")
            if len(line) > LONGEST:
                yield from documents(_to_the_line_end(file, line), text)
            elif "\ufffd" in text:
                yield text.rstrip("\r\n")


def _to_the_line_end(file: IO[bytes], begin: bytes) -> Callable[[int], str]:
    """A function that reads on to the end of the line that has begun."""
    last = begin

    def read(size: int) -> str:
        nonlocal last
        last = b"" if last.endswith(b"\n") else file.readline(size)
        return last.decode(errors="replace")

    return read


def _plain(raw: IO[bytes]) -> IO[bytes]:
    """The file from its beginning, unpacked if it is gzipped. Firehose may gzip twice."""
    return _unpacked(_unpacked(raw))


def _unpacked(raw: IO[bytes]) -> IO[bytes]:
    packed = raw.read(2) == GZIP_MAGIC
    raw.seek(0)
    return cast("IO[bytes]", gzip.GzipFile(fileobj=raw, mode="rb")) if packed else raw


def _decoded(raw: IO[bytes]) -> IO[str]:
    encoding = "utf-16" if _plain(raw).read(2) in UTF_16 else "utf-8-sig"
    raw.seek(0)
    return io.TextIOWrapper(_plain(raw), encoding=encoding, errors="replace", newline="")
