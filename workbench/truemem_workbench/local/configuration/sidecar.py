"""Finds truemem's own sidecar, and sets up exact mode with it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import truemem

from .function import WRAPPER, Function

NAME = "truemem"
"""Name under which the sidecar registers."""


def sidecar() -> Path:
    """Path of the program that starts the sidecar from source: it is in the package, of a checkout or installed."""
    return Path(truemem.__file__).with_name("run")


def exact(attached: Path) -> Path | None:
    """Path of the `exact` program that belongs to this sidecar, in its layer or package. None if it is not there."""
    path = attached.resolve().parents[1] / NAME / "exact"
    return path if path.is_file() and os.access(path, os.X_OK) else None


def in_exact_mode(
    function: Function, environment: Mapping[str, str], attached: Path
) -> tuple[Function, Mapping[str, str]] | None:
    """Prepare the function and its variables for exact mode. Returns None if `exact` is missing, or the user has set a
    wrapper.

    A managed runtime gets `AWS_LAMBDA_EXEC_WRAPPER`; a bootstrap is started through the program.
    """
    program = exact(attached)
    if program is None or WRAPPER in environment:
        return None
    if function.runtime is None:
        return function.behind(program), environment
    return function, {**environment, WRAPPER: str(program)}
