"""What the first record of a newly attached function says, for `truemem doctor --follow`. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..support.amounts import mib, whole
from .diagnosis import Diagnosis
from .log_diagnosis import METHODS

if TYPE_CHECKING:
    from ..lines.line import Line


def of_first(line: Line, command: str) -> Iterator[Diagnosis]:
    """Whether it measures, how, and the first peak beside the mark. `command` is what shows more."""
    method = line.method or "none"
    evidence = f"request {line.request_id}" if line.request_id else ""
    if line.peak_rss is None:
        yield Diagnosis("problem", "The sidecar runs, and could not measure the first invocation.", command, evidence)
        return
    yield Diagnosis("ok", "The sidecar measures this function.", evidence=evidence)
    yield Diagnosis(
        "note" if method == "sampled" else "ok", f"Method: {method}, {METHODS.get(method, 'not known here')}."
    )
    yield _mode(line)
    limit = f" of {whole(line.memory_limit)} MiB" if line.memory_limit else ""
    left = "" if line.current_rss is None else f", {mib(line.current_rss)} MiB left behind"
    yield Diagnosis("ok", f"First peak: {mib(line.peak_rss)} MiB{limit}{left}.")
    if line.max_memory_used is None:
        yield Diagnosis("note", "No Max Memory Used beside it: no REPORT came for this invocation.", command)
    else:
        mark = f"Max Memory Used beside it: {whole(line.max_memory_used)} MB"
        yield Diagnosis("ok", f"{mark}, the environment's high-water mark, which never falls.", command)


def _mode(line: Line) -> Diagnosis:
    if line.mode == "exact":
        return Diagnosis("ok", "Exact mode: both ends of each invocation are seen.")
    lower, upper = line.bounds
    if line.wide and upper < float("inf"):
        return Diagnosis("note", f"Default mode: this peak is known to lie between {mib(lower)} and {mib(upper)} MiB.")
    return Diagnosis(
        "note" if line.wide else "ok", "Default mode: a peak can be an interval. --exact makes it a figure."
    )
