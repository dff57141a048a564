"""Runs the function again under a tracer, and collects what the tracer found."""

from __future__ import annotations

import dataclasses
import itertools
import linecache
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from ..judge.curves import HELD, MALLOC
from ..judge.settled import Reading
from ..local import Function, Stopped
from ..local.images.image import Image
from ..local.processes.tmp import elsewhere
from ..printed.line import Line
from ..runs.here import Run
from ..runs.measurement import Measurement
from ..runs.settle import jvm
from ..support.bad_input import BadInput
from ..support.estimates import theil_sen
from ..support.exit_codes import Ended
from ..support.platform_facts import MOST_MIB, MOST_TIMEOUT_S
from ..support.terminal import Progress, notify, steps
from ..support.untrusted_text import loads, visible
from ..target import native_program
from ..target.go_program import is_go
from ..target.target import Target
from . import go, java, native, native_samples, native_sites, node
from .attribution import LEAST_LOOKS, Frame, Holder, Users, attribute
from .explanation import REST, Account, Explanation, LikelyCause, likely
from .looks import Looks
from .node import HeapReader
from .own_sources import OwnSources

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
OVER = "The time for it was over"
LONGEST = 300  # bytes of an error that are shown
PRELOAD = "LD_PRELOAD"
PYTHON_PATH = "PYTHONPATH"
PACKAGE = Path(__file__).parents[1]
"""The folder of the workbench."""


@dataclass(frozen=True)
class TracerModule:
    read: Callable[[Path], list[dict[str, Any]]]
    """Reads what it wrote into a folder: a document for each process."""
    code: Path | None = None
    """What of it runs in the function's process. None: it asks from outside."""
    handler: str = ""
    """Its handler, as the runtime client is told it. Empty: the function's own stays."""
    variables: Mapping[str, str] = field(default_factory=dict)
    between: Callable[[Path, Run, int], None] = lambda *_: None
    """Is called before the first invocation, and after each, with their number. Raises OSError, ValueError or
    LookupError for what it cannot read."""
    silence: str = "the function ended too early, or left no time for it"
    """Why it may have written nothing."""

    def around(self, function: Function, folder: Path, variables: dict[str, str]) -> Function:
        """The function with this tracer in it. What is preloaded is taken out of `variables`: extensions have these
        too."""
        library = (Path(variables[name]) for name in (native.OURS,) if name in variables)
        needs = (*function.needs, folder, *([self.code] if self.code is not None else []), *library)
        own = {PRELOAD: variables.pop(PRELOAD)} if PRELOAD in self.variables else {}
        if function.image is not None and function.language == "python" and self.handler:
            needs = (*needs, PACKAGE / "__init__.py")  # an image has none of ours
            theirs = function.with_own(variables).get(PYTHON_PATH)
            own |= {PYTHON_PATH: ":".join(filter(None, (theirs, str(PACKAGE.parent))))}
        traced = dataclasses.replace(function, needs=needs, variables={**function.variables, **own})
        if not self.handler:
            return traced
        return dataclasses.replace(traced, command=(*function.command[:-1], self.handler), handler=self.handler)

    @classmethod
    def python(
        cls, module: str, read: Callable[[Path], list[dict[str, Any]]], variables: Mapping[str, str] | None = None
    ) -> TracerModule:
        return cls(read, Path(__file__).with_name(f"{module}.py"), f"{__package__}.{module}.handler", variables or {})

    @classmethod
    def node(cls) -> TracerModule:
        heap = HeapReader()
        code = Path(__file__).with_name("node_tracer.mjs")
        return cls(heap.read, code, f"{code.with_suffix('')}.handler", between=lambda folder, *_: heap.between(folder))

    @classmethod
    def java(cls, target: Target, planned: Sequence[int], seconds: float) -> TracerModule:
        looks = java.JvmLooks(planned, seconds)
        own = target.variables.get(jvm.OPTIONS, "")
        return cls(looks.read, variables={jvm.OPTIONS: f"{java.FLAGS} {own}".strip()}, between=looks.between)

    @classmethod
    def go(cls, target: Target, planned: Sequence[int], seconds: float) -> TracerModule:
        looks = go.GoLooks(Looks(planned, seconds), placed=target.function.placed)
        return cls(looks.read, variables=go.settings(target.variables), between=looks.between)

    @classmethod
    def malloc(cls, target: Target, invocations: int, measured_kib: float) -> TracerModule | None:
        """None if the sampler was not built."""
        library = native_samples.library()
        if library is None:
            return None
        reader = native_samples.SampleReader(looked_at(invocations), target.function.placed)
        variables = {
            PRELOAD: ":".join(filter(None, (str(library), target.variables.get(PRELOAD, "")))),
            native_samples.PERIOD: str(native_samples.period(measured_kib, invocations)),
        }
        return cls(
            reader.read,
            library,
            variables=variables,
            between=lambda folder, _, number: reader.between(folder) if number else None,
            silence=native_samples.SILENCE,
        )


