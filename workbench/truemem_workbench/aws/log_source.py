"""Where a command reads lines: files, or a log group in CloudWatch. The same options for every command."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import click

from ..support.bad_input import BadInput
from ..support.outputs import option_group
from ..support.terminal import progress
from ..support.time_parsing import since_ms

DEFAULT_SINCE_MS = 3 * 3_600_000
"""How far back CloudWatch is read without --since."""
_FUNCTION = re.compile(r"arn:aws[\w-]*:lambda:.+|(/aws/lambda/)?\w[\w-]{0,63}(:[\w$-]+)?", re.ASCII)
"""What may be a function, and not a file: a name, an ARN, a log group."""

source_options = option_group(
    click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path(path_type=Path, allow_dash=True)),
    click.option(
        "--function", "function_name", metavar="NAME", help="Read its log in CloudWatch; with FILEs, only its lines."
    ),
    click.option("--log-group", metavar="NAME", help="Read this log group in CloudWatch."),
    click.option("--since", metavar="AGO|TIME", help="`90m`, `3h`, `2d`, or ISO 8601 [CloudWatch's default: 3h]."),
)
"""Adds FILE..., --function, --log-group and --since to a command."""


class Source(NamedTuple):
    """What the options of `source_options` say."""

    files: tuple[Path, ...]
    log_group: str | None
    """The log group to read, or None for files."""
    function: str | None
    """Only lines of this function, of files of several; or None."""
    since_ms: float | None
    """Epoch ms; None for everything, or for CloudWatch's default."""

    @property
    def place(self) -> str:
        """The place in a message."""
        return f"log group {self.log_group}" if self.log_group else ", ".join(map(str, self.files))

    def wants(self, function: str | None, time_ms: float | None) -> bool:
        """True for a line of the function and the time that were asked for. A line without a time is wanted."""
        if self.function is not None and function != self.function:
            return False
        return self.since_ms is None or time_ms is None or time_ms >= self.since_ms

    def paths(self, folder: Path, way: Literal["insights", "filter"] = "insights") -> Sequence[Path]:
        """The files to read. Reads CloudWatch into one in `folder`, with progress. Raises BadInput."""
        if self.log_group is None:
            return self.files
        from .cloudwatch import fetch

        path = folder / "cloudwatch.log"
        now_ms = time.time() * 1000
        begin = now_ms - DEFAULT_SINCE_MS if self.since_ms is None else self.since_ms
        with (
            progress("CloudWatch", int(now_ms - begin)) as fetched,
            path.open("w", encoding="utf-8", errors="replace") as file,
        ):
            fetch(self.log_group, int(begin), int(now_ms), file, source=way, fetched=fetched)
        return [path]


def source(files: tuple[Path, ...], function_name: str | None, log_group: str | None, since: str | None) -> Source:
    """Read the options. Raises BadInput unless they name one place, or for a time that is none."""
    begin = None if since is None else since_ms(since, time.time() * 1000)
    if files and log_group is not None:
        raise BadInput("files and --log-group: several places to read from. Leave one out")
    for file in files:
        if _FUNCTION.fullmatch(str(file)) and not file.exists():
            raise BadInput(f"there is no file {file}. Is it a function in AWS? Try --function {file}")
    if files:
        return Source(files, None, function_name, begin)
    if function_name is not None and log_group is not None:
        raise BadInput("--function and --log-group: several places to read from. Leave one out")
    if function_name is not None:
        from .clients import log_group_of

        return Source((), log_group_of(function_name), None, begin)
    if log_group is not None:
        return Source((), log_group, None, begin)
    raise BadInput("nothing to read from. Try FILE..., --function NAME or --log-group NAME")
