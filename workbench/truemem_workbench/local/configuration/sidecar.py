"""This repository's own sidecar, and how a function here runs in exact mode with it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import truemem

from ...support.bad_input import BadInput
from .function import WRAPPER, Function

NAME = "truemem"
"""Of the extension."""


def sidecar() -> Path:
    """The executable of this repository's own extension. Raises BadInput."""
    path = Path(truemem.__file__).parents[1] / "run"
    if not path.is_file():
        raise BadInput(f"the sidecar is not at {path}: only a checkout has it. Try --no-sidecar")
    return path


def exact(attached: Path) -> Path | None:
    """The program of exact mode that belongs to this sidecar, in its layer or checkout. None if it is not there."""
    path = attached.resolve()
    places = (path.parents[1] / NAME / "exact", path.with_name("exact"))  # a layer's, a checkout's
    return next((place for place in places if place.is_file() and os.access(place, os.X_OK)), None)


def in_exact_mode(
    function: Function, environment: Mapping[str, str], attached: Path
) -> tuple[Function, Mapping[str, str]] | None:
    """The function and its variables as exact mode wants them: a managed runtime has a variable for that, a bootstrap
    is started through the program.

    None if the program is not there, or the user has chosen a wrapper.
    """
    program = exact(attached)
    if program is None or WRAPPER in environment:
        return None
    if function.runtime is None:
        return function.behind(program), environment
    return function, {**environment, WRAPPER: str(program)}
