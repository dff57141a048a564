"""The lines of code that keep memory, as one environment's line names them (`growthLines`, `growthProfile`). Pure.

The function could have written them, so every text is bounded and made visible, and every figure is checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..support.untrusted_text import visible
from .document import figure

MEMBER = "growthProfile"
"""A line without this member has no profile."""
MOST_LINES, MOST_FRAMES, MOST_LIBRARIES = 10, 20, 10
LONGEST = 300
"""Most characters of a path, a name or a frame."""


class GrowthLine(NamedTuple):
    """A line of code that keeps memory; or a class of which there are more objects."""

    file: str
    """Or the class's name."""
    line: int
    """0 if only the file is known."""
    function: str
    kib: float
    """KiB that each invocation adds."""
    share: float
    """Part of what grew, from 0 to 1."""
    stack: tuple[str, ...]
    """Frames such as `app.mjs:30 handler`, outermost first."""
    column: int = 0
    """0 where the line alone tells the place: it is told in minified code."""
    rank: int = 0
    """Of a class of Java: the function's own come before those of the JDK, whatever their size. 0 for all else."""

    @property
    def order(self) -> tuple[Any, ...]:
        """Sorts those that are to be named first to the begin."""
        return (self.rank, -self.kib, *self.key)

    @property
    def place(self) -> str:
        return ":".join(map(str, filter(None, (self.file, self.line, self.column))))

    @property
    def key(self) -> tuple[Any, ...]:
        """Is equal for one place in several environments."""
        return (*self[:3], self.column)


class GrowthProfile(NamedTuple):
    """What one environment's profile found, and what it cost."""

    lines: tuple[GrowthLine, ...]
    """The line that keeps most comes first."""
    runtime: str
    invocations: int
    looks: int
    cpu_percent: float | None
    """Rise of the CPU time of an invocation."""
    memory_kib: float | None
    """What the profile itself held."""
    look_ms: float | None
    gave_up: str
    """Why it ended early; empty if it did not."""
    rest_kib: float
    """Growth per invocation that is in no line."""
    libraries: tuple[str, ...]
    """Native libraries of the function that may have it."""

    @property
    def grown_kib(self) -> float:
        """All that grew per invocation."""
        return sum(line.kib for line in self.lines) + self.rest_kib


def profile_in(members: Mapping[str, Any]) -> GrowthProfile | None:
    """The profile on a line of the sidecar; None if it has none. What cannot be read of it is left out."""
    profile = members.get(MEMBER)
    if not isinstance(profile, Mapping):
        return None
    runtime = _text(profile.get("runtime"))
    return GrowthProfile(
        lines=tuple(sorted(_lines(members.get("growthLines"), runtime), key=lambda line: line.order)),
        runtime=runtime,
        invocations=int(_positive(profile.get("invocations")) or 0),
        looks=int(_positive(profile.get("looks")) or 0),
        cpu_percent=figure(profile.get("cpuPercent")),
        memory_kib=_positive(profile.get("memoryKiB")),
        look_ms=_positive(profile.get("lookMs")),
        gave_up=_text(profile.get("gaveUp")),
        rest_kib=_positive(profile.get("restKiB")) or 0.0,
        libraries=_texts(profile.get("libraries"), MOST_LIBRARIES),
    )


def _lines(value: object, runtime: str) -> Iterator[GrowthLine]:
    for rank, each in enumerate(_list(value)[:MOST_LINES], 1):
        if not isinstance(each, Mapping):
            continue
        is_class = isinstance(each.get("class"), str)
        file, kib = _text(each.get("class" if is_class else "file")), _positive(each.get("perInvocationKiB"))
        if file and kib:
            yield GrowthLine(
                file=file,
                line=int(_positive(each.get("line")) or 0),
                column=int(_positive(each.get("column")) or 0),
                function=_text(each.get("function")),
                kib=kib,
                share=min(1.0, _positive(each.get("share")) or 0.0),
                stack=_texts(each.get("stack"), MOST_FRAMES),
                rank=rank if is_class and runtime == "java" else 0,
            )


def _positive(value: object) -> float | None:
    number = figure(value)
    return None if number is None or number < 0 else number


def _text(value: object) -> str:
    return visible(value[:LONGEST]) if isinstance(value, str) else ""


def _texts(value: object, most: int) -> tuple[str, ...]:
    return tuple(text for each in _list(value)[:most] if (text := _text(each)))


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
