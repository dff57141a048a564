"""A measurement with its findings. All outputs are made from it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..explain.explanation import Explanation
from ..support.untrusted_text import visible
from . import resources
from .growth import Finding
from .measurement import Measurement
from .text import curve

KEPT, BROKEN, UNKNOWN = 0, 1, 2
"""Exit codes."""


@dataclass(frozen=True)
class Result:
    measurement: Measurement
    findings: Sequence[Finding]
    source: Path | None = None
    """File of the handler, for annotations."""
    line: int | None = None
    explanation: Explanation | None = None
    """Which lines hold what grew, if that was asked for and something grew."""

    @property
    def exit_code(self) -> int:
        outcomes = {finding.outcome for finding in self.findings}
        return BROKEN if "broken" in outcomes else UNKNOWN if "unknown" in outcomes else KEPT

    @property
    def grows(self) -> bool:
        """True if there is something to explain: it grows, or a limit was broken."""
        return self.exit_code == BROKEN or self.measurement.verdict.name == "growing"

    @property
    def headline(self) -> str:
        """The result in one line."""
        word = ("passed", "FAILED", "could not be measured")[self.exit_code]
        counted = f"{len(self.measurement.judged)} invocations after {self.measurement.warm_up} to warm up"
        return f"{self.measurement.spec} {word}: {counted}, {self.measurement.seconds:.0f} s"

    def curves(self, *, plain: bool = False) -> list[str]:
        """Curves of current and peak over the judged invocations: a line each, with first and last value."""
        measured = self.measurement.drawn
        lines = []
        for name, values in (
            ("current", [line.current_rss for line in measured if line.current_rss is not None]),
            ("peak", [line.peak_rss for line in measured if line.peak_rss is not None]),
        ):
            if values:
                drawn = curve(values, plain=plain, highest=name == "peak")
                lines.append(f"{name:7} {values[0]:7.1f} {drawn} {values[-1]:.1f} MiB")
        return lines

    def sentences(self) -> list[str]:
        """A sentence for each limit that was not kept, or else the verdict; and where growth is explained."""
        verdict = self.measurement.verdict
        said = [finding.sentence for finding in self.findings if finding.outcome != "kept"] or [verdict.sentence()]
        if self.measurement.heap:
            said.append(self.measurement.heap)
        found = self.measurement.runtime_heap
        if verdict.name == "growing" or (found is not None and found.matters):
            said.append(f"What to do about it: docs/patterns.md#{found.pattern if found else verdict.pattern}")
        return said

    def log(self) -> list[str]:
        """The end of the log of the last failed invocation, if failures are a finding."""
        failures = self.measurement.failures
        if not any(finding.name == "errors" for finding in self.findings) or not failures[-1].log:
            return []
        return [f"The log of invocation {failures[-1].number} ends:", *(f"  {line}" for line in failures[-1].log)]

    def text(self) -> str:
        """The whole result as text, for a failing test."""
        marks = {"kept": "kept", "broken": "BROKEN", "unknown": "unknown"}
        rows = [(each.name, each.allowed, each.measured, marks[each.outcome]) for each in self.findings]
        titles = ("limit", "allowed", "measured", "")
        widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
        table = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in (titles, *rows)]
        explained = self.explanation.lines() if self.explanation else []
        parts = [[self.headline], table, self.curves(), [*self.sentences(), *self.notices()], explained, self.log()]
        return "\n\n".join("\n".join(map(visible, part)) for part in parts if part)

    def notices(self) -> list[str]:
        """What makes the measurement less reliable."""
        notices = [*self.measurement.notices, *(finding.note for finding in self.findings if finding.note)]
        if not any(finding.name == "max-descriptors-drift" for finding in self.findings):
            notices += resources.notices([each.line for each in self.measurement.judged])
        if more := self.measurement.more:
            notices.append(f"{self.measurement.asked} invocations did not decide it: {more} more were made")
        if uncertain := self.measurement.uncertain_peaks:
            notices.append(
                f"{uncertain} of {len(self.measurement.seen)} peaks are intervals: a limit within one is undecided"
            )
        if self.measurement.seen and (lost := self.measurement.invocations - len(self.measurement.seen)):
            notices.append(f"{lost} of {self.measurement.invocations} invocations have no record")
        if (several := self.measurement.environments) > 1:
            notices.append(f"{several} environments served: drift is that of the one that served most")
        return notices

    def document(self) -> dict[str, object]:
        """The document for `--json`. Unknown values are left out."""
        measured, verdict = self.measurement, self.measurement.verdict
        drift = {
            "verdict": verdict.name,
            "perInvocationKiB": verdict.per_invocation_kib,
            "low": verdict.low_kib,
            "high": verdict.high_kib,
            "perMinuteKiB": verdict.per_minute_kib,
            "invocationsLeft": verdict.invocations_left,
            "confidence": verdict.confidence,
            "since": verdict.since,
            "grownKiB": verdict.grown_kib,
            "explained": verdict.explained,
            "ended": verdict.ended,
        }
        document = {
            "checked": measured.spec,
            "outcome": ("passed", "failed", "unknown")[self.exit_code],
            "invocations": measured.invocations,
            "warmUp": measured.warm_up,
            "asked": measured.asked,
            "judged": len(measured.judged),
            "records": len(measured.seen),
            "seconds": round(measured.seconds, 1),
            "memorySize": measured.memory_mib,
            "peak": measured.peak[1] if measured.peak else None,
            "peakIn": measured.peak[0] if measured.peak else None,
            "current": measured.usual_current,
            "highestCurrent": measured.highest_current,
            "drift": _known(drift),
            "sentence": verdict.sentence(),
            "heap": measured.heap,
            "findings": [_known({**vars(finding), "why": None}) for finding in self.findings],
            "notices": self.notices(),
            "log": self.log() or None,
            "explanation": self.explanation.document() if self.explanation else None,
            "currents": [round(line.current_rss, 2) for line in measured.drawn if line.current_rss is not None],
            "peaks": [round(line.peak_rss, 2) for line in measured.drawn if line.peak_rss is not None],
        }
        return _known(document)


def _known(members: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in members.items() if value is not None}
