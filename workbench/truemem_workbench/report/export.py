"""Prints a report or writes it to a file; for programs as JSON, or as CSV with one row per environment."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import sys
from operator import attrgetter
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from ..aws.objects import is_object, put
from ..support.bad_input import BadInput
from ..support.terminal import output
from ..support.untrusted_text import cell
from .actions import in_one_line
from .render import View, show
from .sentences import sentences
from .summary import Report

_CSV = {
    "function": "function",
    "version": "version",
    "environmentId": "environment_id",
    "invocations": "peaks.invocations",
    "peakP50": "peaks.p50",
    "peakP99": "peaks.p99",
    "peakMax": "peaks.highest",
    "currentFirst": "current_first",
    "currentLast": "current_last",
    "markFirst": "mark_first",
    "mark": "mark",
    "memorySize": "size",
    "outOfMemory": "peaks.out_of_memory",
    "cause": "finding.cause",
    "holder": "finding.holder",
    "perInvocationKiB": "finding.per_invocation_kib",
    "lowKiB": "finding.low_kib",
    "highKiB": "finding.high_kib",
    "invocationsLeft": "finding.invocations_left",
    "confidence": "finding.confidence",
    "hidden": "finding.hidden",
    "firstMs": "first_ms",
    "lastMs": "last_ms",
}
"""Columns of the CSV, and the attribute of an Environment that each shows."""


def print_as(view: View, form: str) -> None:
    """Print the report as `text`, `line`, `csv` or `json`."""
    if form == "text":
        show(view, output())
    elif form == "line":
        output().print(in_one_line(view.report, view.actions), soft_wrap=True)
    else:
        _write(view, form, sys.stdout)


def write(view: View, path: Path) -> None:
    """Write it as JSON or CSV, as the file's ending says; `s3://bucket/key` is an object. Raises BadInput."""
    form = path.suffix.lower().removeprefix(".")
    if is_object(path):
        text = io.StringIO(newline="")
        _write(view, form, text)
        put(path, text.getvalue())
        return
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            _write(view, form, file)
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}") from error


def _write(view: View, form: str, file: TextIO) -> None:
    if form == "csv":
        to_csv(view.report, file)
    else:
        to_json(view, file)


def to_json(view: View, file: TextIO) -> None:
    """Write the whole report as JSON. Sizes in MiB, names as in the code, unknown figures null."""
    report = view.report
    document = {
        "summary": in_one_line(report, view.actions),
        "actions": [
            {"function": each.function.function, "version": each.function.version, "need": each.need.text}
            | {"text": each.text}
            for each in view.actions
        ],
        **dataclasses.asdict(report),
        "sentences": list(sentences(report, view.headroom)),
    }
    for kind in ("functions", "environments"):
        for made, each in zip(document[kind], getattr(report, kind), strict=True):
            made["finding"] = each.finding.document()
    if view.comparison is not None:
        document["comparison"] = {**dataclasses.asdict(view.comparison), "sentence": view.comparison.sentence()}
    if view.changes is not None:
        document["changes"] = dataclasses.asdict(view.changes)
    json.dump(document, file, indent=2, default=_plain)
    file.write("\n")


def to_csv(report: Report, file: TextIO) -> None:
    """Write one row per environment, the most urgent first. Sizes in MiB, unknown figures empty."""
    writer = csv.writer(file)
    writer.writerow(_CSV)
    row = attrgetter(*_CSV.values())
    writer.writerows(map(cell, row(each)) for each in report.environments)


def _plain(value: object) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} is no JSON")
