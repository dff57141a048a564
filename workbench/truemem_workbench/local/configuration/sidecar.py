"""Find this repository's own sidecar, and set up exact mode with it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import truemem

from ...support.bad_input import BadInput
from .function import WRAPPER, Function

NAME = "truemem"
"""Name under which the sidecar registers."""


def sidecar() -> Path:
    """Path of this repository's own extension. Raises BadInput if only the package is installed."""
    path = Path(truemem.__file__).parents[1] / "run"
    if not path.is_file():
        raise BadInput(f"the sidecar is not at {path}: only a checkout has it. Try --no-sidecar")
    return path


def exact(attached: Path) -> Path | None:
    """Path of the `exact` program that belongs to this sidecar, in its layer or checkout. None if it is not there."""
    path = attached.resolve()
    places = (path.parents[1] / NAME / "exact", path.with_name("exact"))  # a layer's, a checkout's
    return next((place for place in places if place.is_file() and os.access(place, os.X_OK)), None)


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
