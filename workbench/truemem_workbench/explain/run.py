"""Runs the function again under a tracer, and collects what the tracer found."""

from __future__ import annotations

import dataclasses
import itertools
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..judge.curves import HELD, MALLOC
from ..judge.settled import Reading
from ..local import Function, Stopped
from ..local.processes.tmp import elsewhere
from ..printed.line import Line
from ..runs.here import Run
from ..runs.measurement import Measurement
from ..runs.settle.go import is_go
from ..support.bad_input import BadInput
from ..support.estimates import theil_sen
from ..support.platform_facts import MOST_MIB, MOST_TIMEOUT_S
from ..support.terminal import Progress, notify, steps
from ..support.untrusted_text import loads, visible
from ..target.target import Target
from . import native, native_samples, native_sites, node
from .attribution import LEAST_LOOKS, Holder, Users, attribute
from .explanation import REST, Account, Explanation, likely
from .node import HeapReader

LOOKS = 10  # looks at what is held
JITTER = (0.0, -0.02, 0.13, 0.13, -0.29, -0.39, -0.1, -0.18, 0.25, 0.0)
"""Where each of them lies beside its place at equal distances, in such distances: what is emptied after each 17
invocations would seem to grow if it were looked at after each 18."""
WATCHED = 20  # invocations after the last look, in which the lines are seen
TIMES = 4  # the run ends after so many times the plain run's seconds
INVOKING = 0.95  # share of that time in which it is invoked: the environment's end takes some as well
LOOKS_S = 60
"""So much longer may it take for the looks, whatever the plain run took. A look at 100,000 objects takes some 0.3 s, a
heap snapshot of 5 MiB 0.5 s."""
NOT_UNDERSTOOD = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
LONGEST = 300  # bytes of an error that are shown
PRELOAD = "LD_PRELOAD"


@dataclass(frozen=True)
class TracerModule:
    code: Path
    """Its module, which runs in the function's process."""
    handler: str
    """Its handler, as the runtime client is told it. Empty: the function's own stays."""
    read: Callable[[Path], list[dict[str, Any]]]
    """Reads what it wrote into a folder: a document for each process."""
    variables: Mapping[str, str] = field(default_factory=dict)
    between: Callable[[Path], None] = lambda _: None
    """Is called after each invocation. Raises OSError, ValueError or LookupError for what it cannot read."""
    silence: str = "the function ended too early, or left no time for it"
    """Why it may have written nothing."""

    @classmethod
    def python(
        cls, module: str, read: Callable[[Path], list[dict[str, Any]]], variables: Mapping[str, str] | None = None
    ) -> TracerModule:
        return cls(Path(__file__).with_name(f"{module}.py"), f"{__package__}.{module}.handler", read, variables or {})

    @classmethod
    def node(cls) -> TracerModule:
        heap = HeapReader()
        code = Path(__file__).with_name("node_tracer.mjs")
        return cls(code, f"{code.with_suffix('')}.handler", heap.read, between=heap.between)

    @classmethod
    def malloc(cls, library: Path, looks: Sequence[int], period: int, preloaded: str = "") -> TracerModule:
        """`preloaded`: what the function preloads itself."""
        reader = native_samples.SampleReader(looks)
        variables = {PRELOAD: ":".join(filter(None, (str(library), preloaded))), native_samples.PERIOD: str(period)}
        return cls(library, "", reader.read, variables, reader.between, native_samples.SILENCE)


@dataclass(frozen=True)
class Traced:
    """What the tracer found, as it wrote it. Empty if nothing."""

    found: dict[str, Any]
    invocations: int
    seconds: float
    missing: tuple[str, ...] = ()
    """What is missing in the answer, as sentences."""


def _written(folder: Path) -> list[dict[str, Any]]:
    return [loads(path.read_text(encoding="utf-8")) for path in folder.glob("found-*.json")]


def limit_s(plain_seconds: float) -> float:
    """Seconds after which a run under a tracer is ended."""
    return TIMES * plain_seconds + LOOKS_S


def explained(
    target: Target, events: Sequence[object], measured: Measurement, progress: Progress | None = None
) -> Explanation:
    """Run a measured function again under a tracer, with progress at the terminal unless another is given. The verdict
    is the plain run's."""
    most = limit_s(measured.seconds)
    if progress is None:
        again = "; then once more, as long, if Python's blocks explain too little" if target.function.python else ""
        notify("truemem", f"explaining: the function runs again under a tracer, for {most:.0f} s at most{again}")
        with steps() as shown:
            return explained(target, events, measured, shown)
    finding, rss = measured.finding, measured.verdict
    rate = finding.per_invocation_kib if finding.cause in ("leak", "native") else rss.per_invocation_kib
    roomy = dataclasses.replace(  # a tracer needs memory and time
        target,
        memory_mib=min(MOST_MIB, 2 * target.memory_mib + 512),
        timeout_s=min(MOST_TIMEOUT_S, 4 * target.timeout_s + 60),
        cpu="off",
    )
    return explain(
        roomy,
        events,
        invocations=measured.invocations,
        plain_seconds=measured.seconds,
        measured_kib=max(0.0, rate or 0.0),
        lines=[each.line for each in measured.judged],
        settled_kib={name: _growth(measured.settled, name) for name in (MALLOC, HELD)},
        progress=progress,
    )


