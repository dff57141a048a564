"""Runs functions that allocate until the kernel kills: which process dies, and is the record complete?"""

from __future__ import annotations

import json
import os
import random
import select
import signal
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from truemem_workbench.local import Function, Invocation

from faults.result import NotHere, Row, counted
from faults.subject import Subject
from testing.environment import Environment

HOG = Path(__file__).parent / "functions" / "hog.py"
SHAPES = {
    "fast": "one process, as fast as it can",
    "slow": "one process, 200 MiB a second",
    "child": "a child process",
    "children": "40 small children",
}
RECORDER_LIMIT = 2048
"""Bytes of `lastSamples` and `ending`."""

RUNTIME, CHILD, SIDECAR = "the runtime", "a child", "the sidecar"
DIED = {"Runtime.OutOfMemory": RUNTIME, "Runtime.ExitError": RUNTIME, "Extension.Crash": SIDECAR}


def out_of_memory(
    subject: Subject,
    memory_mib: int,
    shape: str,
    count: int,
    advance: Callable[[], None],
    *,
    adjustment: int | None = None,
) -> Row:
    """`count` times in one environment, which is reset after each that ends the runtime or the sidecar. `adjustment`:
    TRUEMEM_OOM_SCORE_ADJ. Raises NotHere without a memory cgroup."""
    variables = {} if adjustment is None else {"TRUEMEM_OOM_SCORE_ADJ": str(adjustment)}
    function = Function.from_handler(f"{HOG}:handler")
    with Environment(function, sidecar=subject.path, memory_mib=memory_mib, environment=variables) as environment:
        for notice in environment.local.notices:
            if "no permission for a memory cgroup" in notice:
                raise NotHere(notice)
        killed = []
        for _ in range(count):
            if environment.attempt("idle").function_error is None:
                killed.append(environment.attempt(shape))
            advance()
        environment.local.stop()
        lines = environment.local.extension_stdout(environment.name)
        ends = {
            event["record"]["requestId"]: event["record"].get("errorType", "")
            for event in environment.local.events
            if event["type"] == "platform.runtimeDone"
        }
    by_request: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        document = json.loads(line)
        by_request.setdefault(document["requestId"], []).append(document)
    victims: Counter[str] = Counter()
    broken = []
    recovered = 0
    for made in killed:
        victim = _victim(made, ends.get(made.request_id, ""))
        victims[victim] += 1
        found = by_request.get(made.request_id, [])
        recovered += any(record.get("recovered", False) for record in found)
        missing = incomplete(found, died=victim in (RUNTIME, SIDECAR))
        if missing:
            broken.append(f"{memory_mib} MiB, {shape}, {victim} died: {missing}")
    idle = [made for made in environment.invocations if made not in killed and not by_request.get(made.request_id)]
    broken += [f"{memory_mib} MiB, {shape}: no line of an invocation in between"] * len(idle)
    if len(killed) < count:
        broken.append(f"{memory_mib} MiB, {shape}: {count - len(killed)} invocations in between have failed")
    raised = "" if adjustment is None else f", TRUEMEM_OOM_SCORE_ADJ={adjustment}"
    return Row(
        f"out of memory at {memory_mib} MiB: {SHAPES[shape]}{raised}",
        counted(len(killed), "kernel OOM kill"),
        ", ".join(f"{victim} died: {number}" for victim, number in victims.most_common()),
        ("nothing" if not broken else counted(len(broken), "record") + " incomplete")
        + (f"; {recovered} recovered from the journal" if recovered else ""),
        broken,
    )


def killed_in_the_shutdown(subject: Subject, count: int, advance: Callable[[], None], seed: int = 6) -> Row:
    """The runtime runs out of memory, and the sidecar is killed before it has printed that: while it waits for a report
    that never comes, or before it has heard anything. Raises NotHere without a memory cgroup."""
    chance = random.Random(seed)
    with Environment(Function.from_handler(f"{HOG}:handler"), sidecar=subject.path, memory_mib=128) as environment:
        for notice in environment.local.notices:
            if "no permission for a memory cgroup" in notice:
                raise NotHere(notice)
        killed = []
        struck = 0
        for _ in range(count):
            environment.attempt("idle")
            processes = environment.local.processes()
            runtime, sidecar = processes["runtime"], processes[f"extension:{environment.name}"]
            with ThreadPoolExecutor(1) as pool:
                strike = pool.submit(_strike_after, runtime, sidecar, chance.uniform(0, 0.25))
                killed.append(environment.attempt("fast"))
                struck += strike.result()
            advance()
        environment.attempt("idle")
        environment.local.stop()
        lines = [json.loads(line) for line in environment.local.extension_stdout(environment.name)]
    broken = []
    recovered = 0
    for made in environment.invocations:
        found = [line for line in lines if line["requestId"] == made.request_id]
        recovered += any(line.get("recovered", False) for line in found)
        if made in killed:
            missing = incomplete(found, died=True)
        else:
            missing = "" if len([line for line in found if not line.get("mayRepeat")]) == 1 else "no line, or many"
        if missing:
            broken.append(f"killed in the shutdown: {missing}")
    return Row(
        "out of memory, and SIGKILL of the sidecar before it has said so",
        f"{counted(len(killed), 'kernel OOM kill')}, {struck} of them with a SIGKILL",
        "the runtime died",
        f"{'nothing' if not broken else counted(len(broken), 'record') + ' incomplete'}; {recovered} recovered",
        broken,
    )


def _strike_after(runtime: int, sidecar: int, after_s: float) -> bool:
    """SIGKILL for the sidecar so long after the runtime's death; False where it has ended by itself."""
    death, victim = os.pidfd_open(runtime), os.pidfd_open(sidecar)
    try:
        select.select([death], (), (), 60)
        if select.select([victim], (), (), after_s)[0]:
            return False
        signal.pidfd_send_signal(victim, signal.SIGKILL)
        return True
    finally:
        os.close(death)
        os.close(victim)


def incomplete(found: list[dict[str, Any]], *, died: bool) -> str:
    """What is missing of the record of an invocation that ran out of memory, or ""."""
    certain = [record for record in found if not record.get("mayRepeat")]
    if len(certain) != 1:
        return f"{counted(len(certain), 'line')}"
    record = certain[0]
    wanted = ["OutOfMemory", "outOfMemory"]
    if died:
        wanted += ["lastSamples", "ending"]
    missing = [name for name in wanted if name not in record]
    if missing:
        return f"no {', '.join(missing)}"
    if record["OutOfMemory"] != 1 or not record["outOfMemory"]["signals"]:
        return "no signal"
    if not died:
        return ""
    ending = record["ending"]
    unsaid = [name for name in ("level", "growthPerSecond", "holder") if name not in ending]
    if unsaid:
        return f"no {', '.join(unsaid)} in `ending`"
    size = len(json.dumps({name: record[name] for name in ("lastSamples", "ending")}))
    return f"a flight recorder of {size} bytes" if size > RECORDER_LIMIT else ""


def _victim(made: Invocation, error_type: str) -> str:
    """Say which process was killed."""
    if made.function_error is None:
        return CHILD if "a child died: -9" in str(made.payload) else "no process"
    return DIED.get(error_type, error_type or "an unknown process")
