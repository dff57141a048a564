"""Reads what `truemem report` was given, from files or CloudWatch, and makes the report of it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import page
from ..aws.log_source import Source
from ..lines.line import read as read_lines
from ..lines.log_files import on_disk, size_of
from ..lines.unread import not_read
from ..page import html as page_html
from ..support.bad_input import BadInput
from ..support.exit_codes import unheard_by_children
from ..support.terminal import Count, progress, tell
from .collect import Prices, collect
from .store import Loaded, Store
from .summary import Environment, Report


def read(where: Source, options: Mapping[str, Any]) -> Report:
    """Read all lines and make the report of them. Writes the pages of --output, which need the lines again. `options`
    are those of the command. Raises BadInput."""
    prices = Prices(options["headroom"] / 100, options["per_month"], options["gb_second"])
    made = _on_spark(where, options, prices) if options["engine"] == "spark" else _here(where, options, prices)
    _check_by(made)
    return made


def _on_spark(where: Source, options: Mapping[str, Any], prices: Prices) -> Report:
    from . import spark

    loaded, made = spark.report(where, options, prices)
    _check_loaded(loaded, where)
    assert made is not None  # there are lines
    return made


def _here(where: Source, options: Mapping[str, Any], prices: Prices) -> Report:
    by, environment = options["by"], options["environment"]
    with tempfile.TemporaryDirectory(prefix="truemem-report-") as folder:
        paths = [on_disk(file, Path(folder)) for file in where.paths(Path(folder), options["way"])]
        size = sum(map(size_of, paths))
        with Store() as store:
            with progress("reading", size) as read:
                loaded = store.load(
                    paths, since_ms=where.since_ms, environment=environment, function=where.function, by=by, read=read
                )
            _check_loaded(loaded, where)
            with progress("judging", loaded.lines) as judged, unheard_by_children():
                made = collect(store, loaded, by=by, prices=prices, done=judged)
        for html in options["outputs"]:
            if html.suffix.lower() == ".html":
                with progress("drawing", size) as read:
                    _draw(made, paths, where, html, read)
    return made


def _draw(made: Report, paths: Sequence[Path], where: Source, html: Path, read: Count) -> None:
    """Draw the most urgent environments, as many as a page holds. Nothing of the others is kept."""
    environments = made.environments
    shown = _foremost(environments, page_html.ROOM)
    names = {name for _, name in shown}
    drawn = page.gather(
        line
        for line in read_lines(paths, wanted=names.__contains__, done=read)
        if (line.function or "", line.environment) in shown and where.wants(line.function, line.time_ms)
    )
    try:
        page.write(drawn, html, left_out=len(environments) - len(shown), note=not_read(made.unread))
    except OSError as error:
        raise BadInput(f"{html} cannot be written: {error.strerror}") from error
    if len(shown) < len(environments):
        told = (
            f"{html} has the {len(shown):,} most urgent of {len(environments):,} environments, as many as a page holds"
        )
        tell("truemem report", f"{told}. --environment chooses others")


def _foremost(environments: Sequence[Environment], room: int) -> set[tuple[str, str]]:
    """Take whole environments from the first on while their invocations fit, at least one. By function and id."""
    shown: set[tuple[str, str]] = set()
    for each in environments:
        if each.peaks.invocations <= room or not shown:
            shown.add((each.function, each.environment_id))
            room -= each.peaks.invocations
    return shown


def _check_loaded(loaded: Loaded, where: Source) -> None:
    if loaded.lines:
        return
    if loaded.elsewhere:
        raise BadInput(
            f"all {loaded.elsewhere:,} lines are of another time, function or environment."
            " Leave --since, --function or --environment out"
        )
    place = where.place if where.log_group else "these files"
    hint = "Try an earlier --since, or truemem doctor" if where.log_group else "Try truemem doctor FILE"
    unread = f" ({not_read(loaded.unread)})" if loaded.unread else ""
    raise BadInput(f"no line of the sidecar in {place}{unread}. {hint}")


def _check_by(made: Report) -> None:
    if made.by is not None and all(part.value is None for part in made.parts):
        raise BadInput(
            f"--by {made.by}: no JSON line has it together with a request id (function_request_id, requestId,"
            " request_id or aws_request_id). Try a name from your own log lines, or tenantId"
        )
