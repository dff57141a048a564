"""Runs a function under the local Lambda, with what its target has beside it: the one set-up on this machine."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

import psutil

from ..local import LocalLambda
from ..local.configuration.function import missing_module
from ..local.configuration.layer import (
    ALL_MEMBERS,
    SIDECAR,
    WEB_ADAPTER,
    behind_adapter,
    in_exact_mode,
    sidecar,
    with_probe,
)
from ..local.configuration.settings import ON_DEMAND_INIT_S
from ..printed.line import Line, parse_event
from ..support import docs_link, web_adapter
from ..support.bad_input import BadInput
from ..support.conditions import folded
from ..support.exit_codes import Ended
from ..support.failed_answer import MISSING_MODULE
from ..support.platform_facts import LONGEST_ANSWER_S
from ..support.terminal import Progress
from ..target.events import text_of
from ..target.target import Target
from .measurement import FailedInvocation, Measurement, Recorded, end_of_log, settled, settling
from .passes import (
    BLOCK,
    IN_A_KIND,
    NEW_PASSES,
    WARM_UP,
    Decision,
    Plan,
    full_by,
    held_back,
    in_a_pass,
    invoke_until_decided,
    kinds,
)
from .rounds import Rounds
from .settle import jvm
from .settle.settler import Settler, has_jvm

if TYPE_CHECKING:
    from pathlib import Path

    from ..local import Answer, EnvironmentChange, Function, Invocation, LogLine, Report, Scaling

LINES = "TRUEMEM_LINES"
LEAD_US = 2000  # lead of the sidecar without exact mode, in microseconds. With it, few peaks are raced.
KINDS_S = 60.0  # what it may take to ask which events are kept
INIT_DONE, INIT_REPORT = "platform.initRuntimeDone", "platform.initReport"
LATE_S = 5.0
"""After the time for init it is not waited longer for its report."""
NO_CLIENT = (
    f"what the image starts has never asked for an event, as a runtime client does. In {{}}"
    f" ({docs_link.command('local-lambda#container-images')})"
)
CLIENTS = {
    "python": 'Python: RUN pip install awslambdaric, ENTRYPOINT ["/usr/local/bin/python", "-m", "awslambdaric"], CMD'
    ' ["app.handler"]',
    "nodejs": 'Node.js: RUN npm install aws-lambda-ric, ENTRYPOINT ["/usr/local/bin/npx", "aws-lambda-ric"], CMD'
    ' ["index.handler"]',
}
"""What a Dockerfile needs, by its language."""
UNSAID = ("Runtime.ExitError", "Sandbox.Timedout")
"""Errors of the platform where no client has reported one of its own."""
MANY = 16  # processes of one name: so many are children that stay, and not the function and its extensions


class Run:
    """A function on this machine: `invoke` it, then ask for its `measurement`. The end of its `with` block stops it."""

    def __init__(
        self,
        target: Target,
        decision: Decision | None = None,
        *,
        on_log: Callable[[LogLine], None] | None = None,
        scaling: Scaling | None = None,
        on_environment: Callable[[EnvironmentChange], None] | None = None,
        on_answer: Callable[[Answer], None] | None = None,
        members: Mapping[str, str] = ALL_MEMBERS,
        trims: bool = True,
        settles: bool = True,
        **settings: Any,
    ) -> None:
        """`decision`: what is asked of it. `on_log` to `on_answer`: see LocalLambda. `members`: variables that say
        which members the lines have. `trims`: see Settler. `settles`: False if it is never asked for passes.
        `settings`: those of the local Lambda that no target has. Raises BadInput for what cannot be run so."""
        self._target, self._decision = target, decision or Decision()
        self.settler = Settler(trims=trims)
        if not settles:
            self.settler.close()
        in_rounds = scaling is None and target.managed_instances is not None
        extensions = {**({SIDECAR: sidecar()} if target.sidecar and not in_rounds else {}), **target.extensions}
        function, environment = target.function, target.environment
        if target.http is not None:
            extensions = {web_adapter.NAME: WEB_ADAPTER, **extensions}
            environment = behind_adapter(environment, target.http, exact=target.exact and SIDECAR in extensions)
        self.is_probed = False
        if SIDECAR in extensions or (in_rounds and target.sidecar):
            attached = extensions.get(SIDECAR)
            function, environment, is_exact = self._beside_sidecar(environment, attached, settles=settles)
            environment = {**members, **({LINES: "on"} if target.names_lines else {}), **environment}
            # in exact mode what is measured does not depend on the order, and nothing waits
            settings = {"release": "together" if is_exact else f"extension:{LEAD_US}", **settings}
        if target.names_lines and not self.is_probed:
            page = docs_link.command("heap")
            raise BadInput(f"--lines: the probe cannot be loaded, it is for Python and Node.js ({page}). Leave it out")
        self.settings = target.settings(environment=environment, extensions=extensions, **settings)
        self.local = LocalLambda(function, self.settings, on_log, scaling, on_environment, on_answer)
        self.rounds: Rounds | None = None
        """On Managed Instances, what is invoked in place of one request after the other."""
        if in_rounds:
            self.rounds = Rounds(self.local, target)
        self.at_once: int | None = None
        """Most requests at once; None: the only environment takes one after the other."""
        if scaling is not None or self.settings.managed_instances is not None:
            self.at_once = (self.settings.managed_instances or 1) * (scaling.environments if scaling else 1)
        self.answers: list[Invocation] = []
        """To all invocations, but for those that are not counted."""
        self.errors: list[str] = []
        """What each of them has said; empty where it succeeded, or failed as it may."""
        self._begins: list[int] = []
        """Number of log lines at the beginning of each invocation."""
        self._in_tmp: dict[int, float] = {}
        self._events: list[str] = []
        self.given = ""
        """Digest of all events that may be sent: a run ends when it is decided. Empty: of those that were sent."""
        self.places: dict[str, int] = {}
        """Where each of several different events stands among them, from 1, by its text."""
        self._new_from: int | None = None
        """From this invocation on it is asked whether something is kept of events that are new."""
        self._counted: int | None = None
        """So many invocations count; later ones ask which kind of events it keeps something of. None: all do."""
        self._kinds: dict[int, str] = {}
        """Each kind of events, by the number of the last invocation of its pass."""
        self._children = ""
        self._started = time.monotonic()

    def _beside_sidecar(
        self, environment: Mapping[str, str], attached: Path | None, *, settles: bool
    ) -> tuple[Function, Mapping[str, str], bool]:
        """The function and its variables beside the sidecar, with the probe; and whether it is in exact mode.
        `attached`: None for rounds, which have the probe alone."""
        target, function = self._target, self._target.function
        is_exact = target.exact and target.http is not None and attached is not None
        if target.exact and target.http is None and attached is not None:
            exact = in_exact_mode(function, environment, attached)
            is_exact, (function, environment) = exact is not None, exact or (function, environment)
        probed = with_probe(function, environment, self.settler.path if settles else None) if target.probe else function
        self.is_probed = probed is not function
        if settles and target.probe and (function.runtime is None or function.language == "java"):
            probed = jvm.tracked(probed, function.with_own(environment))
        return probed, environment, is_exact

    # --- life ---------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Run:
        """Begin the init phase. Raises BadInput if this machine does not permit something, or if a web server that
        runs does not listen in time."""
        self.local.start()
        if self._target.http is not None and self.at_once is None:
            self._await_server(self._target.http)
        return self

    def _await_server(self, port: int) -> None:
        """Until init is over: without an answer of the server it takes all its time. One that has ended by itself is a
        failure like others."""
        begun = time.monotonic()
        while time.monotonic() - begun < ON_DEMAND_INIT_S + LATE_S:
            ended = [each["record"].get("status") for each in self.local.events if each["type"] == INIT_REPORT]
            if ended and ended[0] != "timeout":
                return
            if ended:
                break
            time.sleep(0.02)
        said = [line.text for line in self.local.logs if line.source == f"extension:{web_adapter.NAME}"]
        status = web_adapter.unready(said)
        self.stop(abort=True)
        limit = f"in the {ON_DEMAND_INIT_S:g} s that Lambda gives an init"
        if status:
            path = self._target.variables.get(web_adapter.READY_PATH, "/")
            raise BadInput(
                f"{self._target.spec} answers {path} with {status}, and so is not ready {limit}. Try --env"
                f" {web_adapter.READY_PATH}=/a/path/that/there/is"
            )
        raise BadInput(
            f"{self._target.spec} does not listen on port {port} {limit}. Its port is that of --http, or PORT of a"
            f" template or an image. If it takes longer, try --env {web_adapter.ASYNC}=true, as in Lambda"
        )

    def __exit__(self, *error: object) -> None:
        self.stop(abort=error[0] is not None)

    def stop(self, *, abort: bool = False) -> None:
        """End the environments. A running invocation is waited for, unless `abort` is true."""
        if self.rounds is not None:
            self.rounds.close()
        self.local.stop(abort=abort)
        self.settler.close()

    # --- invocations --------------------------------------------------------------------------------------------------

    def begin_passes(self, invocations: int) -> None:
        """From now on the process is settled and read after each pass of so many."""
        self.settler.begin_passes(len(self.answers), invocations)

    def invoke(
        self,
        event: object = None,
        *,
        tenant_id: str | None = None,
        timeout: float | None = LONGEST_ANSWER_S,
        on_answer: Callable[[Invocation], None] = lambda _: None,
    ) -> Invocation:
        """Invoke the only environment once; on Managed Instances with a round of requests at once. Returns the answer,
        also if it is an error; `on_answer` gets it before the process is settled. Raises as LocalLambda does."""
        self._events.append(text_of(event))
        self._begins.append(len(self.local.logs))
        number = len(self._events)
        self.settler.before(number)
        if self.rounds is not None:
            answer = self.rounds.make(event, timeout)
        else:
            answer = self.local.invoke(event, tenant_id=tenant_id, timeout=timeout)
        if self._target.http is not None and (failed := web_adapter.failed(answer.payload, event)):
            answer = replace(answer, function_error=failed)
        self._keep(answer)
        on_answer(answer)
        self._in_tmp[number] = self.local.tmp_kib() / 1024
        self.settler.after(self.local, number, self.rounds.processes() if self.rounds else ())
        return answer

    def _keep(self, answer: Invocation) -> None:
        self.answers.append(answer)
        is_meant = self._decision.errors_percent >= 100 and answer.error.startswith(web_adapter.HTTP)
        self.errors.append("" if is_meant else answer.error)  # that server is at work all the same

    def invoke_at_once(self, event: object, invocations: int, *, tenant_id: str | None = None) -> Iterator[Invocation]:
        """Invoke all environments, with as many requests at once as they take. After a pass, each says on its next line
        what it keeps."""
        callers = ThreadPoolExecutor(self.at_once)
        try:
            for answer in callers.map(
                lambda _: self.local.invoke(event, tenant_id=tenant_id, may_wait=True), range(invocations)
            ):
                self._keep(answer)
                yield answer
                if len(self.answers) % in_a_pass(invocations) == 0:
                    self.settler.ask()
        finally:
            callers.shutdown(wait=False, cancel_futures=True)

    def ask_new(self, seen: Sequence[object], new: Sequence[object], progress: Progress) -> None:
        """Make passes of events that are new, as `held_back` has them, after one of events that it has seen."""
        size = len(new) // NEW_PASSES
        self.begin_passes(size)
        self._new_from = len(self.answers) + 1
        upcoming = [*seen[:size], *new]
        for done, event in enumerate(upcoming, 1):
            self.invoke(event)
            progress("events that are new", done, len(upcoming))

    def ask_kinds(self, seen: Sequence[object], progress: Progress) -> None:
        """Make two passes of each kind of these events, as `kinds` has them, there and back, after one of all. They
        count for nothing else. Not where that would take longer than KINDS_S."""
        failed = {self._events[number] for number, each in enumerate(self.answers) if each.error}
        of_kinds = [*kinds(seen, failed).items()]
        passes = [("", seen), *of_kinds, *reversed(of_kinds)]
        took_s = (time.monotonic() - self._started) / max(1, len(self.answers))
        if not of_kinds or took_s * IN_A_KIND * len(passes) > KINDS_S:
            return
        self.begin_passes(IN_A_KIND)
        self._counted = len(self.answers)
        asked = {}
        for done, (name, events) in enumerate(passes, 1):
            for event in islice(cycle(events), IN_A_KIND):
                self.invoke(event)
            asked[len(self.answers)] = name
            progress("which events are kept", done, len(passes))
        self._kinds = asked

    def follow(self, event: object) -> None:
        """Without exact mode, invoke once more, uncounted: its begin closes the window of the last invocation. On
        Managed Instances it is none of the sidecar's."""
        if self.rounds is None and not self.failing and not any(seen.line.mode == "exact" for seen in self._seen()):
            self.local.invoke(event, timeout=LONGEST_ANSWER_S)

    # --- what came of it ----------------------------------------------------------------------------------------------

    @property
    def notices(self) -> list[str]:
        """What differs from Lambda here, in sentences for the user."""
        return folded([*self._target.notices, *self.local.notices])

    @property
    def printed(self) -> list[str]:
        """What the sidecar has printed on standard output so far."""
        return self.local.extension_stdout(SIDECAR)

    @property
    def last_words(self) -> str:
        """The sidecar's last line of any kind."""
        said = [line.text for line in self.local.logs if line.source == f"extension:{SIDECAR}"]
        return said[-1] if said else "nothing"

    def report_of(self, invocation: Invocation) -> Report:
        """Its REPORT, once all that belongs to it has ended and is frozen."""
        return self.local.report(invocation.request_id)

    def settled(self) -> bool:
        return settled([seen.line for seen in self._seen()])

    @property
    def failing(self) -> bool:
        """True if all invocations failed."""
        return bool(self.errors) and all(self.errors)

    def measurement(self, warm_up: int | None = None, asked: int | None = None, *, is_cut: bool = False) -> Measurement:
        """End the environment and return what was measured. The first `warm_up` invocations do not count for drift.

        With None, the warm-up is as long as the curve took to settle. `is_cut`: an invocation is under way, and nothing
        waits for it.
        """
        self._look_at_children()
        self.local.stop(abort=is_cut)
        if warm_up is None:
            warm_up = settling([seen.line for seen in self._seen()], step=BLOCK, bound=WARM_UP)
        return self.so_far(warm_up, asked)

    def so_far(self, warm_up: int, asked: int | None = None) -> Measurement:
        """The measurement so far, without the last records."""
        self._look_at_children()
        count, seen = len(self._counted_ones), self._seen()
        made = Measurement(
            spec=self._target.spec,
            seen=seen,
            left_in_tmp={number: mib for number, mib in self._in_tmp.items() if number <= count},
            tmp_mib=self._target.tmp_mib,
            reported_ms=self._durations(),
            asked=asked,
            invocations=count,
            warm_up=warm_up,
            settled=[
                each for each in self.settler.readings if each.invocation <= count or each.invocation in self._kinds
            ],
            new_from=self._new_from,
            kinds=self._kinds,
            judged_until=self._new_from - 1 if self._new_from else self._counted,
            slowed=self.settler.slowed,
            children=self._children,
            errors_percent=self._decision.errors_percent,
            allowed=self._decision.allowed,
            memory_mib=self._target.memory_mib,
            seconds=time.monotonic() - self._started,
            failures=self._failures(),
            notices=(*self.notices, *self._missing_modules(), *self._missing_in_image()),
            last_words=self.last_words,
            variables=self._target.environment,
            places=[self.places.get(text, 0) for text in self._events[:count] if self.places],
            about={
                "runtime": self._target.function.runs_on or "bootstrap",
                "memorySize": self._target.memory_mib,
                "events": self.given or digest(self._events),
                "sent": len({*self._events}),
            },
        )
        if self.rounds is None:
            return made
        rounds = replace(made, shared=self.rounds.shared())
        return replace(rounds, workers=self.rounds.by_worker(rounds))

    def _look_at_children(self) -> None:
        """Keep the name that most of the environment's processes have, if there are many of it."""
        names: Counter[str] = Counter()
        for each in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                names[each.name()] += 1
        for name, count in names.most_common(1):
            self._children = name if count >= MANY else self._children

    @property
    def _counted_ones(self) -> list[Invocation]:
        return self.answers[: self._counted]

    def _durations(self) -> dict[int, float]:
        reported = {report.request_id: report.duration_ms for report in self.local.reports}
        if self.rounds is not None:
            return self.rounds.took(reported)
        numbered = enumerate(self._counted_ones, 1)
        return {number: reported[each.request_id] for number, each in numbered if each.request_id in reported}

    def _failures(self) -> list[FailedInvocation]:
        failed = [(number, each.error) for number, each in enumerate(self._counted_ones, 1) if each.error]
        last = failed[-1][0] if failed else 0
        return [
            FailedInvocation(number, error, self._log(number) if number == last else []) for number, error in failed
        ]

    def _missing_in_image(self) -> list[str]:
        """What its Dockerfile lacks, if all invocations failed for that."""
        function = self._target.function
        if function.image is None or not self.failing or self._target.http is not None:
            return []
        found = MISSING_MODULE.search(self.answers[-1].error)
        name = found[1].partition(".")[0] if found else ""
        if name and function.handler.startswith(f"{name}."):
            return [
                f"CMD names {function.handler}, and {name}.py is not in {function.image.folder}: change CMD or WORKDIR"
            ]
        if name:
            return [f"the image has no module {name!r}: add RUN pip install {name} to its Dockerfile"]
        has_begun = any(e["record"].get("status") == "success" for e in self.local.events if e["type"] == INIT_DONE)
        if has_begun or not self.answers[-1].error.startswith(UNSAID):
            return []
        return [NO_CLIENT.format(CLIENTS.get(function.language, CLIENTS["python"]))]

    def _missing_modules(self) -> list[str]:
        """What to install, a sentence for each missing module. None if all failed: then the finding says it."""
        if self.failing:
            return []
        said = (missing_module(each.error, self._target.function) for each in self.answers if each.error)
        return list(dict.fromkeys(filter(None, said)))

    def _log(self, number: int) -> list[str]:
        """The end of what the function logged in an invocation."""
        first, last = [*self._begins, None][number - 1 : number + 1]
        return end_of_log(line.text for line in self.local.logs[first:last] if line.source == "function")

    def _seen(self) -> list[Recorded]:
        if self.rounds is not None:
            return self.rounds.recorded()[: len(self._counted_ones)]
        by_request: dict[str | None, Line] = {}
        for text in self.printed:
            for line in parse_event(text):
                by_request.setdefault(line.request_id, line)
        numbered = enumerate(self._counted_ones, 1)
        return [Recorded(n, by_request[each.request_id]) for n, each in numbered if each.request_id in by_request]


