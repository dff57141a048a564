"""What an experiment has found."""

from __future__ import annotations

from dataclasses import dataclass, field


class NotHere(Exception):
    """This machine does not permit the experiment; the message says why."""


@dataclass
class Row:
    """One fault, tried so and so often."""

    fault: str
    tried: str
    """How often, and with what: `200 kills, 3,412 invocations`."""
    saw: str
    """What the function saw of it."""
    lost: str
    """What was lost of the records, and how it was told."""
    broken: list[str] = field(default_factory=list)
    """Whatever was not as promised: the function harmed, or something lost in silence."""


def counted(number: int, thing: str) -> str:
    """`1 line`, `2,000 lines`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
