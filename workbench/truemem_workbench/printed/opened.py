"""Opens what a service or a tool has put into a text: base64 of gzip or of JSON, and texts as lists of bytes. Pure.

Subscriptions of CloudWatch Logs, Kinesis and Firehose have `"data": "H4sI..."`; journald has `"MESSAGE":[123,34,...]`.
What was packed becomes a string of JSON in the same place. It is then read as any JSON inside JSON.
"""

from __future__ import annotations

import base64
import json
import re
import zlib

GZIP, OBJECT = "H4sI", "eyJ"
"""How base64 of gzip begins, and that of `{"`."""
JOURNALD = '"MESSAGE"'
ENVI = ("101,110,118,105", "101, 110, 118, 105")
"""The begin of `environmentId` in a list of bytes."""
MOST = 32 << 20
"""Most bytes of one payload. One of Kinesis has at most 1 MiB before it is opened."""
DAMAGED = b'"PeakRSS"'
"""What stands for a payload that is damaged: part of a line, so that it counts. Its figures could be any others."""
_BASE64 = re.compile(rf"(?<![A-Za-z0-9+/])(?:{GZIP}|{OBJECT})[A-Za-z0-9+/]{{40,}}")
_BYTES = re.compile(r"\[\s*(\d{1,3}(?:\s*,\s*\d{1,3}){40,})(\s*\]?)")


def may_open(text: str) -> bool:
    """False if there is certainly nothing to open in a text. Written out: every line of a log comes here."""
    return GZIP in text or OBJECT in text or JOURNALD in text or ENVI[0] in text or ENVI[1] in text


def opened(text: str) -> str:
    """The text, with all that can be opened in it as JSON strings; a text that is nothing but base64, as what it is.

    Of a payload that is cut off, what is there; of one that is damaged, nothing but a mark that counts.
    """
    if not may_open(text):
        return text
    if (alone := _BASE64.match(text.strip())) and not text.strip()[alone.end() :].strip("="):
        return _decoded(alone[0])
    return _BYTES.sub(_of_bytes, _BASE64.sub(lambda found: _quoted(_decoded(found[0])), text))


def text_of(values: list[object]) -> str | None:
    """The text that a list has as bytes; None if it has none."""
    if len(values) <= 40 or not all(isinstance(each, int) and 0 <= each < 256 for each in values):
        return None
    return bytes(each for each in values if isinstance(each, int)).decode(errors="replace")


def _of_bytes(found: re.Match[str]) -> str:
    text = text_of([int(each) for each in found[1].split(",")])
    return found[0] if text is None else f'"{_quoted(text)}' + ('"' if "]" in found[2] else "")


def _quoted(text: str) -> str:
    """As it stands between the quotes of a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _decoded(text: str) -> str:
    text = text[: len(text) - (len(text) % 4 == 1)]
    data = base64.b64decode(text + "=" * (-len(text) % 4))
    return (_unzipped(data) if text.startswith(GZIP) else data).decode(errors="replace")


def _unzipped(data: bytes) -> bytes:
    try:
        return zlib.decompressobj(31).decompress(data, MOST)
    except zlib.error:
        return DAMAGED
