"""Draws many invocations: as one HTML page to explore, and as one PNG to send.

`page.write(page.gather(lines.read(paths)), path)`; `page.draw` makes the PNG of the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..printed.line import Line
    from .environments import EnvironmentPage

# Imports are late: numpy and matplotlib take a second, and the command line asks this package for its options alone.


def gather(lines: Iterable[Line]) -> list[EnvironmentPage]:
    """Group the lines by environment and judge them. The most important environments come first."""
    from . import environments

    return environments.gather(lines)


def write(environments: Sequence[EnvironmentPage], path: Path, left_out: int = 0, note: str = "") -> None:
    """Write the page. `left_out` is the number of environments that are not among these, `note` is below the title.
    Raises OSError."""
    from . import html

    path.write_text(html.page(environments, left_out, note), encoding="utf-8")


def draw(environments: Sequence[EnvironmentPage], path: Path) -> None:
    """Write the PNG. Raises OSError."""
    from . import picture

    picture.draw(environments, path)