def need_explicable(target: Target) -> Target:
    """The function, if it can be traced: an executable is started for that. Raises BadInput."""
    if not (why := target.why_inexplicable) or _starts_jvm(target):
        return target
    raise BadInput(
        f"{target.spec} {why}. Handlers in Python and Node.js can be traced, programs in Go and what links glibc, and"
        f" what starts a JVM that can be attached to (HotSpot, without -Xrs and -XX:+DisableAttachMechanism). Try"
        f" truemem check {target.spec} --no-explain; its own tools name what grows:"
        f" {docs_link.command('patterns#from-an-alarm-to-the-line')}"
    )


def _starts_jvm(target: Target) -> bool:
    with Run(replace(target, sidecar=False, extensions={}), settles=False) as run:
        run.local.settle()
        pid = run.local.processes().get("runtime")
        return pid is not None and has_jvm(pid)


def digest(events: Iterable[str]) -> str:
    """Hash of a set of events, each as JSON: without their order and repetition."""
    return hashlib.sha256("\n".join(sorted({*events})).encode()).hexdigest()[:16]


def measure(
    target: Target, events: Sequence[object], plan: Plan, decision: Decision, progress: Progress = lambda *_: None
) -> Measurement:
    """Make a whole run: warm up, passes of the same events, then of new ones, then of each kind. Where peaks are asked
    for, and passes have collected garbage, one more without passes. Raises BadInput."""
    decision.full_by = full_by(plan.invocations)
    with Run(target, decision) as run:
        texts = [*map(text_of, events)]
        run.given = digest(texts)
        if len({*texts}) > 1:
            run.places = {text: place for place, text in reversed([*enumerate(texts, 1)])}
        same, new = held_back(events)
        try:
            taken = invoke_until_decided(run, same, plan, decision, progress)
            if new and not decision.given_up:
                run.ask_new(same, new, progress)
            if not decision.given_up and run.so_far(taken).finding.grows:
                run.ask_kinds(same, progress)
            run.follow(events[0])
            measured = run.measurement(taken, plan.invocations)
        except Ended as ended:
            if not run.answers:
                raise
            return run.measurement(is_cut=True).ended_by(ended.number)
        measured = replace(measured, judged_until=decision.until or measured.judged_until)
        measured = measured.stopped(decision.given_up) if decision.given_up else measured
    if not decision.asks_peaks or not measured.is_collected:
        return measured
    try:
        return replace(measured, uncollected=_uncollected(target, same, measured.invocations, progress))
    except Ended as ended:
        return measured.ended_by(ended.number, "peaks were measured without settling")


def _uncollected(target: Target, events: Sequence[object], count: int, progress: Progress) -> Sequence[Recorded]:
    """So many invocations of another environment, in which nothing is settled: garbage stays as long as in Lambda."""
    with Run(target, settles=False) as run:
        for done, event in enumerate(islice(cycle(events), count), 1):
            run.invoke(event)
            progress("peaks", done, count)
        run.follow(events[0])
        return run.measurement(0).seen
