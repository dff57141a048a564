"""Reads log files of many forms, and splits them into log events.

The one place that knows what kind a file is. `wrapped.inside` finds the sidecar's lines in the events, however they are
wrapped. Every kind may be gzipped, or in UTF-16, as PowerShell's `>` writes it.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Literal, NamedTuple, cast

from ..support.bad_input import BadInput
from ..support.untrusted_text import first_document
from .discovered import spelled_out
from .opened import opened
from .wrapped import MOST_TRIES, NAMES, OBJECT, Event, compact, like_line, may_be_line

CSV_COLUMNS = ("@message", "message", "line", "content", "_raw", "log", "text")
"""Columns with the text of an event, in lower case: of the console, of Datadog (Message), of Athena's table, others."""
_STREAM = re.compile(r"\d{4}/\d\d/\d\d/[\w-]*\[[\w$]+\][0-9a-f]+")
"""The name of a log stream of Lambda."""
DELIMITERS = ",;\t"
"""What stands between cells. Excel writes that of its country, and a tab where one copies."""
LONGEST = 4 << 20
"""Longest line that is read as one. CloudWatch's longest event is 1 MiB. A longer one has several JSON objects."""
LARGEST = 64 << 20
"""Most characters of one JSON document that is read whole. A larger one is taken apart into the objects in it."""
MOST_JOINED = 100_000
"""Most lines of one JSON object that are joined."""
SUMMARY = "this is the summary of a local run, without the sidecar's lines"
"""What the output of `truemem local run` is, if it was not asked for lines."""
WITH_LINES = "truemem local run --raw ... > my.log"
"""What prints the lines in its place."""
_ANSWER = re.compile(r" (?:response|  failed) \| ")
_START = re.compile(r' platform \| (?:START |.*"platform\.start")')
"""How `truemem local run` prints an answer; and, with --raw alone, that an invocation begins."""
_CHUNK = 1 << 17
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


class Header(NamedTuple):
    """The first line of a table that has events."""

    delimiter: str
    names: list[str]
    place: int | None
    """Number of the column that has the events' text. None: each member of the line has a column."""


def header_of(first: str) -> Header | None:
    """Read the first line of a file as that of a table of events. None if it is none."""
    for delimiter in DELIMITERS:
        try:
            names = [name.strip() for name in next(csv.reader([first.replace("\0", "")], delimiter=delimiter), [])]
        except csv.Error:
            continue
        lower = [name.lower() for name in names]
        place = next((lower.index(name) for name in CSV_COLUMNS if name in lower), None)
        if set(NAMES) <= set(names) and CSV_COLUMNS[0] not in lower:
            return Header(delimiter, names, None)
        if place is not None:
            return Header(delimiter, names, place)
    return None


def _refuse_columns(path: Path, first: str) -> None:
    """Raise BadInput for Athena's answer that has columns in place of lines. They are not all that a line has, and
    Athena prints an object as `{a=1, b=x, y}`: without quotes its texts cannot be told apart again."""
    names = {name.strip(' "').lower().replace("_", "") for name in first.split(",")}
    if {name.lower() for name in NAMES} <= names:
        raise BadInput(
            f"{path} has Athena's columns, in which no line is whole. Try SELECT text FROM truemem_log WHERE text LIKE"
            " '%environmentId%', or the files in S3 themselves"
        )


def csv_events(file: Iterable[str]) -> Iterator[Event]:
    """The events of a table: the text of each row, with the log stream beside it; or the members of each line."""
    csv.field_size_limit(1 << 24)
    lines = itertools.dropwhile(lambda line: not line.strip("\ufeff \r\n\t"), file)
    header = header_of(next(lines, "").strip("\ufeff \r\n\t"))
    if header is None:
        raise csv.Error(f"it has no column {' or '.join(CSV_COLUMNS[:2])}")
    place = header.place
    for row in csv.reader((line.replace("\0", "") for line in lines), delimiter=header.delimiter):
        if place is None:
            of_cut = dict.fromkeys(NAMES) if 0 < len(row) < len(header.names) else {}
            yield of_cut | {name: cell for name, cell in zip(header.names, row, strict=False) if cell}
        elif place >= len(row):  # a table inside a cell, or a line of something else
            yield header.delimiter.join(row)
        else:
            text = " ".join(row[place].splitlines())
            stream = next(filter(None, map(_STREAM.search, row[:place] + row[place + 1 :])), None)
            yield {"@logStream": stream[0], "@message": text} if stream else text


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
        wanted, failed, is_cut = 0, place, False
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
                elif ended:
                    is_cut = text.find("\n{", place, place + LONGEST) < 0
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
        elif is_cut:
            end = min(len(text), place + LONGEST)
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


Kind = Literal["lines", "wrapped", "spread", "csv", "json"]
"""`lines`: one event per line. `wrapped`: the same, with the event inside other JSON. `spread`: JSON over many lines,
after a prefix. `csv`: a table with a column of events. `json`: documents over many lines, or all on one line."""

