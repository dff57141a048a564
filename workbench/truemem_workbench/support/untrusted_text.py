"""Handles text from outside: from a function, its log, a template or a caller. All of it may be hostile.

There is one function for each place where such text arrives or leaves. Out: `visible` for terminals (in rich's tables:
`terminal.console`), annotations and XML, `cell` for CSV, `script_json` for HTML, `markdown` for
GitHub's summary. In: `loads` for JSON, `chunks` and `read_text` for files that a person names.
"""

from __future__ import annotations

import errno
import json
import os
import re
import select
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

MOST_DEPTH = 200
"""Deepest nesting of objects and lists that is read. Python's own reader ends at about 1,000."""
MOST_FILE_BYTES = 64 << 20
"""Most bytes of a file that is read into memory whole."""
WRITER_S = 10.0
"""How long a named pipe may have no writer."""
LOOK_S = 0.05
CHUNK_BYTES = 1 << 16

# Control characters, invisible ones, those that change the direction of text, and what UTF-8 or XML does not have.
# Not the joiners U+200C and U+200D: emoji and several scripts are written with them.
_UNSEEN = re.compile(
    "[\0-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\ufffe\uffff"
    "\U000e0000-\U000e007f]"
)
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")  # noqa: RUF001  # the wide forms count in Japanese Excel
_MARKDOWN = re.compile(r"[\\`*\[\]<>|&]")


def visible(text: str) -> str:
    """Escape characters that a terminal would obey or not show (`\\x1b`, `\\n`, `\\u202e`), on one line.

    A tab becomes a space. From U+007F on the escapes are JSON's, so a line of JSON stays the same document.
    """
    return _UNSEEN.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    if character == "\t":
        return " "
    return json.dumps(character)[1:-1] if character >= "\x7f" else character.encode("unicode_escape").decode()


def cell(value: object) -> object:
    """Make a CSV cell: a text that looks like a formula gets a `'` before it. Numbers stay numbers."""
    if not isinstance(value, str):
        return value
    shown = visible(value)
    return f"'{shown}" if shown.lstrip().startswith(_FORMULA) else shown


def script_json(value: Any) -> str:
    """Make JSON for a <script>, in ASCII: nothing in it can end the element. Raises ValueError for NaN and infinity."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def markdown(text: str) -> str:
    """Escape text for GitHub's Markdown: no link, no picture, no element."""
    return _MARKDOWN.sub(lambda found: f"&#{ord(found[0])};", visible(text))


def loads(text: str | bytes, *, lenient: bool = False) -> Any:
    """Parse a JSON document. With `lenient`, `NaN` and `Infinity`, which are not JSON, become None.

    Raises only ValueError, also for a document nested deeper than MOST_DEPTH, or with endless digits.
    """
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text), "surrogatepass")
    try:
        value = (_LENIENT if lenient else _STRICT).decode(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    return _shallow(value, text, 0, len(text))


def parsed(text: str | bytes) -> Any:
    """Parse a JSON document, as `loads` with `lenient`; None if it is not JSON."""
    try:
        return loads(text, lenient=True)
    except ValueError:
        return None


def mapping(value: object) -> Mapping[str, Any]:
    """The value as a mapping, without keys that are not text (in YAML `1:`, `yes:`). Empty if it is none."""
    return {name: each for name, each in value.items() if isinstance(name, str)} if isinstance(value, Mapping) else {}


def first_document(text: str, begin: int) -> tuple[Any, int]:
    """Parse the JSON document that begins there, as `loads` with `lenient`. Returns it, and where it ends.

    Raises ValueError; with `pos`, the place of the error, if it is not JSON.
    """
    try:
        value, end = _LENIENT.raw_decode(text, begin)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    return _shallow(value, text, begin, end), end


def _shallow(value: Any, text: str, begin: int, end: int) -> Any:
    """The value, if it is not nested deeper than MOST_DEPTH."""
    if text.count("[", begin, end) + text.count("{", begin, end) > MOST_DEPTH and _is_deep(value):
        raise ValueError(_TOO_DEEP)
    return value


def _no_json(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_STRICT = json.JSONDecoder(parse_constant=_no_json)
_LENIENT = json.JSONDecoder(parse_constant=lambda _: None)
_TOO_DEEP = f"nested deeper than {MOST_DEPTH}"


def _is_deep(value: object) -> bool:
    level = [value]
    for _ in range(MOST_DEPTH + 1):
        inner: list[object] = []
        for each in level:
            if isinstance(each, dict):
                inner += each.values()
            elif isinstance(each, list):
                inner += each
        level = inner
    return bool(level)


def chunks(path: Path) -> Iterator[bytes]:
    """Read a file or a pipe. Raises OSError, after WRITER_S also for a named pipe to which nothing writes."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe without a writer would wait here
    try:
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            yield from _piped(descriptor, named=os.path.lexists(os.path.realpath(path)))
            return
        os.set_blocking(descriptor, True)
        while data := os.read(descriptor, CHUNK_BYTES):
            yield data
    finally:
        os.close(descriptor)


def _piped(descriptor: int, *, named: bool) -> Iterator[bytes]:
    """Read a pipe to its end. A writer may take its time, as with standard input."""
    written = not named  # the shell's own pipes have had their writer
    deadline = time.monotonic() + WRITER_S
    while True:
        try:
            data = os.read(descriptor, CHUNK_BYTES)
        except BlockingIOError:
            written = True
            select.select([descriptor], [], [])
            continue
        if data:
            written = True
            yield data
        elif written:
            return
        elif time.monotonic() > deadline:
            raise OSError(errno.ETIMEDOUT, f"it is a pipe, and in {WRITER_S:g} s no program has written to it")
        else:
            time.sleep(LOOK_S)


def read_text(path: Path) -> str:
    """Read a whole file in UTF-8. Raises OSError, also if it is larger than MOST_FILE_BYTES, and UnicodeDecodeError."""
    data = bytearray()
    for chunk in chunks(path):
        data += chunk
        if len(data) > MOST_FILE_BYTES:
            raise OSError(errno.EFBIG, f"it is larger than {MOST_FILE_BYTES >> 20} MiB")
    return data.decode().replace("\r\n", "\n").replace("\r", "\n")