def _growth(readings: Sequence[Reading], name: str) -> float:
    """By how much this has grown with each invocation, by these readings, KiB; 0 where it falls or is not known."""
    known = [(each.kept[name], float(each.invocation)) for each in readings if name in each.kept]
    if len(known) < 2:
        return 0.0
    values, places = zip(*known, strict=True)
    return max(0.0, theil_sen(values, places).slope)


def explain(
    target: Target,
    events: Sequence[object],
    *,
    invocations: int,
    plain_seconds: float,
    measured_kib: float,
    lines: Sequence[Line] = (),
    settled_kib: Mapping[str, float] = MappingProxyType({}),
    progress: Progress,
) -> Explanation:
    """Run a handler again as often as the plain run did, and attribute what grew to lines.

    `measured_kib` is the plain run's growth per invocation, `lines` are those of its invocations that were judged, and
    `settled_kib` is by how much what malloc has given out (MALLOC) and holds free (HELD) has grown with each.
    """
    function = target.function
    run = partial(trace, target, events, invocations=invocations, plain_seconds=plain_seconds, progress=progress)
    sampler = _sampler(target, invocations, measured_kib)
    if function.runtime is None:
        if sampler is None:
            return Explanation([], measured_kib, 0, 0.0, (native_samples.NOT_BUILT,))
        traced = run(tracer=sampler)
        program = native_sites.Program(function.task_root, Path(function.command[-1]))
        return _of_samples(traced, measured_kib, lines, settled_kib, program)
    traced = run(tracer=TracerModule.python("python_tracer", _written) if function.python else TracerModule.node())
    missing, seconds, done = list(traced.missing), traced.seconds, traced.invocations
    looks: tuple[int, ...] = tuple(traced.found["invocations"]) if traced.found else ()
    if len(looks) < LEAST_LOOKS:
        return Explanation([], measured_kib, done, seconds, tuple(missing), looks=looks)
    holders: list[Holder] = []
    try:
        if function.python is None:
            holders = node.holders(traced.found, measured_kib)
        else:
            holders = attribute(traced.found, function.task_root, measured_kib)
    except NOT_UNDERSTOOD as problem:  # the function's process has written it
        missing.append(f"What the tracer wrote could not be understood: {problem!r}")
    rest_kib = measured_kib - sum(each.kib for each in holders)
    if rest_kib > REST * measured_kib:
        second = _native(function, run, sampler)
        if second is None:
            missing += [native.INSTALL] if function.python is not None else []
        else:
            missing += second.missing
            seconds, done = seconds + second.seconds, done + second.invocations
            if "bytes" in second.found:
                holders += native_sites.of_modules(second.found, function.task_root, measured_kib, rest_kib)
            elif second.found:
                holders += native.beyond_python(second.found, traced.found, function.task_root, measured_kib)
            holders.sort(key=lambda each: -each.kib)
    explanation = Explanation(holders, measured_kib, done, seconds, tuple(dict.fromkeys(missing)), looks=looks)
    rest = likely(lines, explanation.rest_kib, sum(each.kib for each in holders))
    return dataclasses.replace(explanation, first_run_s=traced.seconds, rest=rest)


def _native(function: Function, run: Callable[..., Traced], sampler: TracerModule | None) -> Traced | None:
    """What native code below an interpreter keeps: by memray where Python finds it, else by samples of malloc. None if
    there is neither, or no native module."""
    if function.python is not None and (variables := native.variables(function.python)) is not None:
        return run(tracer=TracerModule.python("native_tracer", native.read, variables))
    if sampler is None or (function.python is None and not any(function.task_root.rglob("*.node"))):
        return None
    second = run(tracer=sampler)
    if function.python is None:
        return second
    return dataclasses.replace(second, missing=(*second.missing, native.INSTALL))


def _sampler(target: Target, invocations: int, measured_kib: float) -> TracerModule | None:
    """What samples malloc in the function's process. None if it was not built."""
    library = native_samples.library()
    if library is None:
        return None
    period = native_samples.period(measured_kib, invocations)
    return TracerModule.malloc(library, looked_at(invocations), period, target.environment.get(PRELOAD, ""))


def _of_samples(
    traced: Traced,
    measured_kib: float,
    lines: Sequence[Line],
    settled_kib: Mapping[str, float],
    program: native_sites.Program,
) -> Explanation:
    """What the samples of malloc explain of a program's growth."""
    looks: tuple[int, ...] = tuple(traced.found["invocations"]) if traced.found else ()
    if len(looks) < LEAST_LOOKS:
        return Explanation([], measured_kib, traced.invocations, traced.seconds, traced.missing, looks=looks)
    holders = native_sites.holders(traced.found, measured_kib, program)
    explained_kib = sum(each.kib for each in holders)
    account = Account.of(
        settled=max(measured_kib, settled_kib.get(MALLOC, 0.0)),
        lines=explained_kib,
        sampled=native_sites.sampled_kib(traced.found),
        held=settled_kib.get(HELD, 0.0),
    )
    missing = [*traced.missing, *program.without_lines(holders)]
    if is_go(program.path, program.path.stat().st_ino):
        missing.append(native_sites.GO)
    explanation = Explanation(
        holders,
        measured_kib,
        traced.invocations,
        traced.seconds,
        tuple(missing),
        first_run_s=traced.seconds,
        looks=looks,
        account=account,
    )
    return dataclasses.replace(explanation, rest=likely(lines, explanation.rest_kib, explained_kib))


