"""Writes a report for programs: as JSON, or as CSV with one row per environment."""

from __future__ import annotations

import csv
import dataclasses
import json
from typing import Any, TextIO

import numpy as np

from ..support.untrusted_text import cell
from .compare import Comparison
from .summary import Environment, Report

CSV_COLUMNS = (
    "function",
    "version",
    "environmentId",
    "invocations",
    "peakP50",
    "peakP99",
    "peakMax",
    "currentFirst",
    "currentLast",
    "markFirst",
    "mark",
    "memorySize",
    "outOfMemory",
    "verdict",
    "perInvocationKiB",
    "lowKiB",
    "highKiB",
    "perMinuteKiB",
    "invocationsLeft",
    "firstMs",
    "lastMs",
)


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
    writer.writerow(CSV_COLUMNS)
    writer.writerows(map(cell, _row(each)) for each in report.environments)


def _row(each: Environment) -> tuple[Any, ...]:
    peaks, verdict = each.peaks, each.verdict
    return (
        each.function,
        each.version,
        each.environment_id,
        peaks.invocations,
        peaks.p50,
        peaks.p99,
        peaks.highest,
        each.current_first,
        each.current_last,
        each.mark_first,
        each.mark,
        each.size,
        peaks.out_of_memory,
        verdict.name,
        verdict.per_invocation_kib,
        verdict.low_kib,
        verdict.high_kib,
        verdict.per_minute_kib,
        verdict.invocations_left,
        each.first_ms,
        each.last_ms,
    )


def _plain(value: object) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} is no JSON")
