"""Replays the calls, and shows what was measured: a table, a verdict and a picture, or one JSON document."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click
from rich import box
from rich.table import Table
from rich.text import Text

from ..judge import heap as heaps
from ..judge.causes import find
from ..judge.curves import curves_of
from ..judge.finding import Commands, Finding
from ..local import Function, Invocation
from ..local.processes.tmp import elsewhere
from ..printed.line import Line, parse_event, parse_line
from ..runs.here import Run
from ..support import terminal
from ..support.bad_input import BadInput
from ..support.terminal import Progress
from ..support.untrusted_text import visible
from ..target.target import Target
from .verdict import TAIL, Row, complete, headline, verdict
from .workload import MODELS, Call, describe

COMMANDS = Commands(
    again="truemem demo",
    longer="truemem demo --invocations 400",
    repair="truemem demo --repairs",
    size="truemem demo --repairs",
)
METHODS = {
    "vmhwm": "kept by the kernel (vmhwm)",
    "vmhwm-threads": "between bounds, as threads hide a part (vmhwm-threads)",
    "vmhwm-sum": "summed over processes, upper bound (vmhwm-sum)",
    "sampled": "sampled, lower bound",
}
BAR = 24
"""Length of the longest bar in characters."""
FIRST, LAST = 40, 20
"""Rows at the begin and at the end. The picture has all."""
DOUBT = 0.5
"""Bounds are printed if they are this far apart. Less is the kernel's own slack."""
REPAIRS: Mapping[str, Mapping[str, str]] = {
    "a cache of 8": {"CACHE_SIZE": "8"},
    "a file, not its bytes": {"LOAD_FROM": "path"},
    "the old session dropped first": {"POP_BEFORE_LOAD": "true"},
    "blocks from 32 KiB mapped": {"MMAP_THRESHOLD": "32768"},
}
"""The sample's variables for each repair (sample_function/README.md names the lines)."""
TOGETHER = "all of them"
WORTH_SAYING = 0.05
"""A figure that falls by less than this share counts as unchanged."""
ALL: Mapping[str, str] = {name: value for variables in REPAIRS.values() for name, value in variables.items()}
HERE = Path(__file__).parent
ROOT = HERE if (HERE / "sample_function").is_dir() else HERE.parents[2]
"""Folder of the sample: this one in a wheel (setup.py), or that of the checkout."""
SAMPLE = ROOT / "sample_function"
PROBE = ROOT / "layer" / "python"
"""Folder of the probe. The function has it on its path, as from a layer."""


@dataclass(frozen=True)
class Outcome:
    """The results of a run."""

    rows: list[Row]
    lines: list[str]
    """The sidecar's EMF lines, as printed."""
    last_words: str
    """The sidecar's last line of any kind."""
    notices: list[str]
    """What this machine does not permit."""
    seconds: float
    """Time from the first invocation to the last."""


def replay(
    calls: Sequence[Call],
    variables: Mapping[str, str],
    *,
    memory_mib: int,
    output: Path,
    as_document: bool,
    repairs: bool,
) -> None:
    """Run the calls, print, and write the picture and the lines to the folder `output`. Raises BadInput."""
    workload = describe(calls)
    try:
        output.mkdir(parents=True, exist_ok=True)
        with terminal.steps() as progress:
            outcome = run(calls, memory_mib=memory_mib, variables=variables, progress=progress)
            others = chosen(variables) if repairs else {}
            repaired = {
                words: level(run(calls, memory_mib=memory_mib, variables=changed, progress=progress).rows)
                for words, changed in others.items()
            }
        from .picture import draw  # matplotlib takes a second

        picture, lines = output / "memory.png", output / "truemem.emf.jsonl"
        draw(outcome.rows, picture, memory_mib=memory_mib, subtitle=_subtitle(outcome, memory_mib, variables))
        lines.write_text("".join(f"{line}\n" for line in outcome.lines), encoding="utf-8")
    except OSError as problem:
        raise BadInput(f"cannot write to {output}: {problem.strerror or problem}. Try --output FOLDER") from None

    after = {words: found for words, found in repaired.items() if found is not None} if repairs else None
    if as_document:
        document = {
            "workload": workload,
            "memory": memory_mib,
            "variables": variables,
            "seconds": round(outcome.seconds, 1),
            "invocations": [as_json(row) for row in outcome.rows],
            "headline": headline(outcome.rows),
            "verdict": verdict(outcome.rows),
            "finding": _finding(outcome).document(),
            "repairs": {words: found.figures() for words, found in (after or {}).items()},
            "notices": outcome.notices,
            "files": [str(picture), str(lines)],
        }
        click.echo(json.dumps(document, indent=2))
    else:
        _print(
            outcome, workload=workload, settings=_settings(memory_mib, variables), files=[picture, lines], after=after
        )
    if not outcome.lines:
        raise BadInput(f"the sidecar printed no record; the last it said: {outcome.last_words}")


