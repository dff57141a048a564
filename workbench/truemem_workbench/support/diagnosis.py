"""A result of `truemem doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Grade = Literal["ok", "note", "problem"]


@dataclass(frozen=True)
class Diagnosis:
    """One result: how bad it is, what is so, and what to do."""

    grade: Grade
    text: str
    fix: str = ""
    """What the user should do about it: a command where there is one."""
    evidence: str = ""
    """What shows it: a line of the log, a request id, a member of the configuration."""
