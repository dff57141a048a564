"""Reads what Lambda itself writes into a function's log: REPORT, and the lines that say how an invocation ended. Pure.

The text format, and the JSON format (`platform.report` and others), in any wrapper. Only what has a request id is read.
Which environment a line is of is known where its log stream is: before the line, beside it in JSON, or as a folder.

    REPORT RequestId: ID\tDuration: 12.3 ms\tBilled Duration: 13 ms\tMemory Size: 512 MB\tMax Memory Used: 101 MB\t
    Init Duration: 250.1 ms\tStatus: error\tError Type: Runtime.OutOfMemory

(AWS: monitoring-cloudwatchlogs, telemetry-schema-reference. The error type as public logs have it.)
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import IntEnum
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ..support.untrusted_text import loads
from .columns import hash_of
from .line import Line
from .opened import opened
from .wrapped import Event, documents_in, stands_for


class Ended(IntEnum):
    """How an invocation ended."""

    WELL = 0
    FAILED = 1
    EXITED = 2
    """From here on the runtime begins anew in the same environment."""
    TIMEOUT = 3
    KILLED = 4
    """By a signal: who sent it is not said."""
    OUT_OF_MEMORY = 5


class Place(NamedTuple):
    """Where a line was found."""

    function: str
    """That of its log group; empty if that is not known."""
    stream: str
    """Its log stream: one environment. Empty if that is not known."""
    file: str = ""
    """The file, where nothing says whose it is."""


COLUMNS: dict[str, type[np.generic]] = {
    **dict.fromkeys(("place", "request"), np.uint64),
    **dict.fromkeys(("time_ms",), np.float64),
    **dict.fromkeys(("duration_ms", "billed_ms", "init_ms"), np.float32),
    **dict.fromkeys(("size_mb", "mark_mb"), np.int32),
    "ended": np.int8,
}
"""What a REPORT says. NaN: it does not say it; `init_ms` is the first invocation's."""


@dataclass(frozen=True)
class Reports:
    """REPORT lines as columns of equal length, in the order in which they were read."""

    columns: Mapping[str, NDArray[Any]]
    places: Mapping[int, Place]
    """By what stands in the column `place`."""
    killed: Mapping[int, Ended]
    """How requests ended, by what stands in the column `request`, where another line than REPORT says it."""

    def __len__(self) -> int:
        return len(self.columns["place"])

    def chosen(self, rows: NDArray[np.bool_]) -> Reports:
        """Some of them."""
        return replace(self, columns={name: column[rows] for name, column in self.columns.items()})

    @classmethod
    def joined(cls, parts: list[Self]) -> Self:
        """All of them in this order."""
        places = {key: place for part in parts for key, place in part.places.items()}
        killed = {key: how for part in parts for key, how in part.killed.items()}
        return cls(_joined([part.columns for part in parts]), places, killed)


_STREAM = re.compile(r"\d{4}[/-]\d\d[/-]\d\d[/-]([\w-]*)\[(\$LATEST|\d+)\][0-9a-f]{32}")
"""The name of a log stream, with $LATEST or a version; in a log group that several functions share with the function's
before. With hyphens as the folder of an export to S3."""
_GROUP = re.compile(r"/aws/lambda/([\w.-]+)")
_TIME = re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?")
_REPORT = re.compile(
    r"REPORT RequestId: ([\w-]{1,64})\s+Duration: (\d{1,12}(?:\.\d+)?) ms\s+Billed Duration: (\d{1,12}(?:\.\d+)?) ms\s+"
    r"Memory Size: ([1-9]\d{0,8}) MB\s+Max Memory Used: (\d{1,9}) MB([^\n]*)"
)
_REPORT_LINES = re.compile(rb"^([^\n]*?)" + _REPORT.pattern.encode(), re.MULTILINE)
_WORDS = ("REPORT RequestId: ", "platform.r", "Runtime exited", "Task timed out")
_BYTES = tuple(word.encode() for word in _WORDS)
_ANY = re.compile(b"|".join(map(re.escape, _BYTES)))
"""Takes as long as all else for a block that has none of them: that is asked of each word before."""
_INIT = re.compile(rb"(?:Init|Restore) Duration: (\d{1,12}(?:\.\d+)?) ms")
_OUT_OF_MEMORY, _EXITED, _STATUS = "Runtime.OutOfMemory", "Runtime.ExitError", b"Status: "
_ENDS = re.compile(
    r"RequestId: ([\w-]+) Error: Runtime exited (?:with error: (signal: killed))?|([\w-]{36}) Task timed out after"
)
_NAMED = re.compile(rb'FunctionName[\\"]+:\s*[\\"]+([\w-]+)')
"""A line of the sidecar names its function, also where it is quoted."""
NAMELESS = ("standard-input", "cloudwatch.log", "pipe-0")
"""Files of our own making."""
_STREAM_NAMES = ("logStreamName", "logStream", "@logStream", "log_stream", "stream_name", "LogStreamName")
_GROUP_NAMES = ("logGroupName", "logGroup", "@log", "log_group", "logGroupIdentifier")
_TIME_NAMES = ("timestamp", "@timestamp", "time", "eventTimestamp", "ts")
_STATUSES = {"success": Ended.WELL, "timeout": Ended.TIMEOUT}
_ERRORS = {_OUT_OF_MEMORY: Ended.OUT_OF_MEMORY, _EXITED: Ended.EXITED}
_FIGURES = ("duration_ms", "billed_ms", "size_mb", "mark_mb")
_INIT_MS = "initDurationMs"
TOGETHER = 4096
MOST_TEXTS = 100_000
MILLISECONDS = len("2026-11-21T10:00:00.000")
DATE = len("2026/11/21/")
MOST_MB = 1e9
MIXED = np.uint64(0x9E3779B97F4A7C15)
LEAST_MS, SECONDS_BELOW = 1e12, 1e11
"""Epoch ms begin about there; a smaller number is in seconds."""