def _print(
    outcome: Outcome, *, workload: str, settings: str, files: list[Path], after: Mapping[str, Level] | None
) -> None:
    console = terminal.console()
    console.print()
    console.print(Text.assemble(("The ONNX sample under the local Lambda", "bold"), f": {settings}."))
    console.print(f"The calls: {workload}.")
    console.print(table(outcome.rows, bars=console.width >= 110 and console.encoding.startswith("utf")))
    console.print(
        "MiB. Peak and current: resident set of the function's processes. Max Memory Used: the whole environment's,"
        " page cache and sidecar included. In brackets: bounds of an uncertain peak."
    )
    console.print()
    for sentence in (*verdict(outcome.rows), _finding(outcome).paragraph()):
        console.print(_point(sentence))
    before = level(outcome.rows)
    if before and after:
        console.print()
        console.print("The same calls with one repair each, MiB at the end:")
        console.print(effects(before, after))
        for sentence in largest(before, after):
            console.print(_point(sentence))
    for notice in outcome.notices:
        console.print(f"On this machine: {notice}", style="dim")
    console.print()
    console.print(f"{len(outcome.rows)} invocations in {outcome.seconds:.0f} s. Written:")
    for path in files:
        console.print(f"  {path}", soft_wrap=True)


def _finding(outcome: Outcome) -> Finding:
    return find(curves_of(line for text in outcome.lines for line in parse_event(text)), COMMANDS)


def _point(sentence: str) -> Text:
    return Text.assemble(("-", "bold"), f" {visible(sentence)}")


def _settings(memory: int, variables: Mapping[str, str]) -> str:
    parts = [f"{memory} MiB", f"models from {variables['LOAD_FROM']}", f"cache of {variables['CACHE_SIZE']}"]
    if variables["POP_BEFORE_LOAD"] == "true":
        parts.append("evicted before loading")
    if threshold := variables.get("MMAP_THRESHOLD"):
        parts.append(f"mmap threshold {threshold}")
    return ", ".join(parts)


def _subtitle(outcome: Outcome, memory: int, variables: Mapping[str, str]) -> str:
    counted = Counter(row.record.method for row in outcome.rows if row.record and row.record.method)
    known = ", ".join(f"{number} {METHODS.get(name, name)}" for name, number in counted.most_common())
    peaks = f" Peaks: {known}." if known else ""
    return f"ONNX sample, local Lambda, {_settings(memory, variables)}.{peaks}"


def as_json(row: Row) -> dict[str, object]:
    """One row for `--json`, with the names of records. Unknown values are left out."""
    record = row.record
    members = {
        "invocation": row.number,
        **row.call.payload(),
        "peakRSS": row.peak,
        "peakLower": row.lower,
        "peakUpper": row.upper,
        "currentRSS": row.current,
        "maxMemoryUsed": row.mark,
        "method": record.method if record else None,
        "closedBy": record.closed_by if record else None,
        "raced": (record.raced or None) if record else None,
        "error": row.error,
    }
    return {name: value for name, value in members.items() if value is not None}


# --- one run ----------------------------------------------------------------------------------------------------------