def _error(answer: bytes) -> str:
    """Type and message of a failed invocation."""
    try:
        members = loads(answer.decode(errors="replace"))
        message = f"{members['errorType']}: {members['errorMessage']}"
    except (LookupError, TypeError, ValueError):
        message = answer.decode(errors="replace")
    return visible(message[:LONGEST])


def looked_at(invocations: int) -> list[int]:
    """The invocations after which there is a look, of so many."""
    every = max(1, (invocations - 1) // LOOKS)
    return [max(1, round((place + shift) * every)) for place, shift in enumerate(JITTER, 1)]


def _with(tracer: TracerModule, function: Function, folder: Path, variables: dict[str, str]) -> Function:
    """The function with this tracer in it. What is preloaded is taken out of `variables`: extensions have these too."""
    library = (Path(variables[name]) for name in (native.OURS,) if name in variables)
    needs = (*function.needs, folder, tracer.code, *library)
    preloaded = {PRELOAD: variables.pop(PRELOAD)} if PRELOAD in tracer.variables else {}
    traced = dataclasses.replace(function, needs=needs, variables={**function.variables, **preloaded})
    if not tracer.handler:
        return traced
    return dataclasses.replace(traced, command=(*function.command[:-1], tracer.handler), handler=tracer.handler)


def trace(
    target: Target,
    events: Sequence[object],
    *,
    tracer: TracerModule,
    invocations: int,
    plain_seconds: float,
    progress: Progress,
) -> Traced:
    """Invoke as often as the plain run did, for `limit_s` at most.

    Whatever goes wrong is a sentence in `missing`: the verdict of the plain run stands.
    """
    folder = Path(tempfile.mkdtemp(prefix="truemem-explain-", dir=elsewhere()))
    folder.chmod(0o1777)  # the function's process may run as another user
    function, looks, limit = target.function, looked_at(invocations), INVOKING * limit_s(plain_seconds)
    variables = {
        **target.environment,
        **tracer.variables,
        "TRUEMEM_EXPLAIN": str(folder),
        "TRUEMEM_EXPLAIN_HANDLER": function.handler,
        "TRUEMEM_EXPLAIN_FOREIGN": Users(function.task_root).foreign,
        "TRUEMEM_EXPLAIN_LOOKS": ",".join(map(str, looks)),
        "TRUEMEM_EXPLAIN_SECONDS": f"{limit:.1f}",
    }
    traced = _with(tracer, function, folder, variables)
    started, total = time.monotonic(), looks[-1] + WATCHED
    done, failed, missing, error, left, slowest = 0, 0, [], "", limit, 0.0
    try:
        with Run(dataclasses.replace(target, function=traced, environment=variables, sidecar=False)) as run:
            for event in itertools.islice(itertools.cycle(events), total):
                left = limit - (time.monotonic() - started)
                if left <= 0:
                    missing.append(f"It was ended after {limit:.0f} s: {done} of {total} were traced.")
                    break
                began = time.monotonic()
                answer = run.invoke(event, timeout=left)
                slowest = max(slowest, time.monotonic() - began)
                done += 1
                tracer.between(folder)
                if answer.function_error is not None:
                    failed, error = failed + 1, _error(answer.raw)
                progress("explaining", done, total)
    except TimeoutError:  # of the time that was left: was that enough for any other invocation?
        ended = "An invocation did not end" if left > slowest else f"It was ended after {limit:.0f} s"
        missing.append(f"{ended}: {done} of {total} were traced.")
    except (BadInput, Stopped) as problem:
        missing.append(f"It could not be traced further than {done} invocations: {problem}")
    except (OSError, ValueError, LookupError) as problem:
        missing.append(f"After {done} invocations what the tracer wrote could not be read: {problem!r}")
    try:
        documents = tracer.read(folder)
    except OSError as problem:
        documents = []
        missing.append(f"What the tracer wrote cannot be read: {problem}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if failed:
        missing.append(f"{failed} of {done} invocations failed under the tracer, the last of them: {error}.")
    if len(documents) > 1:
        missing.append(f"The function had {len(documents)} processes, one after the other: one of them is explained.")
    found: dict[str, Any] = max(documents, key=lambda each: len(each["invocations"]), default={})
    if not found:
        missing.append(f"The tracer wrote nothing: {tracer.silence}.")
    missing += found.get("missing", [])
    return Traced(found, done, time.monotonic() - started, tuple(dict.fromkeys(missing)))