Found = Mapping[str, Any]


class Way(NamedTuple):
    """How the lines of one language are found."""

    tracer: TracerModule
    known: str
    """How it is known what lines keep, in words for the account."""
    holders: Callable[[Found, float], list[Holder]]
    """The holders, by what the tracer found and what grew in the plain run, KiB per invocation."""
    is_exact: bool = False
    """Does the tracer count all? Then that is at least what was kept."""
    counted: Callable[[Found], tuple[float, float]] = lambda _: (0.0, 0.0)
    """KiB per invocation by which all grew that the tracer has counted, named or not; and outside of the runtime's
    heap."""
    rest: Callable[[Found, Account], LikelyCause | None] = lambda *_: None
    """What the tracer knows of the rest."""
    apart: Callable[[Found], float] = lambda _: 0.0
    """KiB per invocation by which grew what the plain run's growth leaves out."""
    missing: Callable[[Sequence[Holder]], list[str]] = lambda _: []
    """Sentences on what these holders do not say."""
    native: native_sites.Code | None = None
    """Which native code below the runtime may keep the rest, for samples of malloc in a run of their own."""


def _way(target: Target, invocations: int, plain_seconds: float, measured_kib: float, *, is_jvm: bool) -> Way | None:
    """None if what samples malloc was not built."""
    function = target.function
    seconds, looks = INVOKING * limit_s(plain_seconds), looked_at(invocations)
    root = function.task_root
    if function.language == "python":
        return Way(
            TracerModule.python("python_tracer", _written),
            "by Python's tracemalloc",
            lambda found, kib: attribute(found, root, kib),
            native=native_sites.Modules(root),
        )
    if function.language == "nodejs":
        return Way(TracerModule.node(), "by V8's heap snapshots", node.holders, native=native_sites.Modules(root))
    program = function.program
    if is_jvm or function.language == "java" or (not is_go(program) and native_program.why_not(program)):
        return Way(
            TracerModule.java(target, looks, seconds),
            "by class histograms and Flight Recorder",
            lambda found, kib: java.holders(found, java.Sources(root), kib),
            rest=lambda found, account: java.rest(found, account.settled - account.lines),
            apart=java.apart,
        )
    code = native_sites.Program(root, program)
    if is_go(program):
        return Way(
            TracerModule.go(target, looks, seconds),
            "each allocation counted",
            go.holders,
            is_exact=True,
            counted=go.kept_kib,
            rest=lambda _, account: go.cgo(account),
            native=None if native_program.why_not(program) else code,
        )
    tracer = TracerModule.malloc(target, invocations, measured_kib)
    if tracer is None:
        return None
    return Way(
        tracer,
        f"by {native_samples.KNOWN}",
        lambda found, kib: native_sites.holders(found, kib, code),
        counted=lambda found: (native_sites.sampled_kib(found), 0.0),
        missing=code.without_lines,
    )


@dataclass(frozen=True)
class Traced:
    """What the tracer found, as it wrote it. Empty if nothing."""

    found: dict[str, Any]
    invocations: int
    seconds: float
    missing: tuple[str, ...] = ()
    """What is missing in the answer, as sentences."""
    signal: int = 0
    """Number of the signal that has ended it; 0 if none has."""


def _written(folder: Path) -> list[dict[str, Any]]:
    return [loads(path.read_text(encoding="utf-8")) for path in folder.glob("found-*.json")]


def limit_s(plain_seconds: float) -> float:
    """Seconds after which a run under a tracer is ended."""
    return TIMES * plain_seconds + LOOKS_S