def run(calls: Sequence[Call], *, memory_mib: int, variables: Mapping[str, str], progress: Progress) -> Outcome:
    """Make the models and run all calls. Nothing stays behind. Raises BadInput.

    With MODEL_BUCKET among the variables, the function reads the models from that bucket into an empty store.
    AWS_ENDPOINT_URL_S3 names another server than AWS.
    """
    with tempfile.TemporaryDirectory(prefix="truemem-demo-", dir=elsewhere()) as folder:
        Path(folder).chmod(0o1777)  # the function runs as another user
        if "MODEL_BUCKET" not in variables:
            _make_models(Path(folder), progress)
        function = Function.from_handler(f"{SAMPLE / 'app.py'}:handler")
        target = Target(
            spec="truemem demo",
            name="onnx-incident",
            function=replace(function, needs=(*function.needs, Path(folder))),
            memory_mib=memory_mib,
            timeout_s=60,
            environment={**variables, "MODEL_DIR": folder, "PYTHONPATH": str(PROBE)},
            probe=False,  # the sample loads it itself
        )
        progress("starting the environment", 0, len(calls))
        with Run(target, members={}) as here:
            started = time.monotonic()
            for number, call in enumerate(calls, 1):
                here.invoke(call.payload())
                progress("invoking", number, len(calls))
            seconds = time.monotonic() - started
        marks = {report.request_id: float(report.max_memory_used_mib) for report in here.local.reports}
        printed = [(line, parse_line(line)) for line in here.printed]
    records = [record for _, record in printed if record]
    return Outcome(
        rows=join(calls, here.answers, records, marks),
        lines=[line for line, record in printed if record],
        last_words=here.last_words,
        notices=here.notices,
        seconds=seconds,
    )


def join(
    calls: Sequence[Call],
    invocations: Sequence[Invocation],
    records: Sequence[Line],
    marks: Mapping[str, float],
) -> list[Row]:
    """Join calls, answers and records by request id. The last REPORT comes after its record: from `marks`."""
    by_request = {record.request_id: record for record in records}
    rows = []
    for number, (call, invocation) in enumerate(zip(calls, invocations, strict=True), 1):
        record = by_request.get(invocation.request_id)
        mark = record.max_memory_used if record else None
        mark = marks.get(invocation.request_id) if mark is None else mark
        rows.append(Row(number=number, call=call, record=record, mark=mark, error=_error(invocation)))
    return rows


def _error(invocation: Invocation) -> str | None:
    if invocation.function_error is None:
        return None
    payload = invocation.payload
    named = payload.get("errorType") if isinstance(payload, dict) else None
    return str(named or invocation.function_error)


