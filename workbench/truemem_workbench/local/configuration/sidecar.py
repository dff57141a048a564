"""Finds truemem's own sidecar, and sets up exact mode with it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import truemem

from .function import WRAPPER, Function
from .settings import extensions_of

NAME = "truemem"
"""Name under which the sidecar registers."""


def sidecar() -> Path:
    """Path of the program that starts the sidecar from source: it is in the package, of a checkout or installed."""
    return Path(truemem.__file__).with_name("run")


def beside_sidecar(attached: Path | None, folder: Path | None) -> dict[str, Path]:
    """The extensions to start, by name: the sidecar first, then all of the folder. One of the same name replaces the
    sidecar, as in the layer whose folder it is. Raises BadInput."""
    others = {} if folder is None else {path.name: path for path in extensions_of(folder)}
    return {**({} if attached is None else {NAME: attached}), **others}


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
