"""What this machine does in each run of a project: `truemem local run` tells it in full, other answers in a few words.
Pure."""

from __future__ import annotations

from collections.abc import Sequence


class Condition(str):
    """A sentence on that, for the user."""

    __slots__ = ("brief",)
    brief: str
    """What figures may depend on, in a few words."""

    def __new__(cls, text: str, brief: str) -> Condition:
        made = super().__new__(cls, text)
        made.brief = brief
        return made


def folded(notices: Sequence[str]) -> list[str]:
    """The notices, with all conditions in the last one."""
    briefs = dict.fromkeys(each.brief for each in notices if isinstance(each, Condition))
    others = [each for each in notices if not isinstance(each, Condition)]
    return [*others, f"in each run here: {'; '.join(briefs)}. truemem local run says more"] if briefs else others
