"""Measures a function under the local Lambda, with the sidecar attached."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path

import psutil

from ..explain.explanation import Explanation
from ..explain.run import explain
from ..lines.line import Line, parse_event
from ..local import Invocation, LocalLambda, Report, Settings
from ..local.configuration.function import missing_module
from ..local.configuration.layer import SIDECAR, beside
from ..runs.measurement import FailedInvocation, Measurement, Recorded, end_of_log, settled, settling
from ..runs.passes import BLOCK, WARM_UP, Plan, full_by, invoke_until_decided
from ..settle.settler import Settler
from ..support.exit_codes import Ended
from ..support.failed_answer import error_of
from ..support.platform_facts import LONGEST_ANSWER_S, MOST_MIB, MOST_TIMEOUT_S
from ..support.terminal import Progress
from ..target.events import IN_A_KIND, NEW_PASSES, held_back, kinds, text_of
from ..target.target import Target
from .limits import Decision, Limits

LEAD_US = 2000  # lead of the sidecar without exact mode, in microseconds. With it, few peaks are raced.
KINDS_S = 60.0  # what it may take to ask which events are kept
MANY = 16  # processes of one name: so many are children that stay, and not the function and its extensions


class Run:
    """One environment: call `invoke`, then `measurement`. The end of its `with` block stops it."""

    def __init__(
        self,
        target: Target,
        *,
        exact: bool = True,
        probe: bool = True,
        extensions: Path | None = None,
        limits: Limits | None = None,
    ) -> None:
        """Without `exact`, or if exact mode is not possible, some peaks are intervals. Without `probe` the lines have
        no heap, unless the function loads the probe itself. All executables of the folder `extensions` are started
        beside the sidecar; the measurement's memory is still the function's. Raises BadInput for one that cannot be."""
        self._target = target
        self._limits = limits or Limits()
        self._settler = Settler()
        self._children = ""
        made = beside(
            target.function, target.settings(), exact=exact, probe=probe, settle=self._settler.path, folder=extensions
        )
        # in exact mode what is measured does not depend on the order, and nothing waits
        order = "together" if made.is_exact else f"extension:{LEAD_US}"
        self._local = LocalLambda(made.function, replace(made.settings, release=order))
        self._invocations: list[Invocation] = []
        self._begins: list[int] = []
        """Number of log lines at the beginning of each invocation."""
        self._in_tmp: dict[int, float] = {}
        self._events: list[str] = []
        self.given = ""
        """Digest of all events that may be sent: a run ends when it is decided. Empty: of those that were sent."""
        self._new_from: int | None = None
        """From this invocation on it is asked whether something is kept of events that are new."""
        self._counted: int | None = None
        """So many invocations count; later ones ask which kind of events it keeps something of. None: all do."""
        self._kinds: dict[int, str] = {}
        """Each kind of events, by the number of the last invocation of its pass."""
        self._started = time.monotonic()

    def __enter__(self) -> Run:
        """Begin the init phase. Raises BadInput if this machine does not permit something."""
        self._local.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._local.stop(abort=error[0] is not None)
        self._settler.close()

    def _look_at_children(self) -> None:
        """Keep the name that most of the environment's processes have, if there are many of it."""
        names: Counter[str] = Counter()
        for each in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                names[each.name()] += 1
        for name, count in names.most_common(1):
            self._children = name if count >= MANY else self._children

    def invoke(self, event: object = None) -> Invocation:
        """Invoke once. Returns the answer, also if it is an error."""
        self._events.append(text_of(event))
        self._begins.append(len(self._local.logs))
        number = len(self._events)
        self._settler.before(number)
        invocation = self._local.invoke(event, timeout=LONGEST_ANSWER_S)
        self._invocations.append(invocation)
        self._in_tmp[number] = self._local.tmp_kib() / 1024
        self._settler.after(self._local, number)
        return invocation

    def begin_passes(self, invocations: int) -> None:
        """From now on the process is settled and read after each pass of so many."""
        self._settler.begin_passes(len(self._invocations), invocations)

    def ask_new(self, seen: Sequence[object], new: Sequence[object], progress: Progress) -> None:
        """Make passes of events that are new, as `held_back` has them, after one of events that it has seen."""
        size = len(new) // NEW_PASSES
        self.begin_passes(size)
        self._new_from = len(self._invocations) + 1
        upcoming = [*seen[:size], *new]
        for done, event in enumerate(upcoming, 1):
            self.invoke(event)
            progress("events that are new", done, len(upcoming))

    def ask_kinds(self, seen: Sequence[object], progress: Progress) -> None:
        """Make two passes of each kind of these events, as `kinds` has them, there and back, after one of all. They
        count for nothing else. Not where that would take longer than KINDS_S."""
        failed = {self._events[number] for number, each in enumerate(self._invocations) if each.function_error}
        of_kinds = [*kinds(seen, failed).items()]
        passes = [("", seen), *of_kinds, *reversed(of_kinds)]
        took_s = (time.monotonic() - self._started) / max(1, len(self._invocations))
        if not of_kinds or took_s * IN_A_KIND * len(passes) > KINDS_S:
            return
        self.begin_passes(IN_A_KIND)
        self._counted = len(self._invocations)
        asked = {}
        for done, (name, events) in enumerate(passes, 1):
            for event in islice(cycle(events), IN_A_KIND):
                self.invoke(event)
            asked[len(self._invocations)] = name
            progress("which events are kept", done, len(passes))
        self._kinds = asked

    def report_of(self, invocation: Invocation) -> Report:
        """Its REPORT, once all that belongs to it has ended and is frozen."""
        return self._local.report(invocation.request_id)

    @property
    def limits_cpu(self) -> bool:
        """True if the environment has a limit of CPU: it was asked for, and this machine permits it."""
        return self._local.limits_cpu

    def follow(self, event: object) -> None:
        """Without exact mode, invoke once more, uncounted. Its begin closes the window of the last invocation."""
        if not self.failing and not any(seen.line.mode == "exact" for seen in self._seen()):
            self._local.invoke(event, timeout=LONGEST_ANSWER_S)

    def settled(self) -> bool:
        return settled([seen.line for seen in self._seen()])

    @property
    def failing(self) -> int:
        return len(self._invocations) if all(each.function_error for each in self._invocations) else 0

    def measurement(self, warm_up: int | None = None, asked: int | None = None, *, is_cut: bool = False) -> Measurement:
        """End the environment and return what was measured. The first `warm_up` invocations do not count for drift.

        With None, the warm-up is as long as the curve took to settle. `is_cut`: an invocation is under way, and nothing
        waits for it.
        """
        self._look_at_children()
        self._local.stop(abort=is_cut)
        if warm_up is None:
            warm_up = settling([seen.line for seen in self._seen()], step=BLOCK, bound=WARM_UP)
        return self.so_far(warm_up, asked)

    def so_far(self, warm_up: int, asked: int | None = None) -> Measurement:
        """The measurement so far, without the last records."""
        self._look_at_children()
        said = [line.text for line in self._local.logs if line.source == f"extension:{SIDECAR}"]
        count = len(self._counted_ones)
        return Measurement(
            spec=self._target.spec,
            seen=self._seen(),
            left_in_tmp={number: mib for number, mib in self._in_tmp.items() if number <= count},
            tmp_mib=self._target.tmp_mib,
            reported_ms=self._durations(),
            asked=asked,
            invocations=count,
            warm_up=warm_up,
            settled=[
                each for each in self._settler.readings if each.invocation <= count or each.invocation in self._kinds
            ],
            new_from=self._new_from,
            kinds=self._kinds,
            judged_until=self._new_from - 1 if self._new_from else self._counted,
            slowed=self._settler.slowed,
            children=self._children,
            errors_percent=self._limits.errors_percent or 0.0,
            allowed=self._limits.allowed,
            memory_mib=self._target.memory_mib,
            seconds=time.monotonic() - self._started,
            failures=self._failures(),
            notices=(*self._target.notices, *self._local.notices, *self._missing_modules()),
            last_words=said[-1] if said else "nothing",
            variables=self._target.environment,
            about={
                "runtime": self._target.function.runs_on or "bootstrap",
                "memorySize": self._target.memory_mib,
                "events": self.given or digest(self._events),
                "sent": len({*self._events}),
            },
        )

    @property
    def _counted_ones(self) -> list[Invocation]:
        return self._invocations[: self._counted]

    def _durations(self) -> dict[int, float]:
        reported = {report.request_id: report.duration_ms for report in self._local.reports}
        numbered = enumerate(self._counted_ones, 1)
        return {number: reported[each.request_id] for number, each in numbered if each.request_id in reported}

    def _failures(self) -> list[FailedInvocation]:
        failed = [number for number, each in enumerate(self._counted_ones, 1) if each.function_error is not None]
        made = []
        for number in failed:
            invocation = self._invocations[number - 1]
            log = self._log(number) if number == failed[-1] else []
            made.append(FailedInvocation(number, error_of(invocation.payload, invocation.function_error), log))
        return made

    def _missing_modules(self) -> list[str]:
        """What to install, a sentence for each missing module. None if all failed: then the finding says it."""
        if self.failing:
            return []
        answers = (error_of(each.payload, each.function_error) for each in self._invocations if each.function_error)
        said = (missing_module(answer, self._target.function) for answer in answers)
        return list(dict.fromkeys(filter(None, said)))

    def _log(self, number: int) -> list[str]:
        """The end of what the function logged in an invocation."""
        first, last = [*self._begins, None][number - 1 : number + 1]
        return end_of_log(line.text for line in self._local.logs[first:last] if line.source == "function")

    def _seen(self) -> list[Recorded]:
        by_request: dict[str | None, Line] = {}
        for text in self._local.extension_stdout(SIDECAR):
            for line in parse_event(text):
                by_request.setdefault(line.request_id, line)
        numbered = enumerate(self._counted_ones, 1)
        return [Recorded(n, by_request[each.request_id]) for n, each in numbered if each.request_id in by_request]


