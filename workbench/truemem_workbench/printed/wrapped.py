"""Finds the sidecar's lines in an event, whatever wrapped it: Docker, a forwarder, an export, or several of them. Pure.

A wrapper is JSON around a text, or around our line as an object. Its names do not matter: a line is known by its own
members (`like_line`). Several wrappers may be inside each other, and several objects may stand in one text.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from truemem.line_schema import SCHEMA

from ..support.untrusted_text import first_document
from .discovered import spelled_out
from .opened import may_open, opened, text_of

WORDS = {
    "cut_off": "cut off or damaged",
    "left_out": "left out by journalctl (try --all)",
    "newer_schema": "of a newer schema",
    "no_schema": "without a schema",
    "no_environment_id": "without an environment id",
}
"""The reasons, and how they are said after a number."""
NAMES = ("environmentId", "PeakRSS")
"""A line of the sidecar has one of these names in it, also when it is cut off or quoted in other JSON."""

_METRIC = re.compile(r'PeakRSS\\*"')
_MEMBER = re.compile(r'environmentId\\*"+\s*:')
_BESIDE = re.compile(r'(?:schema|FunctionName|functionVersion)\\*"+\s*:')
"""In JSON, or in JSON that is quoted: each quote has backslashes before it, in a table another quote."""

Unread = Counter[str]
"""Number of lines that were not read, by reason."""


@dataclass(frozen=True)
class Cut:
    """Part of a line of the sidecar: its other end is missing, or it is damaged; or a text that is left out."""

    text: str
    reason: str = "cut_off"


_LOCAL = re.compile(r' truemem \| \{|^\{"log": ?\{"source": ?"extension:truemem"')
"""How `truemem local run` prints a line of the sidecar, as text (after the environment's name if there are several) and
as JSON."""
_BEGIN = 100
"""Characters in which that stands."""


def is_local(event: Event) -> bool:
    """True if the local Lambda has printed this line of the sidecar (`truemem local run`, as text or as JSON): there
    /tmp is no disk of its own, and not measured (docs/resources.md)."""
    if isinstance(event, str):
        return _LOCAL.search(event[:_BEGIN]) is not None
    log = event.get("log") if isinstance(event, dict) else None
    return isinstance(log, dict) and log.get("source") == "extension:truemem"


def has_name(text: str) -> bool:
    """True if one of NAMES is in a text."""
    return NAMES[0] in text or NAMES[1] in text


def may_be_line(text: str) -> bool:
    """False if a text certainly has no line of the sidecar in it, also none that is to be `opened`."""
    return has_name(text) or may_open(text)


def is_cut(text: str) -> bool:
    """True if a text that is no JSON looks like a part of a line."""
    if not has_name(text):
        return False
    return bool(_METRIC.search(text) or (_MEMBER.search(text) and _BESIDE.search(text)))


def like_line(document: Mapping[str, Any]) -> bool:
    """True if this JSON object is a line of the sidecar, or would be with another schema or another member."""
    known = [name for name in NAMES if name in document]
    return len(known) == len(NAMES) or (bool(known) and _schema(document) is not None)


def reason(found: Mapping[str, Any] | Cut) -> str | None:
    """Why a part of a line, or an object that is `like_line`, is not read. None if it is read."""
    if isinstance(found, Cut):
        return found.reason
    schema = _schema(found)
    if schema is None or schema < 1:
        return "no_schema"
    if schema > SCHEMA:
        return "newer_schema"
    return None if isinstance(found.get("environmentId"), str) else "no_environment_id"


def _schema(document: Mapping[str, Any]) -> int | float | None:
    schema = document.get("schema")
    return schema if isinstance(schema, int | float) and not isinstance(schema, bool) else None


def not_read(unread: Mapping[str, int]) -> str:
    """Say what was not read: `not read: 12 lines cut off or damaged, 2 of a newer schema`. Empty if all was read."""
    parts = [f"{unread[name]:,} {{}}{text}" for name, text in WORDS.items() if unread.get(name)]
    if not parts:
        return ""
    first = "line " if parts[0].startswith("1 ") else "lines "
    return f"not read: {', '.join([parts[0].format(first), *(part.format('') for part in parts[1:])])}"


Event = str | dict[str, Any] | list[Any]
"""One event of a log: its text, or a JSON document that is parsed already."""
Found = dict[str, Any] | Cut | str
"""What is inside an event: a line of the sidecar, a part of one, or other text."""

TEXT_KEYS = {
    *("@message", "message", "msg", "text", "log", "record", "event", "line", "values", "_raw", "content", "body")
}
"""Names under which forwarders and exports keep the text of an event, in lower case. The sidecar's lines and those of
the platform are found under any name."""
_OF_PLATFORM = r"(?:START|END|REPORT|RESTORE_REPORT) RequestId: |INIT_(?:START|REPORT) "
_PLATFORM = re.compile(rf'\b(?:{_OF_PLATFORM})|"platform\.')
OBJECT = re.compile(r'\{\s*"')
"""Begin of a JSON object. Not that of Loki's labels: {job="x"}."""
_QUOTED = re.compile(rf'{OBJECT.pattern}|"(?:{_OF_PLATFORM})' + r'|"(?:[^"\\{]|\\.){0,80}\{\s*\\+"')
"""The same, or begin of a JSON string that has an object in it, as in msg="{\\"a\\": 1}", or the platform's text."""
TRIES = 20
"""After so many failures in one text, what was read once is not read again: a hostile text may be all braces."""
MOST_TRIES = 1000
"""After so many failures, the rest of a text is not read: each failure takes longer than the one before."""


def inside(event: Event) -> Iterator[Found]:
    """Unwrap an event: lines of the sidecar as objects, parts of them as Cut, all else as text.

    An object may be a line that cannot be read: see `reason`.
    """
    yield from _in_text(event) if isinstance(event, str) else _in_document(event)


def _in_text(text: str) -> Iterator[Found]:
    found: list[Found] = []
    rest: list[str] = []  # what no document covers
    done, whole = 0, True  # whole: no object before has no end
    for begin, end, document in documents_in(text):
        whole = whole and OBJECT.search(text, done, begin) is None
        inner = list(_wrapped(document))
        found += inner
        if inner or whole:  # else it is part of an object that is cut off
            rest.append(text[done:begin])
            done = end
    cut = "".join((*rest, text[done:]))
    is_table = '""' in cut and (is_cut(cut) or '"platform.' in cut)  # whose header is not known
    if is_table or is_cut(cut):
        yield from found
        if is_table:
            yield from _in_text(cut.replace('""', '"'))
        else:
            yield Cut(cut)
    elif found:
        yield from found
    else:
        yield text


def documents_in(text: str) -> Iterator[tuple[int, int, Any]]:
    """The JSON objects and quoted objects in a text, with begin and end, also those in an object that is cut off."""
    place = failures = 0
    while failures < MOST_TRIES and (found := _QUOTED.search(text, place)):
        begin = found.start()
        try:
            document, place = first_document(text, begin)
        except ValueError as error:
            failures += 1
            reached = getattr(error, "pos", len(text)) - len('{"') if failures > TRIES else 0
            place = max(begin + 1, reached)
            continue
        yield begin, place, document


def _in_document(document: dict[str, Any] | list[Any]) -> Iterator[Found]:
    found = False
    for each in _wrapped(document):
        found = True
        yield each
    if not found:
        yield compact(document)


def _wrapped(document: Any) -> Iterator[Found]:
    """What is inside a document, in its order. Nothing for a document that wraps nothing."""
    ahead: list[tuple[str, Any]] = [("", document)]
    while ahead:
        key, value = ahead.pop()
        if isinstance(value, list):
            value = stands_for(value)
        if isinstance(value, list):
            ahead += [(key, each) for each in reversed(value)]
        elif isinstance(value, str):
            if key.lower() in TEXT_KEYS or may_be_line(value) or _PLATFORM.search(value):
                yield from _in_text(opened(value))
        elif isinstance(value, dict):
            is_platform = str(value.get("type")).startswith("platform.")
            if is_platform or NAMES[0] in value:
                value = spelled_out(value)
            if value.get("@message"):  # with the members that Logs Insights has found in it
                value = {"@message": value["@message"]}
            if like_line(value):
                yield value
                continue
            if value.get("MESSAGE", "") is None and "__CURSOR" in value:  # longer than journalctl prints
                yield Cut(compact(value), "left_out")
            if is_platform:
                yield compact(value)
            elif value.keys() == _CELL:  # of a row that is cut off, or in a file too large to be read whole
                ahead.append((str(value["field"]), value["value"]))
                if value["field"] == NAMES[0]:
                    yield Cut(compact(value))
            else:
                ahead += reversed(value.items())


_CELL = {"field", "value"}
"""Names in a cell of get-query-results."""


def stands_for(values: list[Any]) -> Any:
    """What a list stands for: a text in bytes, or a row of get-query-results. Other lists stay as they are."""
    if values and all(isinstance(each, dict) and each.keys() >= _CELL for each in values):
        return {str(each["field"]): each["value"] for each in values}
    return values if (text := text_of(values)) is None else text


def around(event: Event) -> Iterator[str]:
    """All JSON that is not the sidecar's, in an event and in what it wraps, each on one line: for --by.

    A text that has JSON comes whole, because its request id may stand before. Objects come without the lists in them.
    """
    ahead: list[Any] = [event]
    while ahead:
        value = ahead.pop()
        if isinstance(value, list):
            value = stands_for(value)
        if isinstance(value, str) and _QUOTED.search(value := opened(value)):
            yield " ".join(value.splitlines())
            ahead += [document for _, _, document in documents_in(value)]
        elif isinstance(value, list):
            ahead += value
        elif isinstance(value, dict) and not like_line(value):
            yield compact({name: each for name, each in value.items() if not isinstance(each, list)})
            ahead += value.values()


def compact(document: Any) -> str:
    """JSON on one line."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)
