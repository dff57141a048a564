"""Types of the options of `truemem check`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ..support.bad_input import BadInput
from ..support.terminal import Finite
from .baseline import Growth


class _Growth(click.ParamType[Growth]):
    name = "MiB|%"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Growth:
        if isinstance(value, Growth):
            return value
        try:
            return Growth.parse(value)
        except ValueError:
            self.fail(f"{value!r} is neither MiB nor a share, as in 8 or 10%", param, ctx)


GROWS = ("leak", "native", "hoarding", "processes", "threads", "descriptors", "tmp", "extension")
"""Causes of a finding that --allow takes: `analysis.finding.GROWS`, which needs numpy."""
FILE = click.Path(dir_okay=False, path_type=Path)
AMOUNT = Finite(min=0)
SECONDS = Finite(min=0, min_open=True, max=900)
GROWTH = _Growth()


def variables(given: Sequence[str]) -> dict[str, str]:
    """Parse the values of `--env`. Raises BadInput."""
    for each in given:
        if "=" not in each:
            raise BadInput(f"--env {each} has no value. Try --env {each}=VALUE")
    return dict(each.split("=", 1) for each in given)
