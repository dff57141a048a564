"""What the function itself says of its requests, in any JSON line: the value under one name, for --by."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from truemem.line_schema import SHORT

from ..support.untrusted_text import parsed
from .columns import UUID, hash_of, keys_of, request_of
from .document import LEFT_OUT, completed
from .parts import NO_REQUEST, SAID
from .wrapped import NAMES, Event, around, compact, inside, reason

_REQUEST_KEYS = ("function_request_id", "requestId", "request_id", "aws_request_id", "awsRequestId")
"""Names of the request id: of Powertools for Python and TypeScript, of Lambda's JSON log format, and of plain JSON."""


class OwnLines:
    """The values under a name, by request: `a.b` is a member of a member."""

    def __init__(self, name: str) -> None:
        self._name, self._path = name, name.split(".")
        last = self._path[-1]
        spellings = {json.dumps(last, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}
        spellings |= {json.dumps(spelling)[1:-1] for spelling in spellings}  # in JSON that is quoted
        if name in LEFT_OUT:
            spellings.add(NAMES[0])
        self._spellings = [spelling.encode(errors="replace") for spelling in spellings]
        self.said: list[tuple[str, int]] = []
        """Request, and the hash of the value."""
        self.words: dict[int, str] = {}
        """By their hashes."""
        self.without_request = 0
        """Values of no request."""

    def taken(self) -> NDArray[np.void]:
        """What has been read since the last time, as `parts.SAID`."""
        made = np.empty(len(self.said), SAID)
        made["request_key"] = keys_of(np.array([request for request, _ in self.said], NO_REQUEST_TYPE))
        made["by_value"] = [value for _, value in self.said]
        self.said, self.words = [], {}
        return np.unique(made)

    def may_be_in(self, text: bytes) -> bool:
        return any(spelling in text for spelling in self._spellings)

    def read(self, text: str) -> None:
        """Read a line of a log. One that has the name elsewhere, perhaps in a wrapper, is unwrapped."""
        if not self._read_plain(text) and "{" in text:
            self.read_event(text)

    def read_event(self, event: Event) -> None:
        """Read all JSON in an event, however it is wrapped."""
        if isinstance(event, str) and not self.may_be_in(event.encode(errors="replace")):
            return
        for found in inside(event):
            if not isinstance(found, str) and not reason(found):
                self._read_plain(compact(found))
        for text in around(event):
            if self.may_be_in(text.encode(errors="replace")):
                self._read_plain(text)

    def _read_plain(self, text: str) -> bool:
        """Read a line that has JSON at its end. False if it has not the name."""
        begin = text.find('{"')
        document = parsed(text[begin:]) if begin >= 0 and NAMES[0] not in text[:begin] else None
        if not isinstance(document, dict):
            return False
        value = self._value_in(document)
        if value is None:
            return False
        word = value.encode(errors="replace").decode()
        key = hash_of(word)
        self.words[key] = word
        for request in _requests_of(document, text):
            if request == NO_REQUEST.decode():
                self.without_request += 1
            else:
                self.said.append((request, key))
        return True

    def _value_in(self, document: Mapping[str, Any]) -> str | None:
        message = document.get("message")
        if self._name in LEFT_OUT and document.get("schema") == SHORT and NAMES[0] in document:
            document = completed(document)
        for each in (document, message):
            value: Any = each
            for name in self._path:
                value = value.get(name) if isinstance(value, dict) else None
            if value is not None:
                return value if isinstance(value, str) else compact(value)
        return None


NO_REQUEST_TYPE = f"S{len(NO_REQUEST)}"


def _requests_of(document: Mapping[str, Any], text: str) -> Iterator[str]:
    """The request ids of a line, in their usual form: in the JSON or, in Lambda's text format, before it."""
    aggregate = document.get("aggregate")
    if isinstance(aggregate, dict) and isinstance(ids := aggregate.get("requestId"), str):
        yield from map(request_of, ids.split(" "))
        return
    said = next((document[name] for name in _REQUEST_KEYS if document.get(name) is not None), None)
    request = request_of(said) if isinstance(said, str) else NO_REQUEST.decode()
    if request == NO_REQUEST.decode() and (found := UUID.search(text)):
        request = found[0]
    yield request
