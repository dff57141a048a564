"""What a finite `truemem local run` showed: its last invocations, the finding and the sizes."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..judge.causes import find
from ..judge.curves import Curves, Failed, curves_of
from ..judge.finding import Commands, Finding, unmeasured
from ..judge.settled import Reading, last_life
from ..local import Invocation, Report
from ..local.errors import STOPPED_FAILURE
from ..printed.line import Line, parse_event
from ..printed.running import ran_out_at
from ..runs.measurement import printable
from ..support.terminal import counted, mib, whole

if TYPE_CHECKING:
    from rich.console import Console

SHOWN = 10
"""Most invocations in the table."""
LONGEST = 80
"""Most characters of the name of an error."""

_UNMEASURED = {
    True: "Undecided: the sidecar printed no record.",
    False: "Undecided: without the sidecar only the mark is known.",
}
"""The answer where nothing was measured, with the sidecar and without."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One invocation. Sizes in MiB, None if unknown."""

    number: int
    """Number of the invocation in this run, from 1."""
    peak: float | None
    bounds: tuple[float, float] | None
    """Lower and upper bound, if the peak is an interval."""
    current: float | None
    mark: int
    duration_ms: float
    status: str
    error: str = ""
    """Why it failed, if it did, and not for memory."""
    environment: str = ""
    """Id of the environment, where there may be several."""

    def document(self) -> dict[str, object]:
        """The row for `--json`, with the names of the sidecar's line. Unknown values are left out."""
        lower, upper = self.bounds or (None, None)
        members = {
            "invocation": self.number,
            "PeakRSS": self.peak,
            "peakLower": lower,
            "peakUpper": upper,
            "CurrentRSS": self.current,
            "MaxMemoryUsed": self.mark,
            "durationMs": round(self.duration_ms, 3),
            "status": self.status,
            "environment": self.environment or None,
        }
        return {name: value for name, value in members.items() if value is not None}

    def cells(self) -> list[str]:
        peak = mib(self.peak) + (f" ({mib(self.bounds[0])}-{mib(self.bounds[1])})" if self.bounds else "")
        cells = [str(self.number), peak, mib(self.current), whole(self.mark), f"{self.duration_ms:,.0f}", self.status]
        return [*cells, short(self.environment)] if self.environment else cells


@dataclass(frozen=True, kw_only=True)
class Summary:
    invocations: int
    failed: int
    last: Sequence[Row]
    finding: Finding
    sentences: Sequence[str] = ()
    """On the memory size."""
    findings: Mapping[str, Finding] = field(default_factory=dict)
    """The finding of each environment by its id, where there may be several."""
    early: str = ""
    """Why it has ended early; empty if it has not."""

    def document(self, files: Sequence[Path]) -> dict[str, object]:
        environments = [{"environment": name, **each.document()} for name, each in self.findings.items()]
        return {
            "invocations": self.invocations,
            "failed": self.failed,
            "last": [row.document() for row in self.last],
            "finding": self.finding.document(),
            "sentences": [*filter(None, [self.early]), *self.sentences],
            **({"endedEarly": True} if self.early else {}),
            "files": [str(path) for path in files],
            **({"environments": environments} if environments else {}),
        }

    def show(self, console: Console, files: Sequence[Path]) -> None:
        """Print it. `console` is one of `truemem_workbench.support.terminal`, which prints strings as they are."""
        from ..support.terminal import say, table  # rich is for the summary itself, not for every `truemem --help`

        some = f"The last {len(self.last)} of " if len(self.last) < self.invocations else ""
        named = ("environment",) if any(row.environment for row in self.last) else ()
        made = table("", (), ("#", "peak", "current", "mark", "ms"), ("status", *named))
        for row in self.last:
            made.add_row(*row.cells())
        console.print()
        console.print(f"{some}{counted(self.invocations, 'invocation')} (peak, current and mark in MiB):")
        console.print(made)
        found = [f"{short(name)}: {each.paragraph()}" for name, each in self.findings.items()]
        for sentence in (*filter(None, [self.early]), *(found or [self.finding.paragraph()]), *self.sentences):
            say(console, sentence, begin="- ")
        for path in files:
            console.print(f"Written: {path}", soft_wrap=True)


def summarise(
    reports: Sequence[Report],
    answers: Sequence[Invocation],
    printed: Sequence[str],
    commands: Commands,
    *,
    measured: bool = True,
    scaled: bool = False,
    settled: Sequence[Reading] = (),
    early: str = "",
    is_cut: bool = False,
) -> Summary:
    """Summarise a run that has ended. `printed`: the sidecar's stdout; `measured`: false if it was not attached.

    `scaled`: there may be several environments, and each has a finding. `settled`: what the one environment kept.
    `early`: a sentence on why it has ended early, because more would fail too or, if it `is_cut`, by a signal.
    """
    lines = {line.request_id: line for text in printed for line in parse_event(text)}
    answered = {answer.request_id: answer for answer in answers}
    rows = [
        _row(number, report, lines.get(report.request_id), answered.get(report.request_id), scaled=scaled)
        for number, report in enumerate(_counted(reports, answered, is_cut=is_cut), 1)
    ]
    by_environment, is_hopeless = _by_environment(printed, answered, scaled=scaled), bool(early) and not is_cut
    findings = _findings(by_environment, rows, commands, settled, is_hopeless=is_hopeless)
    # Of several the growing one, else the one that was looked at for longest.
    longest = sorted(findings, key=Counter(row.environment for row in rows).__getitem__, reverse=True)
    names = sorted(longest, key=lambda name: not findings[name].grows)
    if names:
        finding = findings[names[0]]
    elif any(row.error for row in rows):
        failed = replace(_failed(rows), in_init=True)
        finding = find(Curves(invocations=len(rows), failed=failed), commands)
    else:
        finding = unmeasured(_UNMEASURED[measured], commands if measured else replace(commands, silent=""))
    return Summary(
        invocations=len(rows),
        failed=sum(row.status != "success" for row in rows),
        last=rows[-SHOWN:],
        finding=finding,
        sentences=[*_ran_out(lines.values()), *(_on_size(printed, finding, commands) if names else [])],
        findings=findings if scaled else {},
        early=early,
    )


