"""A measurement with its limits. All outputs are made from it. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from rich.table import Table

from ..judge.finding import Finding
from ..judge.latency import Figure, Latency, errors_figure, ms
from ..printed.running import ran_out_at
from ..runs.measurement import Measurement, curve
from ..runs.passes import BLOCK, full_by
from ..support.document import known_members
from ..support.terminal import counted
from .baseline import Baseline
from .limits import ERRORS, GROWTH, OUT_OF_MEMORY, P99, RECORDS, LimitCheck

KEPT, BROKEN, UNKNOWN = 0, 1, 2  # exit codes


def exit_code(limits: Sequence[LimitCheck]) -> int:
    """The exit code of the worst."""
    outcomes = {each.outcome for each in limits}
    return BROKEN if "broken" in outcomes else UNKNOWN if "unknown" in outcomes else KEPT


LOWER = 0.9  # a repair helps if RSS is below this part of what it was


class Explained(Protocol):
    """Which lines hold what grew: see `explain.explanation`."""

    def lines(self) -> list[str]: ...

    def named(self, finding: Finding) -> Finding: ...

    def annotations(self) -> list[tuple[Path, int, str]]: ...

    def document(self) -> dict[str, object]: ...


@dataclass(frozen=True, kw_only=True)
class Tried:
    """A run with a repair that is a setting, beside the one without."""

    setting: Mapping[str, str]
    before: Measurement
    after: Measurement

    @property
    def helps(self) -> bool:
        """True if what grew does not, what ran out of memory does not, or RSS ends at least a tenth lower."""
        was, now = self.before.finding, self.after.finding
        lower = self.after.untrimmed_mib < LOWER * self.before.untrimmed_mib
        lives = bool(self.before.out_of_memory) and not self.after.out_of_memory
        return (was.grows and not now.grows) or lives or lower

    @property
    def ends_it(self) -> bool:
        """True if nothing grows for certain, and no more invocations failed than without."""
        failed = [len(each.failures) / max(1, each.invocations) for each in (self.before, self.after)]
        return self.after.finding.cause in ("none", "cache", "collector") and failed[1] <= failed[0]

    @property
    def keeps_less(self) -> bool:
        """True if it still grows, and for certain by less."""
        was, now = self.before.finding, self.after.finding
        return now.grows and (now.high_kib or math.inf) < (was.low_kib or 0.0)

    @property
    def words(self) -> str:
        """The variables, as they are typed."""
        return " ".join(f"{name}={value}" for name, value in self.setting.items())

    def sentence(self) -> str:
        """Whether it helps, by what it saves, and what that costs in time."""
        helps = "The repair helps" if self.helps else "The repair does not help"
        levels = [each.untrimmed_mib for each in (self.before, self.after)]
        killed = [len(each.out_of_memory) for each in (self.before, self.after)]
        said = f"an invocation leaves {levels[1]:,.0f} MiB behind, without it {levels[0]:,.0f}"
        if killed[0]:
            said = f"it ran out of memory {counted(killed[1], 'time')}, without it {killed[0]:,}"
        elif self.before.finding.grows:
            before, after = self._rates
            said += f"; memory grows by {max(0.0, after):,.1f} KiB in each invocation, without it by {before:,.1f}"
        return f"{helps}: with {self.words} {said}.{self._price()}"

    def _price(self) -> str:
        """What it costs in time, by these two runs."""
        was, now = self.before.latency, self.after.latency
        if was is None or now is None:
            return ""
        figures = []
        for name in ("p50", "p99"):
            one, other = getattr(was, name), getattr(now, name)
            change = other.change(one)
            how = "within noise" if change == "alike" else change
            figures.append(f"{name} {ms(other.value)} ms, without it {ms(one.value)} ({how})")
        return f" Its price in time: {'; '.join(figures)}."

    @property
    def _rates(self) -> list[float]:
        """Growth per invocation without and with the setting, KiB: what the answer says, or else RSS."""
        return [
            each.finding.per_invocation_kib or each.verdict.per_invocation_kib or 0.0
            for each in (self.before, self.after)
        ]

    def document(self) -> dict[str, object]:
        was, now = self.before.latency, self.after.latency
        return known_members(
            {
                "setting": dict(self.setting),
                "helps": self.helps,
                "before": self._rates[0],
                "after": self._rates[1],
                "currentBefore": self.before.untrimmed_mib,
                "currentAfter": self.after.untrimmed_mib,
                "latencyBeforeMs": was.document() if was else None,
                "latencyAfterMs": now.document() if now else None,
                "sentence": self.sentence(),
                "finding": self.after.finding.document(),
            }
        )


def untried(finding: Finding, ran_out: bool = False) -> str:
    """Why no repair was tried, of a finding without a setting. `ran_out`: it ran out of memory."""
    why = "there is nothing to repair"
    if finding.cause == "failing":
        why = "the function fails, which comes first"
    elif finding.grows or ran_out:
        repair = finding.repair[:1].lower() + finding.repair[1:]
        why = f"no setting repairs {'a leak' if finding.cause in ('leak', 'native') else 'that'}"
        why += f". What does: {repair.rstrip('.')}" if repair else ""
    elif finding.cause == "undecided":
        why = "it is not decided yet what has to be repaired"
    return f"--try-repair tried nothing: {why}"


@dataclass(frozen=True)
class Result:
    measurement: Measurement
    limits: Sequence[LimitCheck]
    source: Path | None = None
    """File of the handler, for annotations."""
    line: int | None = None
    explanation: Explained | None = None
    """Which lines hold what grew, if that was asked for and something grew."""
    was: Baseline | None = None
    """What it is compared with."""
    tried: Tried | None = None
    """A run with the finding's repair, if that was asked for and there is one."""

    def explained(self, made: Explained) -> Result:
        """The same with the lines that hold what grew, in the sentence on growth too."""
        told = replace(
            self.measurement,
            commands=replace(self.measurement.commands, explain=""),  # that is done
        )
        return replace(self, measurement=told, explanation=made).retold()

    def retold(self) -> Result:
        """The same with what is known of the finding by now in the sentence on growth."""
        said = self.finding.paragraph()
        return replace(
            self, limits=[replace(each, sentence=said) if each.name == GROWTH else each for each in self.limits]
        )

    @property
    def spec(self) -> str:
        return self.measurement.spec

    @property
    def seconds(self) -> float:
        return self.measurement.seconds

    @property
    def exit_code(self) -> int:
        """No limit is kept for certain in a run that was ended early."""
        return exit_code(self.limits) or (UNKNOWN if self.measurement.signal else KEPT)

    @property
    def grows(self) -> bool:
        """True if lines of the function may explain it: it grows, not an extension, or a limit of memory was broken."""
        is_own = self.measurement.finding.cause != "extension"
        others = (P99, *ERRORS) if is_own else (GROWTH, P99, *ERRORS)
        if self.measurement.too_large and ran_out_at(each.line for each in self.measurement.seen):
            others = (*others, OUT_OF_MEMORY)  # its line is known
        broken = any(each.outcome == "broken" and each.name not in others for each in self.limits)
        return broken or (is_own and self.measurement.finding.grows)

    @property
    def finding(self) -> Finding:
        """With the line that holds what grew, if that was asked for and found."""
        finding = self.measurement.finding
        if self.tried is not None and not self.tried.helps:
            sweep = self.measurement.commands.sweep
            useless = f"{self.tried.words} was tried, and does not help."
            finding = replace(finding, repair=useless, setting={}, next=sweep or finding.next, next_when="")
        return finding if self.explanation is None else self.explanation.named(finding)

    @property
    def headline(self) -> str:
        """The result in one line."""
        word = ("passed", "FAILED", "could not be measured")[self.exit_code]
        if self.measurement.signal:
            word += " to the end" if self.exit_code == UNKNOWN else ", ended early"
        measured = self.measurement
        made = counted(measured.invocations, "invocation")
        if measured.shared:
            made = f"{measured.invocations:,} rounds of {counted(measured.shared.at_once, 'request')} at once"
        return f"{measured.spec} {word}: {made} ({measured.warm_up} to warm up), {measured.seconds:.0f} s"

    @property
    def figures(self) -> list[Figure]:
        """Latency and errors. A limit replaces the figure of its name."""
        measured, was = self.measurement, self.was
        found = measured.latency.figures(was.latency if was else None) if measured.latency else []
        found.append(errors_figure(len(measured.failures), measured.invocations, was.errors if was else None))
        limited = {each.name.removeprefix("max-") for each in self.limits}
        return [each for each in found if each.name not in limited]

    def tables(self) -> Sequence[Table]:
        """None: one environment serves."""
        return ()

    def curves(self, *, plain: bool = False) -> list[str]:
        """Curves of current, peak and duration over the judged invocations: a line each, with first and last value."""
        measured = self.measurement.drawn
        lines = []
        for name, unit, values in (
            ("current", "MiB", [line.current_rss for line in measured if line.current_rss is not None]),
            ("peak", "MiB", [line.peak_rss for line in measured if line.peak_rss is not None]),
            ("duration", "ms", self.measurement.durations),
        ):
            if values:
                drawn = curve(values, plain=plain, highest=name == "peak")
                lines.append(f"{name:8} {values[0]:7.1f} {drawn} {values[-1]:.1f} {unit}")
                if name == "peak" and self.measurement.out_of_memory and self.measurement.peak:
                    where, highest = self.measurement.peak  # of one that was killed, which no curve shows
                    lines[-1] += f"; {highest:,.1f} in {where}"
        return lines

    def sentences(self) -> list[str]:
        """The finding, and a sentence for each other limit that was not kept."""
        finding = self.finding
        killed = {each.number for each in self.measurement.failures} <= {*self.measurement.out_of_memory}
        covered = (GROWTH, RECORDS, *(ERRORS if finding.cause == "failing" or killed else ()))
        broken = [each for each in self.limits if each.outcome != "kept" and each.name not in covered]
        others = [each.sentence for each in broken if each.sentence != finding.title]
        tried = [self.tried.sentence()] if self.tried else []
        shared = self.measurement.shared
        held = [shared.sentence(self.measurement.memory_mib)] if shared else []
        return [finding.paragraph(), *tried, *others, *held]

    def log(self) -> list[str]:
        """The end of the log of the last failed invocation, if failures are a finding."""
        failures = self.measurement.failures
        if not any(each.name in ERRORS and each.outcome != "kept" for each in self.limits) or not failures[-1].log:
            return []
        return [f"The log of invocation {failures[-1].number} ends:", *(f"  {line}" for line in failures[-1].log)]

    def notices(self) -> list[str]:
        """What makes the measurement less reliable."""
        notices = [*self.measurement.notices, *(each.note for each in self.limits if each.note)]
        if self.measurement.shared:
            notices.append(
                "errors count rounds, the warm-up's too; growth is that of a worker with each request. A round's"
                " duration is that of its slowest request, and its peak is that of the environment"
            )
        elif most := self.measurement.served_at_once:
            notices.append(
                f"it is on Managed Instances, and {counted(most, 'request')} ran at once here: there all that run at"
                " once share its memory. Here, try truemem check app.py:handler --managed-instances N"
            )
        if slower := [each.name for each in self.figures if each.outcome == "slower"]:
            notices.append(
                f"{', '.join(slower)}: slower than in the baseline, by more than chance in both runs. On another"
                " machine, or a busy one, that says little; --max-p99 MS is a limit"
            )
        if self.measurement.finding.cause == "failing" and self.measurement.seen:
            notices.append("--allow-errors measures invocations that are meant to fail")
        if more := self._more():
            notices.append(
                f"{counted(self.measurement.asked or 0, 'invocation')} did not decide it: {more} more were made"
            )
        latency = self.measurement.latency
        if latency and latency.is_few and (left_out := self._left_out(latency)):
            notices.append(
                f"{counted(left_out, 'duration')} of {left_out + latency.invocations} are left out: there memory was"
                " settled, which takes time"
            )
        uncertain = self.measurement.uncertain_peaks
        if uncertain and any("peak" in each.name for each in self.limits):
            notices.append(
                f"{uncertain} of {len(self.measurement.seen)} peaks are intervals: a limit within one is undecided"
            )
        if self.measurement.seen and (lost := self.measurement.invocations - len(self.measurement.seen)):
            notices.append(f"{lost} of {self.measurement.invocations} invocations have no record")
        if (several := self.measurement.environments) > 1:
            notices.append(f"{several} environments served: drift is that of the one that served most")
        return notices

    def _more(self) -> int:
        """Number of invocations beyond those that were asked for, where that is news."""
        measured = self.measurement
        if not measured.asked:
            return 0
        made = measured.new_from - 1 if measured.new_from else measured.invocations
        most = max(measured.warm_up + measured.asked, full_by(measured.asked) if measured.finding.grows else 0)
        is_news = made > most + max(BLOCK, measured.asked // 10)  # one look more is none
        return made - measured.warm_up - measured.asked if is_news else 0

    def _latency(self) -> dict[str, float] | None:
        """Percentiles in ms, and of how many invocations after the warm-up."""
        latency = self.measurement.latency
        return {**latency.document(), "leftOut": self._left_out(latency)} if latency else None

    def _left_out(self, latency: Latency) -> int:
        """Number of invocations after the warm-up that have no duration here."""
        return self.measurement.invocations - self.measurement.warm_up - latency.invocations

    def baseline(self) -> Baseline | None:
        return Baseline.of(self.measurement)

    def document(self) -> dict[str, object]:
        """The document for `--json`. Unknown values are left out."""
        measured = self.measurement
        document = {
            "checked": measured.spec,
            "outcome": ("passed", "failed", "unknown")[self.exit_code],
            "invocations": measured.invocations,
            "warmUp": measured.warm_up,
            "asked": measured.asked,
            "judged": len(measured.judged),
            "notJudged": measured.invocations - measured.warm_up - len(measured.judged),
            "records": len(measured.seen),
            "seconds": round(measured.seconds, 1),
            "endedEarly": bool(measured.signal) or None,
            "memorySize": measured.memory_mib,
            "peak": measured.peak[1] if measured.peak else None,
            "peakIn": measured.peak[0] if measured.peak else None,
            "current": measured.usual_current,
            "highestCurrent": measured.highest_current,
            "latencyMs": self._latency(),
            "errors": {
                "count": len(measured.failures),
                "share": round(len(measured.failures) / max(1, measured.invocations), 4),
            },
            "managedInstances": measured.shared.document() if measured.shared else None,
            "finding": self.finding.document(),
            "tried": self.tried.document() if self.tried else None,
            "limits": [known_members({**vars(each), "why": None}) for each in self.limits],
            "notices": self.notices(),
            "log": self.log() or None,
            "explanation": self.explanation.document() if self.explanation else None,
            "currents": [round(line.current_rss, 2) for line in measured.drawn if line.current_rss is not None],
            "peaks": [round(line.peak_rss, 2) for line in measured.drawn if line.peak_rss is not None],
        }
        return known_members(document)
