"""One result of a diagnosis, for `truemem doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Grade = Literal["ok", "note", "problem"]


@dataclass(frozen=True)
class Diagnosis:
    """One result of the diagnosis."""

    grade: Grade
    text: str
    fix: str = ""
    """What the user should do about it: a command where there is one."""
    evidence: str = ""
    """What shows it: a line of the log, a request id, a member of the configuration."""
