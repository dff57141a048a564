"""The user's code, and how it is named."""

from __future__ import annotations

import gc
import os
import posix
import re
import sys
import types
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Line = tuple[str, int, str]  # file, line and function
    Stack = tuple[Line, ...]  # the user's frames, the innermost first

MOST_FRAMES, MOST_LIBRARIES, MOST_NAME_CHARS = 20, 10, 200
LIBRARY_FOLDERS = re.compile(r"(?:.*/)?(?:site-packages|dist-packages)/")


_ADDERS = "append|appendleft|add|extend|insert|setdefault|update|put|push|register"
ADDS = rf"(?:\[[^]]*\])*(?:\.(?:{_ADDERS})\(|\[[^]]*\]\s*=[^=]|\s*\+=)"
"""What follows the name of a container where something is added to it."""
MOST_NAMES = 1000
_OF_3_11 = b"\x03\x11\x16\x1a\x22\x26\x27\x2c\x2d\x2e\x2f\x38\x40\x96\x99\xa1\xa7\xa8\xb1"
NOT_BY_RUNNING = {(3, 11): _OF_3_11, (3, 12): b"TVX\x9a\x9e", (3, 13): b"", (3, 14): b""}
"""Instructions that Python puts in place of others in all of a function, run or not: those that adapt, and pairs of two
(Lib/opcode.py, numbered by Lib/dis.py)."""
INSTRUMENTED = 234
"""Those from here on are of sys.monitoring."""


class Users:
    """The code below the task root, but not the libraries that lie there (`sam build`, `pip install --target`)."""

    def __init__(self) -> None:
        self.root = os.environ.get("LAMBDA_TASK_ROOT", posix.getcwd()).rstrip("/") + "/"
        self._foreign = set(self._beside())
        self._known: dict[str, bool] = {}

    def has(self, file: str) -> bool:
        known = self._known.get(file)
        if known is None:
            inside = file[len(self.root) :]
            is_foreign = LIBRARY_FOLDERS.match(inside) or inside.partition("/")[0] in self._foreign
            known = self._known[file] = file.startswith(self.root) and not is_foreign
        return known

    def short(self, file: str) -> str:
        return file.removeprefix(self.root)[-MOST_NAME_CHARS:]

    def codes(self) -> list[types.CodeType]:
        """The code of the user's functions, with that of functions inside them."""
        found: dict[int, types.CodeType] = {}
        waiting = [each.__code__ for each in gc.get_objects() if type(each) is types.FunctionType]
        while waiting:
            code = waiting.pop()
            if id(code) not in found and self.has(code.co_filename):
                found[id(code)] = code
                waiting.extend(each for each in code.co_consts if type(each) is types.CodeType)
        return list(found.values())

    def line_by_name(self, names: set[str]) -> Line | None:
        """The only line of the user's code that has run and adds to what has one of these names. None if there are
        more, or if it is not known which have run."""
        names = set(filter(str.isidentifier, names))
        if not names:
            return None
        adds = re.compile(rf"\b(?:{'|'.join(names)})\b{ADDS}")
        codes = self.codes()
        found = []
        for file in {code.co_filename for code in codes}:
            with suppress(OSError), open(file, encoding="utf-8", errors="replace") as source:  # noqa: PTH123
                found += [(file, number) for number, text in enumerate(source, 1) if adds.search(text)]
        ran = {
            (code.co_filename, line): code.co_name
            for file, line in found
            for code in sorted(codes, key=lambda code: code.co_firstlineno)
            if code.co_filename == file and has_run(code, line)
        }
        return next(((*place, name) for place, name in ran.items()), None) if len(ran) == 1 else None

    def _beside(self) -> Iterator[str]:
        """Folders and files of installed distributions: their RECORD lists them."""
        with suppress(OSError):
            for name in posix.listdir(self.root):
                if name.endswith(".dist-info"):
                    path = f"{self.root}{name}/RECORD"
                    with suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                        yield from {line.split(",")[0].partition("/")[0] for line in file} - {"", ".", ".."}


def has_run(code: types.CodeType, line: int) -> bool:
    """Has Python specialized an instruction of this line, which it does when one has run some times (PEP 659)? False
    in versions that do not, or that are not known."""
    unread = NOT_BY_RUNNING.get(sys.version_info[:2])
    if unread is None:
        return False
    plain, now = code.co_code, code._co_code_adaptive  # type: ignore[attr-defined]
    return any(
        0 != plain[at] != now[at] < INSTRUMENTED and now[at] not in unread
        for begin, end, number in code.co_lines()
        if number == line
        for at in range(begin, end, 2)
    )


def names_of(container: Any) -> set[str]:
    """The names that a container has in dicts: of modules, of attributes."""
    above = [each for each in gc.get_referrers(container) if type(each) is dict and len(each) <= MOST_NAMES]
    return {key for each in above for key, value in list(each.items()) if value is container and type(key) is str}


def libraries(users: Users) -> list[str]:
    """Names of the native libraries that are mapped, and are the user's, a layer's, or installed."""
    found: dict[str, None] = {}
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        for line in file:
            path = line[max(0, line.find("/")) :].rstrip("\n")
            name = path.rpartition("/")[2]
            if ".so" in name and (path.startswith((users.root, "/opt/")) or LIBRARY_FOLDERS.match(path)):
                found[name[:MOST_NAME_CHARS]] = None
    return list(found)[:MOST_LIBRARIES]
