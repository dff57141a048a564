"""`truemem metrics` against moto's CloudWatch."""

import json
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem_workbench.commands.metrics import fetch, period_s
from truemem_workbench.support.options import since_ms

from tests.report.conftest import Command

HOUR = 3600


def put_metrics(aws: Callable[[str], Any], function: str, at: datetime, **metrics: list[float]) -> None:
    about = {"Dimensions": [{"Name": "FunctionName", "Value": function}], "Timestamp": at, "Unit": "Megabytes"}
    data = [{**about, "MetricName": name, "Value": value} for name, values in metrics.items() for value in values]
    aws("cloudwatch").put_metric_data(Namespace="truemem", MetricData=data)


@pytest.fixture
def stored(aws: Callable[[str], Any]) -> None:
    """Two minutes with a spike in the second, an hour ago."""
    minute = (datetime.now(UTC) - timedelta(hours=1)).replace(second=0, microsecond=0)
    for number, peaks in enumerate([[100.0, 110.0, 120.0], [100.0, 700.0, 110.0]]):
        at = minute + timedelta(minutes=number)
        put_metrics(aws, "spiky", at, PeakRSS=peaks, CurrentRSS=[90.0] * 3, MaxMemoryUsed=[720.0] * 3)


def test_metrics_are_told_by_time(truemem: Command, stored: None) -> None:
    ran = truemem("metrics", "spiky", "--json")

    first, second = map(json.loads, ran.out.splitlines())
    assert (first["invocations"], first["peak_mean"], first["peak_max"], first["current_max"]) == (3, 110, 120, 90)
    assert (second["invocations"], second["peak_max"], second["mark_max"]) == (3, 700, 720)
    assert "│" in truemem("metrics", "spiky").out


@pytest.mark.parametrize("columns", ["80", ""])
def test_a_row_is_whole_in_a_terminal_and_in_a_pipe(
    columns: str, truemem: Command, stored: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    out = truemem("metrics", "spiky").out

    assert "…" not in out
    assert len(re.findall(r"\d\d-\d\d[ T]\d\d:\d\dZ? ", out)) == 2
    assert re.search(r" 700\.0 +90\.0 +720\.0 +- +█{19}│", out)
    assert max(map(len, out.splitlines())) <= int(columns or 140)


def test_a_function_without_metrics_is_sent_to_the_doctor(truemem: Command, stored: None) -> None:
    ran = truemem("metrics", "unknown")

    assert (ran.code, ran.out) == (2, "")
    assert "no metric of unknown in the namespace truemem since then. Try --since 7d, or truemem doctor unk" in ran.err


@pytest.mark.parametrize(
    ("span_h", "period"), [(1, 60), (3, 60), (12, 300), (24, 3600), (7 * 24, 3600), (60 * 24, 86_400)]
)
def test_the_longer_the_time_the_longer_the_period(span_h: float, period: int) -> None:
    assert period_s(0, span_h * HOUR) == period


@given(now_s=st.floats(1.7e9, 2.2e9))
def test_hours_ago_are_whole_hours_at_any_moment(now_s: float) -> None:
    assert [period_s(since_ms(ago, now_s * 1000) / 1000, now_s) for ago in ("3h", "15h")] == [60, 300]


def test_the_hour_in_which_summer_time_ends_has_each_minute_once(
    aws: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """boto3 gives local times, which are ambiguous then."""
    at = datetime(2026, 11, 1, 3, 40, tzinfo=UTC)
    monkeypatch.setenv("TZ", "America/St_Johns")
    time.tzset()
    try:
        put_metrics(aws, "late", at, PeakRSS=[90.0], CurrentRSS=[90.0])
        (moment,) = fetch("late", "truemem", at.timestamp() - HOUR, at.timestamp() + HOUR)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert (moment.time, moment.peak_max, moment.current_max) == ("2026-11-01T03:40Z", 90, 90)