def _may_have(text: str) -> bool:
    """False if a text certainly has nothing that is read here."""
    return any(word in text for word in _WORDS)


class PlatformLines:
    """Collects the REPORT lines of log files."""

    def __init__(self, function: str | None = None) -> None:
        """`function`: whose they are, where the log does not say it."""
        self._function = function
        self._file = Place("", "")
        self._is_nameless = False
        self._measured: set[str] = set()
        """Functions of which the file has lines of the sidecar."""
        self._named: dict[str, str] = {}
        """Whose a file is that nothing else names: of the function that is asked for, unless the file has lines of the
        sidecar, and of others alone."""
        self._keys: dict[Place, int] = {}
        self._texts: dict[bytes, Place] = {}
        """Where a line is from that has this text before it, but for the time."""
        self._killed: dict[int, Ended] = {}
        self._waiting: list[tuple[Any, ...]] = []
        """Lines that are not columns yet: place, time, request, duration, billed, size, mark, and what follows."""
        self._done: list[dict[str, NDArray[Any]]] = []

    def begin_file(self, name: str) -> None:
        """What is read next is of this file, or log group."""
        self._end_file()
        self._file = place_of(name, name)
        self._is_nameless = not self._file.function
        if self._file.stream or Path(name).name in NAMELESS:
            self._file = self._file._replace(file="")
        self._texts = {}

    def _end_file(self) -> None:
        if self._is_nameless and (self._measured or self._function):
            is_asked_for = self._function and (not self._measured or self._function in self._measured)
            name = self._function if is_asked_for else min(self._measured)
            self._named[self._file.file or self._file.stream] = name or ""
        self._measured = set()

    def measured(self, lines: Sequence[Line]) -> None:
        """Note whose these lines of the sidecar are: nothing else in them is read here."""
        if self._is_nameless:
            self._measured.update(filter(None, {*map(attrgetter("function"), lines)}))

    def read_block(self, block: bytes) -> None:
        """Read whole lines, as they stand in a file."""
        if self._is_nameless:
            self._measured.update(name.decode(errors="replace") for name in _NAMED.findall(block))
        if not any(word in block for word in _BYTES):
            return
        self._flush()
        if _is_after_json(block):
            for line in block.split(b"\n"):
                if _ANY.search(line):
                    (self._read_json if b'"' in line else self._read_text)(line)
        else:
            self._read_text(block)

    def _read_text(self, block: bytes) -> None:
        if found := _REPORT_LINES.findall(block):
            told = [self._before(each[0]) for each in found]
            times = _all_epoch_ms([time for _, time in told])
            self._waiting += [
                (place, time, *each[1:]) for (place, _), time, each in zip(told, times, found, strict=True)
            ]
            if len(self._waiting) >= TOGETHER:
                self._flush()
        if b"Runtime exited" in block or b"Task timed" in block:
            self._ends(block.decode(errors="replace"))

    def _read_json(self, line: bytes) -> None:
        """JSON documents, one after the other, after what may stand before them."""
        for text, place, time_ms in self._inside(line.decode(errors="replace"), self._file, math.nan):
            self._text(text, place, time_ms)

    def read_event(self, event: Event) -> None:
        """Read what is inside an event, however it is wrapped."""
        for text, place, time_ms in self._inside(event, self._file, math.nan):
            if self._is_nameless:
                self._measured.update(
                    name.decode(errors="replace") for name in _NAMED.findall(text.encode(errors="replace"))
                )
            self._text(text, place, time_ms)
        if len(self._waiting) >= TOGETHER:
            self._flush()

    def taken(self) -> Reports:
        """All that was read."""
        self._end_file()
        self._flush()
        places = {key: place._replace(function=self._function_of(place)) for place, key in self._keys.items()}
        return Reports(_joined(self._done), places, self._killed)

    def _function_of(self, place: Place) -> str:
        if place.function or place.file:
            return place.function or self._named.get(place.file, "")
        return self._named.get(place.stream) or self._named.get("", "")

    def _before(self, text: bytes) -> tuple[Place, bytes]:
        """What stands before a line says where it is from, and when it was written."""
        time = _TIME.search(text)
        if time is None:
            return self._place_in(text), b""
        return self._place_in(text[: time.start()] + text[time.end() :]), time[0]

    def _place_in(self, text: bytes) -> Place:
        place = self._texts.get(text)
        if place is None:
            said = text.decode(errors="replace")
            place = _both(place_of(said, said)._replace(file=""), self._file)
            if len(self._texts) < MOST_TEXTS:
                self._texts[text] = place
        return place

    def _text(self, text: str, place: Place, time_ms: float) -> None:
        if not _may_have(text):
            return
        for before, *found in _REPORT_LINES.findall(text.encode(errors="replace")):
            own, time = self._before(before)
            self._waiting.append((_both(place, own), _epoch_ms(time) if math.isnan(time_ms) else time_ms, *found))
        self._ends(text)
        if "platform.r" in text:
            try:
                document = loads(text[text.find("{") :])
            except ValueError:
                return
            for each in document if isinstance(document, list) else [document]:
                if isinstance(each, dict):
                    self._document(each, place, time_ms)

    def _document(self, document: Mapping[str, Any], place: Place, time_ms: float) -> None:
        """An object of the Telemetry API or of Lambda's JSON log format."""
        record = document.get("record")
        if not isinstance(record, dict) or not isinstance(record.get("requestId"), str):
            return
        status, error = str(record.get("status", "success")), str(record.get("errorType", ""))
        how = _ERRORS.get(error) or _STATUSES.get(status, Ended.FAILED)
        if document.get("type") == "platform.runtimeDone":
            if how is Ended.OUT_OF_MEMORY:
                self._killed[_key_of(record["requestId"])] = how
            return
        metrics = record.get("metrics")
        if document.get("type") != "platform.report" or not isinstance(metrics, dict):
            return
        size, mark = (_number(metrics.get(name)) for name in ("memorySizeMB", "maxMemoryUsedMB"))
        if not (1 <= size < MOST_MB and 0 <= mark < MOST_MB):
            return
        if math.isnan(time_ms) and isinstance(time := document.get("time"), str):
            time_ms = _epoch_ms(time.encode(errors="replace"))
        duration, billed, init = (_number(metrics.get(name)) for name in ("durationMs", "billedDurationMs", _INIT_MS))
        if math.isnan(init):
            init = _number(metrics.get("restoreDurationMs"))
        row = str(duration).encode(), str(billed).encode(), b"%d" % size, b"%d" % mark
        self._waiting.append((place, time_ms, record["requestId"].encode(errors="replace"), *row, (init, how)))

    def _ends(self, text: str) -> None:
        for found in _ENDS.finditer(text):
            how = Ended.TIMEOUT if found[3] else Ended.KILLED if found[2] else Ended.EXITED
            key = _key_of(found[1] or found[3])
            self._killed[key] = max(how, self._killed.get(key, how))

    def _flush(self) -> None:
        """What waits becomes columns."""
        if not self._waiting:
            return
        places, times, requests, durations, billed, sizes, marks, rest = zip(*self._waiting, strict=True)
        self._waiting = []
        ends = [_of_rest(each) if isinstance(each, bytes) else each for each in rest]
        self._done.append(
            {
                "place": np.array([self._key(place) for place in places], np.uint64),
                "request": _keys_of(requests),
                "time_ms": np.array(times),
                **{
                    name: np.array(column).astype(COLUMNS[name])
                    for name, column in zip(_FIGURES, (durations, billed, sizes, marks), strict=True)
                },
                "init_ms": np.array([init for init, _ in ends], np.float32),
                "ended": np.array([how for _, how in ends], np.int8),
            }
        )

    def _key(self, place: Place) -> int:
        key = self._keys.get(place)
        if key is None:
            key = self._keys[place] = hash_of("\0".join(place))
        return key

    def _inside(self, event: Event, place: Place, time_ms: float) -> Iterator[tuple[str, Place, float]]:
        """The texts and the platform's objects in an event, each with where and when it was written as far as what is
        around it says so."""
        ahead: list[tuple[Any, Place, float]] = [(event, place, time_ms)]
        while ahead:
            value, place, time_ms = ahead.pop()
            if isinstance(value, str):
                if not _may_have(value := opened(value)):
                    if self._is_nameless:
                        yield value, place, time_ms
                else:
                    rest, parts, done = "", [], 0
                    for begin, end, document in documents_in(value):
                        own, time = self._before(value[done:begin].encode(errors="replace"))
                        parts.append((document, _both(place, own), _epoch_ms(time) if math.isnan(time_ms) else time_ms))
                        rest, done = f"{rest}{value[done:begin]} ", end
                    if '""' in (rest := rest + value[done:]):  # of a table, in which each quote is two
                        parts.append((rest.replace('""', '"'), place, time_ms))
                    elif _may_have(rest):
                        yield rest, place, time_ms
                    ahead += reversed(parts)
            elif isinstance(value, list):
                meant = stands_for(value)
                ahead += [(each, place, time_ms) for each in (reversed(value) if meant is value else [meant])]
            elif isinstance(value, dict):
                if isinstance(name := value.get("FunctionName"), str):
                    self._measured.add(name)
                place, time_ms = self._said_by(value, place, time_ms)
                if str(value.get("type")).startswith("platform."):
                    self._document(value, place, time_ms)
                else:
                    ahead += [(each, place, time_ms) for each in reversed(value.values())]

    def _said_by(self, document: Mapping[str, Any], place: Place, time_ms: float) -> tuple[Place, float]:
        streams, groups = (
            " ".join(said for name in names if isinstance(said := document.get(name), str))
            for names in (_STREAM_NAMES, _GROUP_NAMES)
        )
        if streams or groups:
            place = _both(place_of(groups, streams)._replace(file=""), place)
        for name in _TIME_NAMES:
            said = document.get(name)
            if isinstance(said, str) and (time := _TIME.search(said.encode(errors="replace"))):
                return place, _epoch_ms(time[0])
            if not math.isnan(number := _number(said)) and number > SECONDS_BELOW / 100:
                return place, number if number >= LEAST_MS / 10 else number * 1000
        return place, time_ms


