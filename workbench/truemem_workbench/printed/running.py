"""The line of code that ran when an invocation ran out of memory, as its line names it (`outOfMemory.running`). Pure.

The function could have written it: every text is bounded and made visible, and every figure is checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ..support.untrusted_text import visible
from .document import figure

if TYPE_CHECKING:
    from .line import Line

MARK = b'"running":'
"""In the text of a line that has one."""
LONGEST = 300
"""Most characters of a path, or of a name."""


class RunningLine(NamedTuple):
    """A line of code."""

    file: str
    """Or the innermost call, such as `/opt/agent.py:9 send`, where no line of the function's own code is known."""
    line: int
    """0 if only a call is known."""
    function: str

    @property
    def place(self) -> str:
        """Such as `orders.py:31 in load`."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place} in {self.function}" if self.function else place


def running_in(members: Mapping[str, Any]) -> tuple[RunningLine, float | None] | None:
    """What ran on a line of the sidecar, and the level in MiB at which that was seen; None if it does not say."""
    death = members.get("outOfMemory")
    said = death.get("running") if isinstance(death, Mapping) else None
    if not isinstance(said, Mapping):
        return None
    number, stack = figure(said.get("line")), said.get("stack")
    file, innermost = _text(said.get("file")), _text(stack[-1]) if isinstance(stack, list) and stack else ""
    if not (file or innermost):
        return None
    line = int(number) if file and number is not None and number > 0 else 0
    return RunningLine(file or innermost, line, _text(said.get("function")) if file else ""), figure(said.get("level"))


def ran_out_at(lines: Iterable[Line]) -> str:
    """A sentence on the line of code that ran most often when memory ran out; empty where none is known."""
    ran = Counter(found[0].place for line in lines if (found := running_in(line.members)) is not None)
    return f"{ran.most_common(1)[0][0]} ran then." if ran else ""


def _text(value: object) -> str:
    return visible(value[:LONGEST]) if isinstance(value, str) else ""