def explained(
    target: Target, events: Sequence[object], measured: Measurement, progress: Progress | None = None
) -> Explanation:
    """Run a measured function again under a tracer, with progress at the terminal unless another is given. The verdict
    is the plain run's. A signal ends it with what is known."""
    most = limit_s(measured.seconds)
    if progress is None:
        again = "; then once more, as long, if native code may keep it" if target.function.language == "python" else ""
        notify("truemem", f"explaining: the function runs again under a tracer, for {most:.0f} s at most{again}")
        with steps() as shown:
            return explained(target, events, measured, shown)
    finding, of_function = measured.finding, measured.kept if measured.is_jvm else measured.verdict
    one = measured.loudest
    rate = (finding if finding.cause in ("leak", "native") else of_function).per_invocation_kib
    roomy = dataclasses.replace(  # a tracer needs memory and time
        target.with_one_worker(),
        memory_mib=min(MOST_MIB, 2 * target.memory_mib + 512),
        timeout_s=min(MOST_TIMEOUT_S, 4 * target.timeout_s + 60),
        cpu="off",
    )
    rate = max(0.0, rate or 0.0)
    try:
        return explain(
            roomy,
            events,
            invocations=measured.invocations,
            plain_seconds=measured.seconds,
            measured_kib=rate,
            lines=[each.line for each in one.judged],
            settled_kib={name: _growth(one.settled, name) for name in (MALLOC, HELD)},
            is_jvm=measured.is_jvm,
            progress=progress,
        )
    except Ended as ended:
        return Explanation([], rate, 0, 0.0, ("It was ended early.",), signal=ended.number)


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
    is_jvm: bool = False,
    progress: Progress,
) -> Explanation:
    """Run a handler again as often as the plain run did, and attribute what grew to lines.

    `measured_kib` is the plain run's growth per invocation, `lines` are those of its invocations that were judged, and
    `settled_kib` is by how much what malloc has given out (MALLOC) and holds free (HELD) has grown with each.
    """
    function = target.function
    run = partial(trace, target, events, invocations=invocations, plain_seconds=plain_seconds, progress=progress)
    way = _way(target, invocations, plain_seconds, measured_kib, is_jvm=is_jvm)
    if way is None:
        return Explanation([], measured_kib, 0, 0.0, (native_samples.NOT_BUILT,))
    traced = run(tracer=way.tracer)
    missing, seconds, done = list(traced.missing), traced.seconds, traced.invocations
    looks: tuple[int, ...] = tuple(traced.found["invocations"]) if traced.found else ()
    if len(looks) < LEAST_LOOKS:
        return Explanation([], measured_kib, done, seconds, tuple(missing), looks=looks, signal=traced.signal)
    holders: list[Holder] = []
    known, counted, outside = way.known, 0.0, 0.0
    try:
        counted, outside = way.counted(traced.found)
        measured_kib = max(measured_kib, counted + outside if way.is_exact else 0.0) + way.apart(traced.found)
        holders = way.holders(traced.found, measured_kib)
    except NOT_UNDERSTOOD as problem:  # the function's process has written it
        missing.append(f"What the tracer wrote could not be understood: {problem!r}")
    own = OwnSources(target.function.task_root) if target.function.language == "python" and holders else None
    is_rest = own or measured_kib - sum(each.kib for each in holders) > REST * measured_kib
    signal = traced.signal
    if is_rest and not signal:
        before = holders
        second, holders = _native(target, way, traced, run, invocations, measured_kib, before)
        if holders != before:
            known += f" and {native.KNOWN if second.found.get('sources') is not None else native_samples.KNOWN}"
        missing += second.missing
        seconds, done, signal = seconds + second.seconds, done + second.invocations, second.signal
    named_kib = sum(each.kib for each in holders)
    measured_kib = max(measured_kib, named_kib)  # RSS follows late, and not at all while freed memory is used again
    account = Account.of(
        max(measured_kib, settled_kib.get(MALLOC, 0.0)),
        named_kib,
        counted,
        known,
        held=settled_kib.get(HELD, 0.0),
        outside=outside,
    )
    explanation = Explanation(
        [_named_inside(function.image, each) for each in holders] if function.image is not None else holders,
        measured_kib,
        done,
        seconds,
        tuple(dict.fromkeys((*missing, *way.missing(holders)))),
        first_run_s=traced.seconds,
        looks=looks,
        account=account,
        signal=signal,
    )
    rest = way.rest(traced.found, account) or likely(lines, explanation.rest_kib, account.lines)
    return dataclasses.replace(explanation, rest=rest)


