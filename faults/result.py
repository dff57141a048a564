"""The results of the experiments."""

from __future__ import annotations

from dataclasses import dataclass, field

from truemem_workbench.support.terminal import counted

__all__ = ["NotHere", "Row", "counted"]


class NotHere(Exception):
    """This machine does not permit the experiment; the message says why."""


@dataclass
class Row:
    """The result of one fault."""

    fault: str
    tried: str
    """How often, and with what: `200 kills, 3,412 invocations`."""
    saw: str
    """What the function saw of it."""
    lost: str
    """What was lost of the records, and how it was told."""
    broken: list[str] = field(default_factory=list)
    """All that was not as promised: harm to the function, or a loss without a report."""