def _make_models(folder: Path, progress: Progress) -> None:
    """Make all models by the sample's own command. Raises BadInput."""
    progress("making the models", 0, MODELS)
    command = [sys.executable, str(SAMPLE / "models.py"), "make", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as maker:
        assert maker.stdout is not None
        assert maker.stderr is not None
        for made, _ in enumerate(maker.stdout, 1):
            progress("making the models", made, MODELS)
        words = maker.stderr.read().strip()
    if maker.returncode:
        raise BadInput(
            f"the models could not be made ({words or maker.returncode}): they need 241 MiB in {folder.parent}"
        )


# --- the table --------------------------------------------------------------------------------------------------------


def table(rows: Sequence[Row], *, bars: bool) -> Table:
    """The table, in 80 columns, or with `bars` in 110."""
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for name in ("#", "model", "rows", "peak", "current", Text("Max Memory\nUsed")):
        grid.add_column(name, justify="right", no_wrap=True, vertical="bottom")
    grid.add_column("method", no_wrap=True, vertical="bottom")
    if bars:
        grid.add_column("█ current  ▒ peak  │ mark", no_wrap=True, vertical="bottom")
    full = max((value for row in rows for value in (row.mark, row.peak) if value), default=0.0)
    for row in _shown(rows):
        if row is None:
            grid.add_row("…")
            continue
        cells = [
            str(row.number),
            str(row.call.model),
            f"{row.call.batch:,}",
            peak(row),
            _figure(row.current),
            "-" if row.mark is None else f"{row.mark:.0f}",
            method(row),
        ]
        grid.add_row(*cells, *([bar(row, full)] if bars else []))
    return grid


def _shown(rows: Sequence[Row]) -> list[Row | None]:
    """The first rows and the last; None stands for those between."""
    return [*rows] if len(rows) <= FIRST + LAST else [*rows[:FIRST], None, *rows[-LAST:]]


def peak(row: Row) -> str:
    """The peak, with its bounds if they differ."""
    if row.lower is None or row.upper is None or row.upper - row.lower < DOUBT:
        return _figure(row.peak)
    return f"{_figure(row.peak)} ({row.lower:.0f}-{row.upper:.0f})"


def method(row: Row) -> str:
    """The method of the peak, or why there is none."""
    if row.error:
        return row.error.removeprefix("Runtime.")
    if row.record is None:
        return "no record"
    return f"{row.record.method or '-'}{', raced' if row.record.raced else ''}"


def bar(row: Row, full: float) -> Text:
    """A bar: current solid, up to the peak shaded, a line at the mark. `full` MiB are 24 characters."""
    if not full:
        return Text("")

    def cells(value: float | None) -> int:
        return round((value or 0) / full * BAR)

    solid, shaded = cells(row.current), max(cells(row.peak), cells(row.current))
    text = Text("█" * solid, style="bright_black")
    text.append("▒" * (shaded - solid), style="blue")
    if row.mark is not None:
        text.append(" " * max(0, cells(row.mark) - shaded))
        text.append("│", style="red")
    return text


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


# --- the repairs ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Level:
    """The memory at the end of one run, in MiB."""

    current: float
    """Median RSS that the last invocations left behind."""
    mark: float
    """Max Memory Used at the end."""
    heap: heaps.Heap | None
    """Median of the last readings. None without the probe."""

    def figures(self) -> dict[str, float]:
        """The figures by their names in records. Unknown figures are left out."""
        known = {"currentRSS": self.current, "maxMemoryUsed": self.mark}
        if self.heap is not None:
            known |= {"inUse": self.heap.used, "held": self.heap.held}
        return known


def level(rows: Sequence[Row]) -> Level | None:
    """The level of a run. None if nothing was measured."""
    seen = complete(rows)
    if not seen:
        return None
    found = heaps.malloc_heaps(row.record for row in rows if row.record)
    return Level(
        current=statistics.median(row.current for row in seen[-TAIL:]),
        mark=seen[-1].mark,
        heap=heaps.median_heap(found) if found else None,
    )


def chosen(variables: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The variables of a run for each repair that is not made already, and for all repairs together."""
    each = {
        words: {**variables, **changed}
        for words, changed in REPAIRS.items()
        if any(variables.get(name) != value for name, value in changed.items())
    }
    return each if len(each) < 2 else {**each, TOGETHER: {**variables, **ALL}}


def largest(before: Level, after: Mapping[str, Level]) -> list[str]:
    """For each figure, say which single repair lowers it most, if any does."""
    titles = {"currentRSS": "what it leaves behind", "held": "what malloc holds", "maxMemoryUsed": "the mark"}
    sentences = []
    for name, title in titles.items():
        was = before.figures().get(name)
        now = {
            words: repaired.figures()[name]
            for words, repaired in after.items()
            if words != TOGETHER and name in repaired.figures()
        }
        if was is None or not now:
            continue
        best = min(now, key=now.__getitem__)
        if now[best] < (1 - WORTH_SAYING) * was:
            sentences.append(f"Most for {title}: {best}, {was:.0f} → {now[best]:.0f} MiB.")
    return sentences


def effects(before: Level, after: Mapping[str, Level]) -> Table:
    """A table with a row for each repair: figures before and after."""
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    grid.add_column("", no_wrap=True)
    titles = {"currentRSS": "current", "maxMemoryUsed": "mark", "inUse": "in use", "held": "held"}
    for title in titles.values():
        grid.add_column(title, justify="right", no_wrap=True)
    was = before.figures()
    for words, repaired in after.items():
        now = repaired.figures()
        cells = [f"{was[name]:.0f} → {now[name]:.0f}" if name in was and name in now else "-" for name in titles]
        grid.add_row(words, *cells)
    return grid
