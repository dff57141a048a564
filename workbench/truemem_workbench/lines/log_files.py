"""Reads log files of many forms, and splits them into log events.

The forms are: raw lines; lines after a prefix of `sam logs`, `aws logs tail`, an export to S3 or `truemem local run`,
with the JSON on one line or on many; CSV and JSON of the console; answers of the `aws` command. All of them also
gzipped, and in UTF-16, as PowerShell's `>` writes it.
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
from ..support.untrusted_text import chunks, loads
from .log_events import CSV_COLUMNS, csv_events, has_text, is_line, joined, parsed, texts

Kind = Literal["lines", "spread", "csv", "json", "wrapped"]
"""`lines`: one event per line. `spread`: JSON over many lines. `csv`, `json`: one document. `wrapped`: one JSON object
per line, with the event's text inside."""

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
    """True if the file has one event per line, in UTF-8."""
    if kind != "lines":
        return False
    with path.open("rb") as raw:
        return _plain(raw).read(2) not in UTF_16


def kind_of(path: Path) -> Kind:
    """Recognise the form of a file. Raises BadInput if it cannot be read."""
    try:
        with path.open("rb") as raw, _decoded(raw) as file:
            head = file.read(HEAD).lstrip("\ufeff \r\n\t")
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(_NO_TEXT.findall(head)) > BINARY * len(head):
        raise BadInput(f"{path} is not a log, because it is not text. Try the log itself, or its .gz")
    first = head.partition("\n")[0].strip()
    if _is_header(first):
        return "csv"
    document = parsed(first)
    if isinstance(document, dict):
        if is_line(document) or not has_text(document):
            return "spread" if _OPENS.search(head) else "lines"
        return "wrapped" if "\n" in head.strip() else "json"
    if isinstance(document, list) or first == "[" or (first == "{" and _whole(path)):
        return "json"
    return "spread" if _OPENS.search(head) else "lines"


def _is_header(first: str) -> bool:
    """True for the header of the console's CSV."""
    try:
        return any(cell in CSV_COLUMNS for cell in next(csv.reader([first.replace("\0", "")]), []))
    except csv.Error:
        return False


def events(path: Path, read: Callable[[int], None] = lambda _: None) -> Iterator[str]:
    """Read the texts of a file's log events, in order. `read` is called with the bytes read. Raises BadInput."""
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
            yield from csv_events(file)
        case "json":
            yield from texts(loads(file.read(), lenient=True))
        case "wrapped":
            for line in file:
                yield from texts(parsed(line))


def _plain(raw: IO[bytes]) -> IO[bytes]:
    """The file from its beginning, unpacked if it is gzipped."""
    packed = raw.read(2) == GZIP_MAGIC
    raw.seek(0)
    return cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if packed else raw


def _decoded(raw: IO[bytes]) -> IO[str]:
    encoding = "utf-16" if _plain(raw).read(2) in UTF_16 else "utf-8-sig"
    raw.seek(0)
    return io.TextIOWrapper(_plain(raw), encoding=encoding, errors="replace", newline="")


def _whole(path: Path) -> bool:
    """True if a file that begins with a lone `{` is one JSON document, and not several."""
    try:
        with path.open("rb") as raw, _decoded(raw) as file:
            document = loads(file.read())
    except ValueError:
        return False
    return isinstance(document, dict)
