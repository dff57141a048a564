"""The files of `truemem local run --output`: a picture or the page of the run's invocations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .. import page
from ..support.bad_input import BadInput
from ..support.extras import need
from ..support.outputs import check_outputs

DRAWS = {".png": page.draw, ".html": page.write}
"""What draws a file with this ending."""
ENDINGS = tuple(DRAWS)


def check(paths: Sequence[Path], *, finite: bool, measured: bool) -> None:
    """Raise BadInput for a file that cannot be written, or whose ending says nothing.

    A run is `finite` with an event, and `measured` with the sidecar. Without these there is nothing to draw.
    """
    from ..check.outputs import try_place  # scipy is for the run itself, not for every `truemem --help`

    if paths and not finite:
        raise BadInput(f"--output {paths[0]} draws the invocations of an event. Try --event '{{}}' without --scenario")
    if paths and not measured:
        raise BadInput(f"--output {paths[0]}: without the sidecar nothing is measured. Leave --no-sidecar out")
    check_outputs(paths, *ENDINGS)
    if paths:
        need("page")
    for path in paths:
        try_place(path, f"--output PATH/memory{path.suffix.lower()}")


def write(paths: Sequence[Path], printed: Sequence[str]) -> None:
    """Draw the sidecar's lines into each of these files. Raises BadInput."""
    if not paths:
        return
    from ..lines.line import parse_event

    environments = page.gather(line for text in printed for line in parse_event(text))
    if not environments:
        raise BadInput(f"{paths[0]} was not written: the sidecar printed no record. Try --raw, which shows its log")
    for path in paths:
        try:
            DRAWS[path.suffix.lower()](environments, path)
        except OSError as error:
            raise BadInput(f"cannot write {path}: {error.strerror}. Try --output PATH/{path.name}") from None
