"""One run's rows, its table and what each repair is worth; and all that is printed is text."""

import dataclasses
import io
from typing import Any

import pytest
from rich.console import Console
from truemem_workbench.demo.replay import (
    REPAIRS,
    Level,
    Outcome,
    _print,
    bar,
    chosen,
    effects,
    join,
    largest,
    level,
    table,
)
from truemem_workbench.demo.verdict import Row
from truemem_workbench.demo.workload import Call
from truemem_workbench.judge.heap import Heap
from truemem_workbench.local import Invocation
from truemem_workbench.printed.line import Line

from tests.demo.conftest import MakeRow

INCIDENT = {"LOAD_FROM": "bytes", "CACHE_SIZE": "16", "POP_BEFORE_LOAD": "false"}


def test_records_are_joined_by_request() -> None:
    def invocation(request: str, error: str | None = None) -> Invocation:
        payload = {"errorType": error} if error else {}
        return Invocation(request, payload, b"", "Unhandled" if error else None, 200, "arn")

    calls = [Call(1), Call(2), Call(3)]
    invocations = [invocation("a"), invocation("b", "Runtime.OutOfMemory"), invocation("c")]
    known: list[dict[str, Any]] = [
        {"request_id": "c", "peak_rss": 3},
        {"request_id": "a", "peak_rss": 1, "max_memory_used": 90},
    ]
    records = [Line(environment="", schema=1, **each) for each in known]

    rows = join(calls, invocations, records, {"a": 91, "b": 512, "c": 512})

    assert [(row.peak, row.mark, row.error) for row in rows] == [
        (1, 90, None),
        (None, 512, "Runtime.OutOfMemory"),
        (3, 512, None),
    ]


# --- the table --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "bars"), [(80, False), (110, True)])
def test_every_invocation_has_its_line(spike_run: list[Row], make_row: MakeRow, width: int, bars: bool) -> None:
    rows = [
        *spike_run,
        make_row(31, 1234.5, 1200.1, 1300, batch=2000, peakLower=1100, raced=True),
        make_row(32, 100, 90, 110, peakLower=99.6),  # no interval: what the kernel does not know anyway
        Row(number=33, call=Call(1), record=None, mark=1),
        Row(number=34, call=Call(1), record=None, mark=1, error="Runtime.ExitError"),
    ]
    stream = io.StringIO()
    Console(file=stream, width=width).print(table(rows, bars=bars))
    lines = [line.rstrip() for line in stream.getvalue().splitlines()]

    figures = [line.split()[:7] for line in lines if line.split() and line.split()[0].isdigit()]
    assert len(figures) == 34
    assert figures[31] == ["32", "32", "1", "100.0", "90.0", "110", "vmhwm"]
    assert [line.split()[0] for line in lines if "no record" in line] == ["33"]
    assert [line.split()[0] for line in lines if "ExitError" in line] == ["34"]
    assert figures[4] == ["5", "5", "4,000", "500.0", "201.0", "512", "vmhwm"]
    assert figures[5] == ["6", "6", "1", "210.0", "200.0", "512", "vmhwm"]
    assert any("1234.5 (1100-1234)" in line and "vmhwm, raced" in line for line in lines)
    assert ("█" in stream.getvalue()) == bars
    assert max(map(len, lines)) <= width


def test_the_bar_shows_current_peak_and_mark(make_row: MakeRow) -> None:
    row = make_row(1, peak=50, current=25, mark=100)
    assert bar(row, full=100).plain == "█" * 6 + "▒" * 6 + " " * 12 + "│"


def test_an_error_is_shown_and_not_obeyed(spike_run: list[Row], capsys: pytest.CaptureFixture[str]) -> None:
    error = "Runtime.[bold]\x1b[2J[/api]"
    rows = [dataclasses.replace(spike_run[0], error=error), *spike_run[1:]]
    outcome = Outcome(rows, [], "nothing", [f"notice {error}"], 1.0)
    _print(outcome, workload="w", settings="128 MiB", files=[], after=None)

    out = capsys.readouterr().out
    shown = "Runtime.[bold]\\x1b[2J[/api]"
    assert "\x1b[2J" not in out
    assert f"notice {shown}" in " ".join(out.split())
    assert f"({shown})" in " ".join(out.split())
    assert "[bold]The ONNX" not in out


# --- the repairs ------------------------------------------------------------------------------------------------------


def test_each_repair_changes_one_setting_and_the_last_run_all() -> None:
    runs = chosen(INCIDENT)
    assert list(runs) == [*REPAIRS, "all of them"]
    for words in REPAIRS:
        assert len(runs[words].items() - INCIDENT.items()) == 1, words
    all_of_them = {"LOAD_FROM": "path", "CACHE_SIZE": "8", "POP_BEFORE_LOAD": "true", "MMAP_THRESHOLD": "32768"}
    assert runs["all of them"] == all_of_them


def test_what_is_repaired_already_is_not_run_again() -> None:
    repaired = chosen(INCIDENT)["all of them"]
    assert chosen(repaired) == {}
    assert list(chosen({**repaired, "LOAD_FROM": "bytes"})) == ["a file, not its bytes"]


def test_the_table_says_what_was_and_what_is_and_fits_a_terminal(make_row: MakeRow) -> None:
    def run(current: float, held: float | None) -> Level:
        heap = {} if held is None else {"heap": {"inUse": 60, "held": held, "mapped": 40}}
        found = level([make_row(n, peak=1000, current=current, mark=1200, **heap) for n in range(1, 21)])
        assert found is not None
        return found

    console = Console(width=80)
    table = effects(run(1290, 34), {"blocks from 32 KiB mapped": run(1266, 2), "no probe": run(1266, None)})
    with console.capture() as captured:
        console.print(table)
    *_, mapped, bare = [line for line in captured.get().splitlines() if "→" in line]
    assert mapped.strip().startswith("blocks from 32 KiB mapped  ")
    changes = [part.strip() for part in mapped.split("  ") if "→" in part]
    assert changes == ["1290 → 1266", "1200 → 1200", "100 → 100", "34 → 2"]
    assert bare.split()[-2:] == ["-", "-"]
    assert "…" not in captured.get()


def test_the_repair_with_the_largest_effect_is_named() -> None:
    def run(current: float, held: float, mark: float = 1200) -> Level:
        return Level(current=current, mark=mark, heap=Heap(used=100, held=held))

    after = {"a cache of 8": run(900, 33), "blocks from 32 KiB mapped": run(1266, 2), "all of them": run(500, 1)}
    assert largest(run(1290, 34), after) == [
        "Most for what it leaves behind: a cache of 8, 1290 → 900 MiB.",
        "Most for what malloc holds: blocks from 32 KiB mapped, 34 → 2 MiB.",
    ]


def test_a_run_without_records_has_no_level() -> None:
    assert level([]) is None
