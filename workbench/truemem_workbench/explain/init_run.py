"""Runs a function's init several times: once to see its memory, module by module, and then for the time."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

from truemem.config import VCPU_MIB

from ..local import Stopped
from ..local.configuration.node_function import SUFFIXES
from ..local.processes.tmp import elsewhere
from ..runs.here import Run
from ..support.bad_input import BadInput
from ..support.exit_codes import Ended
from ..support.platform_facts import MOST_MIB, MOST_TIMEOUT_S
from ..support.terminal import Progress, counted
from ..target.target import Target
from .attribution import Users
from .init_cost import InitCost, cost, nested, node_packages, python_packages
from .init_log import Log, read_log
from .run import TracerModule

STEP_KIB = 256
"""The process is settled where its RSS has changed by so much: what a module holds is known to about that."""
BUSY = 0.5
"""Load of each CPU, before the runs, from which on others' work is in the time."""
ONE_THREAD = "--single-threaded-gc"
"""Option of Node.js in the run for memory: else V8's threads give pages back some time after a collection."""
TIMED = 3
"""Runs that take the time."""


class Pass(NamedTuple):
    log: Log
    init_ms: float
    error: str
    """Why the first invocation failed; empty if it did not."""


def init_cost(
    target: Target, event: object, progress: Progress, check: str = "truemem check", size_mib: int | None = None
) -> InitCost:
    """Run init under the tracer, and say what it holds and takes. `check`: the command that tells more of an init that
    fails. `size_mib`: the memory size that was asked for, if one was. Raises BadInput for an init that fails, and for a
    language that has no tracer."""
    function = target.function
    is_python = function.language == "python"
    if not is_python and function.language != "nodejs":
        run = f"truemem local run {target.spec} --env"
        told = f"A program in Go says it itself: {run} GODEBUG=inittrace=1; a JVM its classes"
        if function.language == "java":
            told = "A JVM says its classes"
        raise BadInput(
            f"{target.spec}: --init is for handlers in Python and Node.js. {told}: {run}"
            " JAVA_TOOL_OPTIONS=-Xlog:class+load"
        )
    code = Path(__file__).with_name("init_tracer.mjs")
    tracer = (
        TracerModule.python("init_tracer", lambda _: [])
        if is_python
        else TracerModule(lambda _: [], code, f"{code.with_suffix('')}.handler")
    )
    users = Users(function.task_root)
    load, cpus = os.getloadavg()[0], len(os.sched_getaffinity(0))
    busy = [f"This machine is busy (load {load:.1f}): it takes longer than it must."] if load > BUSY * cpus else []
    passes, signal = list[Pass](), 0
    try:
        for number in range(1 + TIMED):
            progress("starting it for the time" if number else "starting it for memory", number, 1 + TIMED)
            passes.append(_pass(target, event, tracer, 0 if number else STEP_KIB, check))
    except Ended as ended:
        if not passes:
            raise
        signal, timed = ended.number, counted(len(passes) - 1, "start") if passes[1:] else "the start that was traced"
        busy.append(f"It was ended early: the time is that of {timed}.")
    memory, *times = passes
    missing = [*busy, *memory.log.missing, *([f"The first invocation failed: {memory.error}."] if memory.error else [])]
    held = cost(
        memory.log,
        [(each.log, each.init_ms) for each in times or passes],
        python_packages if is_python else node_packages,
        lambda file: users.is_theirs((function.placed(file), 0)) and "/node_modules/" not in file,
        lambda name: _line_of(Path(target.source) if target.source else None, name),
        missing,
        size_mib,
    )
    return dataclasses.replace(held, signal=signal)


def _line_of(source: Path | None, package: str) -> str:
    """Where this file of JavaScript imports the package: FILE:LINE. Empty if it does not."""
    if source is None or source.suffix not in SUFFIXES:
        return ""
    said = re.compile(rf"""["'](?:node:)?{re.escape(package.removeprefix("node:"))}["'/]""")
    lines = source.read_text(encoding="utf-8", errors="replace").splitlines()
    return next((f"{source.resolve()}:{number}" for number, line in enumerate(lines, 1) if said.search(line)), "")


def _pass(target: Target, event: object, tracer: TracerModule, step_kib: int, check: str) -> Pass:
    folder = Path(tempfile.mkdtemp(prefix="truemem-explain-", dir=elsewhere()))
    folder.chmod(0o1777)  # the function's process may run as another user
    function = target.function
    variables = {
        **target.environment,
        "TRUEMEM_EXPLAIN": str(folder),
        "TRUEMEM_EXPLAIN_HANDLER": function.handler,
        "TRUEMEM_EXPLAIN_FOREIGN": Users(function.task_root).foreign,
        "TRUEMEM_INIT_STEP_KIB": str(step_kib),
    }
    traced = tracer.around(function, folder, variables)
    if step_kib and function.language == "nodejs":
        *before, client, handler = traced.command
        traced = dataclasses.replace(traced, command=(*before, ONE_THREAD, client, handler))
    roomy = dataclasses.replace(
        target,
        function=traced,
        environment=variables,
        memory_mib=min(MOST_MIB, 2 * target.memory_mib + 512),
        timeout_s=min(MOST_TIMEOUT_S, 4 * target.timeout_s + 60),
        cpu=_cpu(target, step_kib),
        sidecar=False,
        extensions={},
    )
    try:
        with Run(roomy, settles=False, init_timeout_s=roomy.timeout_s) as run:
            answer = run.invoke(event)
            report = run.report_of(answer)
        logs = [nested(read_log(path.read_text(encoding="utf-8"))) for path in folder.glob("init-*.log")]
    except Stopped as problem:
        raise BadInput(f"{target.spec}: init did not end: {problem}") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    log = next((each for each in logs if each.is_whole), None)
    if log is None or report.init_duration_ms is None:
        ours, theirs = (each.rpartition(".")[0] for each in (traced.handler, function.handler))
        why = answer.error.replace(ours, theirs) or "the process ended"
        raise BadInput(f"{target.spec}: init fails: {why}. Try {check}")
    return Pass(log, report.init_duration_ms, answer.error)


def _cpu(target: Target, step_kib: int) -> str | float:
    """The CPU limit of the memory size that was asked for; none while memory is read."""
    if step_kib:
        return "off"
    return target.memory_mib / VCPU_MIB if target.cpu == "size" else target.cpu
