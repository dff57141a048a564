"""Numbers and lists in sentences."""

from __future__ import annotations

from collections.abc import Sequence


def counted(count: int, one: str, several: str | None = None) -> str:
    """Count things in words: `1 line`, `2 lines`. `several` is the plural if it is not made with an s."""
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"


def some(names: Sequence[str], most: int = 3) -> str:
    """The first names of a list, and how many more there are: `a, b, c and 4 more`."""
    rest = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest
