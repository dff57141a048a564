"""Writes a report for programs: as JSON, or as CSV with one row per environment."""

from __future__ import annotations

import csv
import dataclasses
import json
from operator import attrgetter
from typing import Any, TextIO

import numpy as np

from ..support.untrusted_text import cell
from .compare import Comparison
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
    "verdict": "verdict.name",
    "perInvocationKiB": "verdict.per_invocation_kib",
    "lowKiB": "verdict.low_kib",
    "highKiB": "verdict.high_kib",
    "perMinuteKiB": "verdict.per_minute_kib",
    "invocationsLeft": "verdict.invocations_left",
    "firstMs": "first_ms",
    "lastMs": "last_ms",
}
"""Columns of the CSV, and the attribute of an Environment that each shows."""


def to_json(report: Report, comparison: Comparison | None, sentences: list[str], file: TextIO) -> None:
    """Write the whole report as JSON. Sizes in MiB, names as in the code, unknown figures null."""
    document = {**dataclasses.asdict(report), "sentences": sentences}
    for made, environment in zip(document["environments"], report.environments, strict=True):
        made["verdict"]["sentence"] = environment.verdict.sentence()
    if comparison is not None:
        document["comparison"] = {**dataclasses.asdict(comparison), "sentence": comparison.sentence()}
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