def _is_after_json(block: bytes) -> bool:
    """True if a quotation mark is before one of the words, in its line: JSON. Looks at each byte once."""
    looked = 0
    for found in _ANY.finditer(block):
        line = block.rfind(b"\n", looked, found.start()) + 1
        if b'"' in block[max(looked, line) : found.start()]:
            return True
        looked = found.start()
    return False


def place_of(group: str, stream: str) -> Place:
    """Where a line is from whose log group and stream are named in these texts; else `group` is its file."""
    found, named = _STREAM.search(stream), _GROUP.search(group)
    function = (found and found[1]) or (named[1] if named else "")
    name = found[0][:DATE].replace("-", "/") + found[0][DATE:] if found else ""
    return Place(function, name, "" if function else group)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e15 else math.nan


def _both(first: Place, second: Place) -> Place:
    """What the first says, and else the second."""
    function = first.function or second.function
    return Place(function, first.stream or second.stream, "" if function else first.file or second.file)


def _of_rest(rest: bytes) -> tuple[float, Ended]:
    """The init phase in ms, and how the invocation ended, from what follows the mark."""
    if len(rest) < len(_STATUS):
        return math.nan, Ended.WELL
    init = _INIT.search(rest)
    how = Ended.WELL
    if _OUT_OF_MEMORY.encode() in rest:
        how = Ended.OUT_OF_MEMORY
    elif _EXITED.encode() in rest:
        how = Ended.EXITED
    elif _STATUS in rest:
        status = rest.partition(_STATUS)[2].split()
        how = _STATUSES.get(status[0].decode(errors="replace") if status else "", Ended.FAILED)
    return float(init[1]) if init else math.nan, how


