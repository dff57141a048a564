"""Deaths for memory, until one has its line: a burst may be faster than a look, and then there is none."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


def one_is_named(
    cases: Iterable[T],
    die: Callable[[T, bool], dict[str, Any]],
    check: Callable[[T, dict[str, Any]], bool],
    rounds: int,
) -> bool:
    """Let each case die once a round, in default and in exact mode by turns. `die` returns the line's `outOfMemory`.
    `check` is called with each `running`, and says if it counts as named. True if one was, within so many rounds."""
    for number in range(rounds):
        named = False
        for case in cases:
            found = die(case, number % 2 == 1)
            assert "kernel" in found["signals"]
            if "running" in found:
                named |= check(case, found["running"])
        if named:
            return True
    return False
