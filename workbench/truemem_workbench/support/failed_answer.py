"""What a failed answer says: the error, and the line of code that it comes from. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

MISSING_MODULE = re.compile(r"(?:ImportModuleError|ModuleNotFoundError)\b.*?No module named '([\w.]+)'")
MISSING_PACKAGE = re.compile(r"Cannot find (?:module|package) '((?:@[\w.-]+/)?[\w-][\w.-]*)(?=[/'])")
"""What Node.js says; the name is that of npm's package."""
UNSET_VARIABLE = re.compile(r"KeyError: '(\w+)', a variable that is not set\b")
MISSING_MEMBER = re.compile(r"(?:Attribute|Index|Key|Type)Error: ")
"""Errors of a handler whose event lacks something."""

TIMED_OUT = re.compile(r"Task timed out after ([\d.]+) seconds")

_MOST_FRAMES = 50
_OF_PYTHON = re.compile(r'File "([^"\n]+)", line (\d+)')
_OF_NODE = re.compile(r"at .*?([^\s(]+):(\d+):\d+\)?$")
_NOT_OWN = re.compile(r"^<|^node:|/lib(64)?/python\d|/(site|dist)-packages/|/node_modules/|/var/(runtime|lang)/")
"""Files that are not the function's own: of the language, the runtime client, or a package in its usual folder."""


def way_of(error: str) -> str:
    """The type of an error, by which failures are alike: messages may differ each time."""
    return error.partition(":")[0]


def error_of(payload: object, function_error: str | None) -> str:
    """The message of an answer with a function error and where it comes from, if that is known. `payload` is the parsed
    answer."""
    members = payload if isinstance(payload, Mapping) else {}
    said = [str(members[name]) for name in ("errorType", "errorMessage") if members.get(name)]
    if not said:
        return function_error or "unknown error"
    frames = list(_frames(members))
    is_unset = said[0] == "KeyError" and frames and PurePosixPath(frames[0][0]).name in ("<frozen os>", "os.py")
    own = next((f" ({PurePosixPath(file).name}:{line})" for file, line in frames if not _NOT_OWN.search(file)), "")
    return f"{': '.join(said)}{', a variable that is not set' if is_unset else ''}{own}"


def _frames(members: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """File and line of each frame, the deepest first: as the runtime clients of Python and Node.js have them."""
    for name, pattern, step in (("stackTrace", _OF_PYTHON, -1), ("trace", _OF_NODE, 1)):
        told = members.get(name)
        for text in told[::step][:_MOST_FRAMES] if isinstance(told, list) else ():
            if isinstance(text, str) and (found := pattern.search(text)):
                yield found[1], found[2]