def digest(events: Iterable[str]) -> str:
    """Hash of a set of events, each as JSON: without their order and repetition."""
    return hashlib.sha256("\n".join(sorted({*events})).encode()).hexdigest()[:16]


def measure(
    target: Target,
    events: Sequence[object],
    plan: Plan,
    limits: Limits,
    *,
    exact: bool,
    progress: Progress,
    probe: bool = True,
    extensions: Path | None = None,
) -> Measurement:
    """Make a whole run. Raises BadInput."""
    with Run(target, exact=exact, probe=probe, extensions=extensions, limits=limits) as run:
        decision = Decision(limits, full_by(plan.invocations))
        run.given = digest(map(text_of, events))

        def why(taken: int) -> str:
            """Why to go on."""
            return decision.why(run.so_far(taken))

        same, new = held_back(events)
        try:
            taken = invoke_until_decided(run, same, plan, why, progress)
            if new and not run.failing:
                run.ask_new(same, new, progress)
            if not run.failing and run.so_far(taken).finding.grows:
                run.ask_kinds(same, progress)
        except Ended as ended:
            return replace(run.measurement(is_cut=True), signal=ended.number)
        run.follow(events[0])
        measured = run.measurement(taken, plan.invocations)
        return replace(measured, judged_until=decision.until or measured.judged_until)


def explanation(target: Target, events: Sequence[object], measurement: Measurement, progress: Progress) -> Explanation:
    """Run the function again under a tracer, without the sidecar, and name the lines that hold what grew.

    The verdict is the plain run's. It has more memory and time than the function, because a tracer needs some.
    """
    finding, rss = measurement.finding, measurement.verdict
    rate = finding.per_invocation_kib if finding.cause == "leak" else rss.per_invocation_kib
    settings = Settings(
        name=target.name,
        memory_mib=min(MOST_MIB, 2 * target.memory_mib + 512),
        timeout_s=min(MOST_TIMEOUT_S, 4 * target.timeout_s + 60),
        environment=target.environment,
    )
    return explain(
        target.function,
        settings,
        events,
        invocations=measurement.invocations,
        plain_seconds=measurement.seconds,
        measured_kib=max(0.0, rate or 0.0),
        lines=[each.line for each in measurement.judged],
        progress=progress,
    )