def _named_inside(image: Image, holder: Holder) -> Holder:
    """With the files' names in the image. Their lines are quoted by these names."""

    def inside(frame: Frame) -> Frame:
        if not frame[0].startswith(f"{image.root}/"):
            return frame
        name = image.inside(Path(frame[0]))
        if lines := linecache.getlines(frame[0]):
            linecache.cache[name] = sum(map(len, lines)), None, lines, name
        return (name, *frame[1:])

    return dataclasses.replace(
        holder,
        file=inside((holder.file, holder.line))[0],
        stack=tuple(map(inside, holder.stack)),
        allocated=holder.allocated and inside(holder.allocated),
        called=holder.called and inside(holder.called),
    )


def _native(
    target: Target,
    way: Way,
    traced: Traced,
    run: Callable[..., Traced],
    invocations: int,
    measured_kib: float,
    holders: list[Holder],
) -> tuple[Traced, list[Holder]]:
    """The lines with those of native code below a runtime, in a run of its own: by memray where Python finds it, else
    by samples of malloc, for what these holders do not explain. As they are where there is neither, or no native
    code."""
    function, root = target.function, target.function.task_root
    if function.python is not None and (variables := native.variables(function.python)) is not None:
        read = partial(native.read, sources=OwnSources(root))
        second = run(tracer=TracerModule.python("native_tracer", read, variables), phase=OF_NATIVE_CODE)
        if not second.found:
            return second, holders
        try:
            return second, native.with_native(second.found, traced.found, root, measured_kib)
        except NOT_UNDERSTOOD as problem:
            said = f"What the tracer wrote could not be understood: {problem!r}"
            return dataclasses.replace(second, missing=(*second.missing, said)), holders
    advice = () if function.python is None else (native.INSTALL,)
    if function.image is not None and native_program.why_not(function.program):  # its malloc is not glibc's, perhaps
        return Traced({}, 0, 0.0), holders
    is_node = function.language == "nodejs"
    has_code = way.native is not None and not (is_node and not any(root.rglob("*.node")))
    rest_kib = measured_kib - sum(each.kib for each in holders)
    has_rest = rest_kib > REST * measured_kib
    sampler = TracerModule.malloc(target, invocations, rest_kib) if has_code and has_rest else None
    if sampler is None or way.native is None:
        return Traced({}, 0, 0.0, advice), holders
    second = run(tracer=sampler, phase=OF_NATIVE_CODE)
    if second.found:
        more = native_sites.beside(second.found, way.native, measured_kib, rest_kib)
        holders = sorted([*holders, *more], key=lambda each: -each.kib)
    return dataclasses.replace(second, missing=(*second.missing, *advice)), holders


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


OF_NATIVE_CODE = "explaining, native code"


def trace(
    target: Target,
    events: Sequence[object],
    *,
    tracer: TracerModule,
    invocations: int,
    plain_seconds: float,
    progress: Progress,
    phase: str = "explaining under a tracer",
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
    traced = tracer.around(function, folder, variables)
    started, total = time.monotonic(), looks[-1] + WATCHED
    done, failed, missing, error, left, slowest, signal = 0, 0, [], "", limit, 0.0, 0
    try:
        with Run(dataclasses.replace(target, function=traced, environment=variables, sidecar=False)) as run:
            tracer.between(folder, run, 0)
            for event in itertools.islice(itertools.cycle(events), total):
                left = limit - (time.monotonic() - started)
                if left <= 0:
                    missing.append(f"{OVER}: {done} of {total} were traced.")
                    break
                began = time.monotonic()
                answer = run.invoke(event, timeout=left)
                slowest = max(slowest, time.monotonic() - began)
                done += 1
                tracer.between(folder, run, done)
                if answer.function_error is not None:
                    failed, error = failed + 1, _error(answer.raw)
                progress(phase, done, total)
    except TimeoutError:  # of the time that was left: was that enough for any other invocation?
        ended = "An invocation did not end" if left > slowest else OVER
        missing.append(f"{ended}: {done} of {total} were traced.")
    except Ended as by:
        signal = by.number
        missing.append(f"It was ended early: {done} of {total} were traced.")
    except (BadInput, Stopped) as problem:
        missing.append(f"It could not be traced further than {done} invocations: {problem}")
    except (OSError, ValueError, LookupError) as problem:
        missing.append(f"After {done} invocations what the tracer wrote could not be read: {problem!r}")
    try:
        documents = [function.placed(each) for each in tracer.read(folder)]
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
    return Traced(found, done, time.monotonic() - started, tuple(dict.fromkeys(missing)), signal)
