"""The command `truemem page`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..aws.cloudwatch import source, source_options
from ..page import draw, gather, write
from ..support.bad_input import BadInput
from ..support.options import check_outputs, output_option
from ..support.terminal import notify
from ..support.untrusted_text import visible

if TYPE_CHECKING:
    from ..page.environments import EnvironmentPage
    from ..printed.line import Line

DEFAULT = Path("page.html")
ENDINGS = (".html", ".png")
EPILOG = """
\b
Examples:
  truemem page my-function.log
  truemem page my-function --since 24h --output today.png
\b
Exit codes:
  0  written
  2  the input cannot be used, and one line says why
"""


@click.command(epilog=EPILOG)
@source_options
@click.option("--environment", "only", multiple=True, metavar="ID", help="Only ids with this text; repeatable.")
@output_option(*ENDINGS, default=str(DEFAULT))
def page(
    files: tuple[Path, ...],
    function_name: str | None,
    log_group: str | None,
    since: str | None,
    only: tuple[str, ...],
    outputs: tuple[Path, ...],
) -> int:
    """Draw FILEs of log lines (`-` is standard input), or a log in CloudWatch, as one HTML file to look into: it needs
    no network and no server. A PNG shows the top four environments.

    FILE is what `truemem report` reads: whole logs, exports of the console, answers of the aws command; also gzipped.
    """
    check_outputs(outputs, *ENDINGS)
    where = source(files, function_name, log_group, since)
    from ..printed.line import read  # judging needs numpy
    from ..printed.log_files import refuse_summaries, size_of
    from ..printed.packed import on_disk
    from ..printed.wrapped import Unread, not_read
    from ..support.terminal import MIB, progress

    unread, functions = Unread(), set[str]()
    wanted = (lambda name: any(part in name for part in only)) if only else None
    with tempfile.TemporaryDirectory(prefix="truemem-page-") as folder:
        paths = on_disk(where.paths(Path(folder)), Path(folder))
        with progress("reading (MiB)", sum(map(size_of, paths)), MIB) as done:
            lines = read(paths, wanted=wanted, done=done, unread=unread)
            environments = gather(line for line in _noted(lines, functions) if where.wants(line.function, line.time_ms))
        if not environments:
            refuse_summaries(paths)
    note = not_read(unread)
    if not environments:
        which = f" of {' or '.join(only)}" if only else ""
        why = f" ({note})" if note else ""
        if whose := where.whose(functions):
            raise BadInput(f"{whose}. Leave --function out, or name one of those")
        raise BadInput(f"no line of the sidecar{which} in {where.place}{why}. Try {where.doctor}")
    for path in outputs or (DEFAULT,):
        _made(path, draw if path.suffix.lower() == ".png" else partial(write, note=note), environments)
    if note:
        notify("truemem page", note)
    return 0


def _made(
    path: Path, make: Callable[[Sequence[EnvironmentPage], Path], None], environments: Sequence[EnvironmentPage]
) -> None:
    try:
        make(environments, path)
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}") from error
    click.echo(visible(str(path)))


def _noted(lines: Iterable[Line], functions: set[str]) -> Iterator[Line]:
    """The same lines, with their functions noted."""
    for line in lines:
        functions.add(line.function or "")
        yield line
