"""The function to check: a Python handler, a `bootstrap`, or a function of a SAM template."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..local import Function
from ..local.configuration.node_function import SUFFIXES


@dataclass(frozen=True, kw_only=True)
class Target:
    """A function and its configuration."""

    spec: str
    """The user's name for it, which baselines and reports use."""
    name: str
    """Name of the function, as Lambda permits it."""
    function: Function
    memory_mib: int = 512
    timeout_s: float = 30
    environment: Mapping[str, str] = field(default_factory=dict)
    source: Path | None = None
    """File that annotations point to, as the user gave it."""
    line: int | None = None
    """Line of the handler in that file, from 1."""
    notices: tuple[str, ...] = ()
    """The parts of its configuration that could not be used, as sentences."""


Choose = Callable[[Function], tuple[Function, tuple[str, ...]]]
"""Chooses the interpreter of a function. Returns the function with it, and notices."""


Tell = Callable[[str], None]
"""Gets a sentence before something that takes long."""


def silent(_: str) -> None:
    """Tell nothing."""


def as_it_is(function: Function) -> tuple[Function, tuple[str, ...]]:
    """Keep our own interpreter."""
    return function, ()


def name_from(text: str) -> str:
    """Make a function's name that Lambda permits."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", text)[:64] or "function"


def line_of(source: Path, handler: str) -> int | None:
    """The line in which the handler is defined, if it is a plain function."""
    if source.suffix in SUFFIXES:
        exported = re.compile(
            rf"\s*(export\s+(async\s+)?(function|const|let|var)|(module\.)?exports\.)[\s*]*{handler}\b"
        )
        lines = source.read_text(encoding="utf-8", errors="replace").splitlines()
        return next((number for number, line in enumerate(lines, 1) if exported.match(line)), None)
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    found = (n.lineno for n in ast.parse(source.read_bytes()).body if isinstance(n, functions) and n.name == handler)
    return next(found, None)
