"""What the options of `truemem check` take."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click

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


class _Amount(click.FloatRange):
    """Click's own lets `nan` and `inf` pass: limits that nothing breaks."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        amount: float = super().convert(value, param, ctx)
        if not math.isfinite(amount):
            self.fail(f"{value!r} is no limit. Leave the option out if there is none", param, ctx)
        return amount


FILE = click.Path(dir_okay=False, path_type=Path)
AMOUNT = _Amount(min=0)
SECONDS = _Amount(min=0, min_open=True, max=900)
GROWTH = _Growth()
