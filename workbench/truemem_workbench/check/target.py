"""What is checked: a Python handler, a `bootstrap`, or a function of a SAM template."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..local import Function


@dataclass(frozen=True, kw_only=True)
class Target:
    """A function, and what it runs with."""

    spec: str
    """As it was asked for: its name in baselines and reports."""
    name: str
    """Of the function, as Lambda takes it."""
    function: Function
    memory_mib: int = 512
    timeout_s: float = 30
    environment: Mapping[str, str] = field(default_factory=dict)
    source: Path | None = None
    """The file that annotations point to; relative as the user gave it."""
    line: int | None = None
    """Of the handler in it, from 1."""
    notices: tuple[str, ...] = ()
    """What of its configuration could not be taken over, in plain words."""


def name_from(text: str) -> str:
    """A function's name that Lambda would take."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", text)[:64] or "function"


def line_of(source: Path, handler: str) -> int | None:
    """Where the handler is defined, if that is plain to see."""
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    found = (n.lineno for n in ast.parse(source.read_bytes()).body if isinstance(n, functions) and n.name == handler)
    return next(found, None)