HEAD = 1 << 20
"""Bytes that are read to recognise the form."""
GZIP_MAGIC = b"\x1f\x8b"
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
"""Byte order marks."""
_TEXT = 1 << 16
"""Characters that tell a text from other files."""
BINARY = 0.05
"""A file with this share of characters that no text has is not a log. A line may be damaged."""
EVERY = 1000
"""Events between two reports of progress."""
_OPENS = re.compile(r"\{\s*$", re.MULTILINE)
_LIST = re.compile(r"\[\s*(?:[\[\]{]|$)")
_NO_TEXT = re.compile("[\0-\x08\x0e-\x1a\x1c-\x1f\ufffd]")


def size_of(path: Path) -> int:
    """Size in bytes. Raises BadInput if it is not a file."""
    try:
        if path.is_dir():
            raise BadInput(f"{path} is a folder. Try {path}/*")
        return path.stat().st_size
    except FileNotFoundError:
        raise BadInput(f"there is no file {path}. For a function in AWS try its NAME alone") from None
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
        return unpacked(raw).read(2) not in (GZIP_MAGIC, *UTF_16)


def kind_of(path: Path) -> Kind:
    """Recognise the form of a file. Raises BadInput if it cannot be read."""
    try:
        with path.open("rb") as raw, _decoded(raw) as file:
            head = file.read(HEAD).lstrip("\ufeff \r\n\t")
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(_NO_TEXT.findall(head[:_TEXT])) > BINARY * len(head[:_TEXT]):
        raise BadInput(f"{path} is not a log, because it is not text. Try the log itself, or its .gz")
    first, newline, _ = head.partition("\n")
    first = first.strip()
    if header_of(first) is not None:
        return "csv"
    _refuse_columns(path, first)
    is_too_long = not newline and len(head) >= HEAD  # for one event: then it has many JSON objects
    if _LIST.match(head) or (first.startswith("{") and (first.endswith(("{", "[", ",", ":")) or is_too_long)):
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
    return begin is not None and not (
        like_line(document) and document == spelled_out(document) and not line[end:].strip()
    )


def is_summary(path: Path) -> bool:
    """True if the file is the SUMMARY of a local run. Raises BadInput."""
    answers = 0
    for text in (event for event in events(path) if isinstance(event, str)):
        if _START.match(text):
            return False
        answers += _ANSWER.match(text) is not None
    return answers > 0


def refuse_summaries(paths: Iterable[Path]) -> None:
    """Raise BadInput if one of the files, in which there is no line of the sidecar, is the SUMMARY of a local run."""
    if any(map(is_summary, paths)):
        raise BadInput(f"{SUMMARY}. Try {WITH_LINES}")


def events(path: Path, read: Callable[[int], None] = lambda _: None) -> Iterator[Event]:
    """Read a file's log events in order, still wrapped. `read` is called with the bytes read. Raises BadInput."""
    kind = kind_of(path)
    reported = 0
    try:
        with path.open("rb") as raw, _decoded(raw) as file:
            for number, event in enumerate(_events(kind, file)):
                if number % EVERY == 0 or not isinstance(event, str):  # a document may have thousands of events
                    read(raw.tell() - reported)
                    reported = raw.tell()
                yield opened(event) if isinstance(event, str) else event
            read(raw.tell() - reported)
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


def raw_lines(path: Path, read: Callable[[int], None] = lambda _: None) -> Iterator[bytes]:
    """The lines of a file that is `as_it_is`, many at a time. Of one that is longer than LONGEST, each document is a
    line. `read` is called with the bytes read. Raises BadInput."""
    rest, reported = b"", 0
    try:
        with path.open("rb") as raw:
            file = _plain(raw)
            while data := file.read(_CHUNK):
                data = rest + data
                end = data.rfind(b"\n") + 1
                rest = data[end:]
                yield data[:end]
                if len(rest) > LONGEST:
                    for event in documents(_to_the_line_end(file, rest), rest.decode(errors="replace")):
                        yield (event if isinstance(event, str) else compact(event)).encode(errors="replace")
                    rest = b""
                read(raw.tell() - reported)
                reported = raw.tell()
            yield rest
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


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
    return unpacked(unpacked(raw))


def unpacked(raw: IO[bytes]) -> IO[bytes]:
    """The file from its beginning, unpacked once if it is gzipped."""
    packed = raw.read(2) == GZIP_MAGIC
    raw.seek(0)
    return cast("IO[bytes]", gzip.GzipFile(fileobj=raw, mode="rb")) if packed else raw


def _decoded(raw: IO[bytes]) -> IO[str]:
    encoding = "utf-16" if _plain(raw).read(2) in UTF_16 else "utf-8-sig"
    raw.seek(0)
    return io.TextIOWrapper(_plain(raw), encoding=encoding, errors="replace", newline="")
