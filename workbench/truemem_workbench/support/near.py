"""Names that a name may be a misspelling of. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def closest(name: str, names: Iterable[str], most: int = 3) -> list[str]:
    """The names that `name` may be a misspelling of, the nearest first; empty if there are none."""
    by_lower = {each.lower(): each for each in names}
    return [by_lower[each] for each in get_close_matches(name.lower(), by_lower, n=most, cutoff=0.65)]


def meant(name: str, names: Iterable[str]) -> str:
    """` Did you mean check?`, a sentence to put after another; empty if nothing is near."""
    return f" Did you mean {' or '.join(found)}?" if (found := closest(name, names)) else ""