def _counted(reports: Sequence[Report], answered: Mapping[str, Invocation], *, is_cut: bool) -> list[Report]:
    """The reports of invocations that were answered; of a run that was cut without one that was stopped after its
    answer."""
    cut = STOPPED_FAILURE.error_type if is_cut else None
    kept = [each for each in reports if not answered or each.request_id in answered]
    return [each for each in kept if cut is None or each.error_type != cut or answered[each.request_id].error]


def _ran_out(lines: Iterable[Line]) -> list[str]:
    """Where memory ran out, if it did and that is known."""
    ran = ran_out_at(lines)
    return [f"Out of memory: {ran}"] if ran else []


def _row(number: int, report: Report, line: Line | None, answer: Invocation | None, *, scaled: bool) -> Row:
    return Row(
        number=number,
        peak=line.peak_rss if line else None,
        bounds=line.bounds if line and line.wide and math.isfinite(line.bounds[1]) else None,
        current=line.current_rss if line else None,
        mark=report.max_memory_used_mib,
        duration_ms=report.duration_ms,
        status=_status(report, answer),
        error=_error(report, answer) if line is None or not line.out_of_memory else "",
        environment=answer.environment if answer and scaled else "",
    )


def _status(report: Report, answer: Invocation | None) -> str:
    """The platform's status and error type. For the platform, a handler that raises is a success."""
    if report.status != "success":
        return ", ".join(filter(None, (report.status, report.error_type)))
    if answer is None or answer.function_error is None:
        return report.status
    payload = answer.payload
    named = payload.get("errorType") if isinstance(payload, Mapping) else None
    return f"error, {str(named or answer.function_error)[:LONGEST]}"


def _error(report: Report, answer: Invocation | None) -> str:
    """What a failed invocation said; empty for one that did not fail."""
    if answer is not None and answer.error:
        return answer.error
    return "" if report.status == "success" else report.error_type or report.status


def _by_environment(
    printed: Sequence[str], answered: Mapping[str, Invocation], *, scaled: bool
) -> dict[str, list[Line]]:
    """The lines of each environment by its id, without those of an invocation that was cut off. If it is not `scaled`
    there is one, whose name is empty.

    The id is from the answers: a restored environment has another one in its lines.
    """
    found: dict[str, list[Line]] = {}
    names: dict[str, str] = {}
    for line in (line for text in printed for line in parse_event(text)):
        answer = answered.get(line.request_id or "")
        if answer is not None and scaled:
            names[line.environment] = answer.environment
        is_cut = bool(answered) and answer is None and line.request_id is not None
        if line.environment in names if scaled else not is_cut:
            found.setdefault(names.get(line.environment, ""), []).append(line)
    return found


def _findings(
    lines: Mapping[str, Sequence[Line]],
    rows: Sequence[Row],
    commands: Commands,
    settled: Sequence[Reading],
    *,
    is_hopeless: bool,
) -> dict[str, Finding]:
    """The finding of each environment."""
    findings = {}
    for name, own in lines.items():
        of_it = [row for row in rows if row.environment == name]
        failed, curves = replace(_failed(of_it), is_hopeless=is_hopeless), curves_of(own)
        if failed.count:  # of one that was cut off there may be no line
            curves = replace(curves, failed=failed, invocations=len(of_it))
        findings[name] = find(replace(curves, settled=last_life(settled) or curves.settled), commands)
    return findings


def _failed(rows: Sequence[Row]) -> Failed:
    return Failed.with_errors([printable(row.error) for row in rows if row.error])


def _on_size(printed: Sequence[str], finding: Finding, commands: Commands) -> list[str]:
    """The sentences of `truemem report` on the size."""
    if finding.grows or finding.cause in ("failing", "undecided"):
        return []
    from ..judge.sizing import HEADROOM, of_memory
    from ..printed.reader import Job
    from ..report.collect import collect  # numpy takes a tenth of a second

    with tempfile.TemporaryDirectory(prefix="truemem-summary-") as folder:
        path = Path(folder) / "lines.log"
        path.write_text("".join(f"{text}\n" for text in printed), encoding="utf-8", errors="replace")
        report = collect([path], Job())
    said = [sentence for each in report.functions for sentence in of_memory(each.sizing, HEADROOM)]
    if any(each.sizing.can_shrink for each in report.functions):
        # durations here are not those of Lambda: nothing is predicted from them
        said.append(f"Less memory is less CPU. Measure sizes: {commands.sweep}")
    return said


def short(environment: str) -> str:
    """An environment's name for a table."""
    return environment[:6]