def _epoch_ms(text: bytes) -> float:
    try:
        time = datetime.fromisoformat(text.decode().replace(" ", "T", 1))
    except ValueError:
        return math.nan
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000


def _all_epoch_ms(texts: Sequence[bytes]) -> NDArray[np.float64]:
    """The same of many, of which nearly all are in UTC and have a time."""
    if all(text.endswith((b"Z", b"+00:00")) for text in texts):
        plain = [text.removesuffix(b"Z").removesuffix(b"+00:00")[:MILLISECONDS].decode() for text in texts]
        with suppress(ValueError):
            return np.array(plain, "datetime64[ms]").astype(float)
    return np.array([_epoch_ms(text) if text else math.nan for text in texts])


def _keys_of(requests: Sequence[bytes]) -> NDArray[np.uint64]:
    """A number for each request id, the same on all machines."""
    words = np.array(requests, "S64").view("<u8").reshape(len(requests), -1)
    keys = np.zeros(len(requests), np.uint64)
    for column in words.T:
        keys = (keys ^ column) * MIXED
        keys ^= keys >> np.uint64(29)
    return keys


def _key_of(request: str) -> int:
    return int(_keys_of([request.encode(errors="replace")])[0])


def _joined(parts: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    return {name: np.concatenate([np.empty(0, kind), *(p[name] for p in parts)]) for name, kind in COLUMNS.items()}
