"""Tries memory sizes under the local Lambda, each with its share of CPU.

Each size is tried twice: with the sidecar, which says its peak, and then without it, so that a duration is the
function's own. The second time all sizes take turns, round after round: what else this machine does meets all of them.
"""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
from truemem.config import VCPU_MIB
from truemem.verdict import GROWING_FROM

from ..judge.finding import TOO_FEW, Commands, Finding
from ..judge.sizing import HEADROOM, rounded_size
from ..judge.thresholds import COMPARED
from ..runs.here import Run
from ..runs.measurement import Measurement, printable
from ..runs.passes import in_a_pass
from ..support.bad_input import BadInput
from ..support.exit_codes import Ended
from ..support.platform_facts import LEAST_MIB, MOST_MIB, NEW_ACCOUNT_MIB
from ..support.terminal import Progress, counted
from ..target.resolve import TEMPLATES
from ..target.target import Target
from .choice import Trial

LADDER = (LEAST_MIB, 256, 512, 1024, VCPU_MIB, NEW_ACCOUNT_MIB, 3 * VCPU_MIB, 4 * VCPU_MIB, MOST_MIB)
INVOCATIONS = 50
WARM_UP = 3
"""Invocations at each size whose durations do not count: the first ones import and connect."""
JUDGED, UNJUDGED, JUDGE_S = GROWING_FROM + 20, 20, 60.0
"""First of all it is asked whether memory grows: so many invocations, of which the first do not count, or those of so
many seconds."""
LOOKS_FOR_PEAK = 10
"""Invocations at each size that look for its peak, or as many as there are events."""
LEAST_ROUNDS, PATIENCE_S = 10, 300.0
"""If no number was asked for: the rounds end after so many seconds, and this number of them."""
BUSY = 0.5
"""Load of each CPU from which on the CPU of large sizes is not there."""
SPARE = 0.7
"""Share of this machine's free memory that all environments together may take."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    invocations: int | None = None
    """At each size, after the warm-up. None: INVOCATIONS, or those of five minutes."""
    warm_up: int = WARM_UP

    @property
    def rounds(self) -> int:
        return self.invocations or INVOCATIONS

    def looks(self, events: int) -> int:
        """Invocations that look for the peak: as many as are timed, if those are enough for a finding."""
        most = self.warm_up + self.rounds
        return most if self.rounds >= GROWING_FROM else min(most, max(LOOKS_FOR_PEAK, events))

    def is_over(self, done: int, seconds: float) -> bool:
        """True if so many rounds are enough, which took so long."""
        return self.invocations is None and done >= LEAST_ROUNDS and seconds > PATIENCE_S

    def cut(self, done: int) -> str:
        """Says that it is over, after so many rounds."""
        return (
            f"after {PATIENCE_S / 60:.0f} minutes it ended with {done} of {self.rounds} timed invocations a size."
            " --invocations N has no such limit"
        )


@dataclass(frozen=True, kw_only=True)
class Sweep:
    trials: Sequence[Trial]
    notices: Sequence[str]
    signal: int = 0
    """Number of the signal that has ended it early; 0 if none has."""
    failed: bool = False
    """True if an error has ended it early: a notice says which."""
    log: Sequence[str] = ()
    """The end of the log of the last failed invocation, where all have failed."""


class LocalSweep:
    """The sizes of a function, tried on this machine."""

    def __init__(
        self,
        target: Target,
        events: Sequence[object],
        plan: Plan,
        commands: Commands,
        progress: Progress,
    ) -> None:
        self._target, self._events, self._plan, self._commands = target, events, plan, commands
        self._progress = progress
        self._cpus = len(os.sched_getaffinity(0))
        self._notices: dict[str, None] = {}
        self._log: Sequence[str] = ()
        self._looked: dict[int, tuple[Trial, Measurement]] = {}
        self._finding: Finding | None = None
        """The answer of the run that asked whether memory grows."""

    @property
    def most(self) -> int:
        """Largest size whose share of CPU this machine has."""
        return min(MOST_MIB, self._cpus * VCPU_MIB)

    def run(self, asked: Sequence[int] | None) -> Sweep:
        """Try the sizes asked for, or those that make sense for this function. Raises BadInput."""
        if (load := os.getloadavg()[0]) > BUSY * self._cpus:
            self._notices[
                f"this machine is busy (load {load:.1f}): large sizes look slower than they are. Try it again later"
            ] = None
        signal, sizes = 0, self._asked(asked) if asked else []
        try:
            if (grows := self._judge()) is not None:
                return Sweep(trials=[grows], notices=[])
            sizes = sizes or self._sensible()
            self._looked = {size: seen for size, seen in self._looked.items() if size in sizes}
            for group in _groups([self._look(size) for size in sizes], self._together(len(sizes))):
                self._time(group)
        except Ended as ended:
            signal = ended.number
        looked = [*self._looked, *(size for size in sizes if size not in self._looked)]
        trials = [self._trial(size) if size in self._looked else Trial(memory=size) for size in sorted(looked)]
        return Sweep(trials=trials, notices=list(self._notices), signal=signal, log=self._log)

    def _judge(self) -> Trial | None:
        """What was seen if memory grows: then no size is safe for long. None otherwise."""
        trial = Trial(memory=self.most, warm_up=JUDGED)
        with Run(replace(self._target, memory_mib=self.most)) as run:
            run.begin_passes(in_a_pass(JUDGED))
            self._invoke(run, trial, "does it grow?", JUDGED, JUDGE_S)
            trial = trial.judged(replace(run.measurement(UNJUDGED), commands=self._commands))
        self._finding = trial.finding
        if self._finding is None or not self._finding.grows:
            return None
        grows, command = self._finding, self._finding.next
        if COMPARED * (grows.per_invocation_kib or 0.0) > 1024 * self._target.memory_mib:  # its own is too small
            command += f" --memory {self.most}"
        return replace(trial, finding=replace(grows, next=command, invocations_left=None))  # that depends on the size

    def _invoke(self, run: Run, trial: Trial, doing: str, most: int, most_s: float = math.inf) -> None:
        """Invoke so often, or for so many seconds, unless more would say no more."""
        began = time.monotonic()
        for done, event in enumerate(itertools.islice(itertools.cycle(self._events), most), 1):
            trial.add(run.report_of(answer := run.invoke(event)), printable(answer.error))
            self._progress(doing, done, most)
            if trial.is_out or time.monotonic() - began > most_s:
                break

    def _asked(self, asked: Sequence[int]) -> list[int]:
        """Those of the sizes asked for that can be tried here."""
        sizes = [size for size in asked if size <= self.most]
        if above := [size for size in asked if size > self.most]:
            self._notices[self._left_out(above)] = None
        if not sizes:
            raise BadInput(f"--memory {','.join(map(str, asked))}: {self._left_out(asked)}. Try --memory {self.most}")
        return sizes

    def _sensible(self) -> list[int]:
        """The smallest size with enough headroom over the true peak, the usual ones above, and that of a template.
        Only the largest, if nothing works there."""
        usual = [size for size in LADDER if size <= self.most]
        trial = self._look(usual[-1])
        held = self._trial(usual[-1]).held
        if held is None or trial.is_out:
            return usual[-1:]
        least = rounded_size(held * (1 + HEADROOM))
        if least > self.most:
            raise BadInput(
                f"it needs {held:,.0f} MiB, {least:,} with headroom: {self._left_out([least])}. Try it on a machine"
                f" with {-(-least // VCPU_MIB)} CPUs"
            )
        sizes = {least, *(size for size in usual if size > least)}
        is_template = Path(self._target.spec.rpartition(":")[0]).suffix in TEMPLATES
        if is_template and self._target.memory_mib <= self.most:
            sizes.add(self._target.memory_mib)
        if above := [size for size in LADDER if size > self.most]:
            self._notices[self._left_out(above)] = None
        return sorted(sizes)

    def _left_out(self, sizes: Sequence[int]) -> str:
        named = ", ".join(f"{size:,}" for size in sizes)
        cpus = f"{self._cpus} CPU{'s' if self._cpus > 1 else ''}"
        return f"this machine has {cpus}, as many as {self.most:,} MB buy: {named} MB cannot be tried here"

    def _look(self, size: int) -> Trial:
        """Look for the peak at this size, with the sidecar. Raises BadInput if this machine cannot limit CPU."""
        if size in self._looked:
            return self._looked[size][0]
        count = self._plan.looks(len(self._events))
        trial = Trial(memory=size, warm_up=count + self._plan.warm_up, looks=count)
        with Run(replace(self._target, memory_mib=size, cpu="size", probe=False)) as run:
            if not run.local.limits_cpu:
                raise BadInput(
                    "this machine permits no limit of CPU, so all sizes would be as fast: try it as root, in a"
                    " container with --privileged, or in CI"
                )
            self._invoke(run, trial, f"peak at {size:,} MB", count)
            measurement = replace(run.measurement(self._plan.warm_up), commands=self._commands)
        self._looked[size] = trial, measurement
        self._notices.update(dict.fromkeys(measurement.notices))
        if trial.failures == trial.invocations and measurement.failures:
            self._log = measurement.failures[-1].log
        return trial

    def _trial(self, size: int) -> Trial:
        seen, measurement = self._looked[size]
        trial = seen.judged(measurement)
        is_known = trial.finding is not None and trial.finding.pattern != TOO_FEW
        return trial if is_known else replace(trial, finding=self._finding)

    def _together(self, sizes: int) -> int:
        """How many environments this machine's free memory can hold at once."""
        free = psutil.virtual_memory().available / 2**20 * SPARE
        largest = max(self._trial(size).held or size for size in self._looked)
        together = max(1, int(free / largest))
        if together < sizes:
            at_once = counted(together, "environment")
            self._notices[
                f"this machine's memory holds {at_once} at once: sizes were tried in groups, and what else runs here"
                " may have slowed some groups only"
            ] = None
        return together

    def _time(self, trials: Sequence[Trial]) -> None:
        """Invoke the function at these sizes in turn, without the sidecar."""
        plan, began = self._plan, time.monotonic()
        done, total = 0, len(trials) * (plan.warm_up + plan.rounds)

        def invoke(run: Run, trial: Trial, event: object) -> None:
            nonlocal done
            done += 1
            if not trial.is_out:
                answer = run.invoke(event)
                # The report comes when all is frozen: it takes no CPU while another size is tried.
                report = run.report_of(answer)
                trial.add(report, printable(answer.error))
                trial.init = report.init_duration_ms or trial.init
            self._progress(f"{trial.memory:,} MB", done, total)

        with ExitStack() as stack:
            environments = []
            for trial in trials:  # init and warm-up of one after the other: they do not share the CPUs
                if not trial.is_out:
                    alone = replace(self._target, memory_mib=trial.memory, cpu="size", sidecar=False, probe=False)
                    environments.append((stack.enter_context(Run(alone)), trial))
                    for event in itertools.islice(itertools.cycle(self._events), plan.warm_up):
                        invoke(*environments[-1], event)
            for number, event in enumerate(itertools.islice(itertools.cycle(self._events), plan.rounds)):
                if plan.is_over(number, time.monotonic() - began):
                    self._notices[plan.cut(number)] = None
                    return
                for run, trial in environments:
                    invoke(run, trial, event)


def _groups(trials: Sequence[Trial], most: int) -> Iterator[Sequence[Trial]]:
    for begin in range(0, len(trials), most):
        yield trials[begin : begin + most]
