"""The command `truemem page`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..support.bad_input import BadInput
from ..support.terminal import tell
from ..support.untrusted_text import visible
from . import draw, gather, write

if TYPE_CHECKING:
    from .environments import Environment


@click.command(
    short_help="Memory of each invocation as an HTML page, and as a PNG.",
    epilog="Exit codes: 0, written; 2, the input cannot be used, and one line says why.",
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))
@click.option("--output", default="page.html", show_default=True, metavar="PATH", type=click.Path(path_type=Path))
@click.option("--png", metavar="PATH", type=click.Path(path_type=Path), help="Also draw the top four environments.")
@click.option("--environment", "only", multiple=True, metavar="ID", help="Only ids with this text; repeatable.")
def page(files: tuple[Path, ...], output: Path, png: Path | None, only: tuple[str, ...]) -> int:
    """Draw FILEs of log lines (`-` is standard input) as one HTML file to look into: it needs no network and no server.

    FILE is what `truemem report` reads: whole logs, exports of the console, answers of the aws command; also gzipped.
    """
    try:
        _page(files, output, png, only)
    except BadInput as error:
        tell("truemem page", error)
        return 2
    return 0


def _page(files: Sequence[Path], output: Path, png: Path | None, only: Sequence[str]) -> None:
    from ..lines.line import read  # judging needs scipy, half a second
    from ..lines.log_files import on_disk, size_of
    from ..lines.unread import Unread, not_read
    from ..support.terminal import progress

    if png is not None and png.suffix.lower() != ".png":
        raise BadInput(f"--png {png}: the picture is a PNG. Try --png page.png")
    if str(output) == "-":
        raise BadInput("--output -: a page is a file. Try --output page.html")
    unread = Unread()
    wanted = (lambda name: any(part in name for part in only)) if only else None
    with tempfile.TemporaryDirectory(prefix="truemem-page-") as folder:
        paths = [on_disk(file, Path(folder)) for file in files]
        with progress("reading", sum(map(size_of, paths))) as done:
            environments = gather(read(paths, wanted=wanted, done=done, unread=unread))
    note = not_read(unread)
    if not environments:
        which = f" of {' or '.join(only)}" if only else ""
        why = f" ({note})" if note else ""
        raise BadInput(
            f"no line of the sidecar{which} in {', '.join(map(str, files))}{why}. Try the function's whole log"
        )
    _made(output, partial(write, note=note), environments)
    if note:
        tell("truemem page", note)
    if png is not None:
        _made(png, draw, environments)


def _made(path: Path, make: Callable[[Sequence[Environment], Path], None], environments: Sequence[Environment]) -> None:
    try:
        make(environments, path)
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}") from error
    click.echo(visible(str(path)))
