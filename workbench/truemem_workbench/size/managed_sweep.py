"""Runs a function of Managed Instances with several concurrencies on this machine: what a worker and a request need."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import psutil

from ..judge.finding import Commands, Finding
from ..runs.here import Run
from ..runs.measurement import Measurement
from ..runs.passes import hopeless, in_a_pass
from ..support.exit_codes import Ended
from ..support.platform_facts import LEAST_MANAGED_MIB, NODE_THREADS_PER_VCPU
from ..support.terminal import Progress
from ..target.events import text_of
from ..target.target import NODE_WORKERS, Target
from .at_once import Result, Tried, needs_of, sizes_within
from .local_sweep import JUDGE_S, JUDGED, SPARE, UNJUDGED

ROUNDS = 30
"""Rounds with each concurrency, after the run that asks whether memory grows."""
BESIDE = 3
"""Invocations on demand that show what the sidecar holds."""
MOST_HERE = 16
"""Processes that are started here at most: with more, this machine shows how it divides its CPUs."""


@dataclass
class ManagedSweep:
    """The concurrencies of one function."""

    target: Target
    events: Sequence[object]
    commands: Commands
    progress: Progress
    rounds: int | None = None
    """With each concurrency. None: ROUNDS."""

    def run(self, asked: Sequence[int] | None) -> Result:
        """Try a few concurrencies up to the function's own. `asked`: the memory sizes to look at. Raises BadInput."""
        target = self.target
        at_once = target.managed_instances or 1
        result = Result(
            spec=target.spec,
            at_once=at_once,
            memory=target.memory_mib,
            sizes=sizes_within(asked, target.memory_mib),
            tried=[],
            needs=None,
            finding=None,
            gib_per_vcpu=target.gib_per_vcpu,
        )
        is_threaded = target.function.language == "nodejs"
        tried, others = list[Tried](), 0.0
        try:
            fits, others = self._alone()
            for number, one in enumerate(self._variants(min(at_once, MOST_HERE, fits), is_threaded)):
                measured = self._measure(one, judges=not number, settles=not (is_threaded and number))
                if is_threaded and measured.finding.grows:  # V8's heaps of many threads settle late; a leak goes on
                    measured = self._measure(one, judges=True, settles=True, later=True)
                result = replace(result, notices=measured.notices)
                ends = measured.finding.grows or measured.finding.cause == "failing" or measured.out_of_memory
                if not number and ends:
                    log = measured.failures[-1].log if measured.failures else ()
                    return replace(result, finding=_without_left(measured.finding), log=log)
                if is_threaded and not number:  # there its garbage was collected, which in Lambda stays for longer
                    continue
                if (made := _tried(measured, one.workers if is_threaded else one.managed_instances or 1)) is not None:
                    tried.append(made)
        except Ended as ended:
            result = replace(result, signal=ended.number)
        if not tried:
            return result
        per_vcpu = NODE_THREADS_PER_VCPU if is_threaded else 0
        per_mib = per_vcpu / 1024 / target.gib_per_vcpu
        if NODE_WORKERS in target.environment and is_threaded:  # the function sets their number itself
            per_mib, per_vcpu = 0.0, target.workers
        needs = needs_of(tried, others, per_mib, per_vcpu)
        notices = [*result.notices, *_apart(tried, at_once, is_threaded=is_threaded)]
        return replace(result, tried=tried, needs=needs, notices=notices)

    def _variants(self, here: int, is_threaded: bool) -> list[Target]:
        """The function with so many requests at once first, then with one, then between them; of threads the function
        as it is, and with one thread."""
        target = self.target
        if is_threaded:
            return [target, target, replace(target, environment={**target.environment, NODE_WORKERS: "1"})]
        return [replace(target, managed_instances=each) for each in dict.fromkeys((here, 1, max(1, here // 2)))]

    def _alone(self) -> tuple[int, float]:
        """How many processes this machine's free memory holds, if each needs what one does on demand; and what sidecar
        and extensions hold beside it, MiB. Raises Ended."""
        with Run(self.target.with_one_worker(), settles=False) as run:
            for event in itertools.islice(itertools.cycle(self.events), BESIDE):
                run.invoke(event)
            seen = run.measurement(0).seen
        one = max((each.peak.lower for each in seen), default=0.0)
        beside = max((sum(each.line.extensions_hold.values()) for each in seen), default=0.0)
        sidecar = max((each.line.sidecar_holds or 0.0 for each in seen), default=0.0)
        free = psutil.virtual_memory().available / 2**20 * SPARE
        return max(1, int(free / one)) if one else 1, sidecar + beside

    def _measure(self, target: Target, *, judges: bool, settles: bool, later: bool = False) -> Measurement:
        """`later`: twice as many rounds, of which the second half is judged."""
        most, warm_up = (JUDGED, UNJUDGED) if judges else (self.rounds or ROUNDS, 0)
        if later:
            most, warm_up = 2 * JUDGED, JUDGED
        began = time.monotonic()
        with Run(target, settles=settles) as run:
            if settles:  # Python's collection writes into pages that workers share, as it does in Lambda later
                run.begin_passes(in_a_pass(most))
            events = [*itertools.islice(itertools.cycle(self.events), most)]
            for done, event in enumerate(events, 1):
                run.invoke(event)
                doing = f"{target.managed_instances} at once"
                self.progress("does it grow?" if judges else doing, done, most)
                is_hopeless = hopeless(run.errors, [*map(text_of, events[:done])])
                if is_hopeless or (judges and time.monotonic() - began > JUDGE_S * (1 + later)):
                    break
            return replace(run.measurement(warm_up), commands=self.commands)


def _tried(measured: Measurement, workers: int) -> Tried | None:
    """None if that environment could not be read."""
    shared = measured.shared
    return None if shared is None else Tried(shared.at_once, workers, shared.once, shared.peak)


def _without_left(finding: Finding) -> Finding:
    return replace(finding, invocations_left=None)  # that depends on the size


def _apart(tried: Sequence[Tried], at_once: int, *, is_threaded: bool) -> list[str]:
    """How far what was run between the fewest and the most workers is from the line; and what was not run."""
    notices = []
    between = sorted(tried, key=lambda each: each.workers)[1:-1]
    for each in between:
        made = needs_of(tried, 0.0)
        reckoned = made.of(each.at_once, LEAST_MANAGED_MIB)
        notices.append(
            f"to check the table, {each.at_once} at once were run as well: they needed {each.needs:,.0f} MiB, and by"
            f" the table's rule, without sidecar and extensions, it is {reckoned:,.0f}"
        )
    most = max(each.at_once for each in tried)
    if most < at_once and not is_threaded:
        notices.append(f"{most} at once were run here, and more were reckoned: try truemem check where {at_once} fit")
    return notices
