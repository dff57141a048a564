"""Runs what can happen to an environment under the local Lambda: real processes, the service's resets and reasons."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from truemem_workbench.local import Function

from faults.environment import tally
from faults.result import Row, counted
from faults.subject import Subject
from testing.environment import Environment

HERE = Path(__file__).parent
MIB = 1 << 20

FAULTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "timeout": ("the function times out", "sleep", {"timeout_s": 1}),
    "crash": ("the runtime is killed", "crash", {}),
    "exit": ("the runtime exits", "exit", {}),
    "raise": ("the handler raises", "raise", {}),
    "init": ("the first init fails", "answer", {"environment": {"FAIL_INIT": "1"}}),
    "extension": ("another extension ends", "answer", {"extensions": [HERE / "extensions" / "crasher.py"]}),
    **{
        f"telemetry-{status}": (f"telemetry is refused with {status}", "answer", {"telemetry": status})
        for status in (202, 400, 403, 500)
    },
}
"""Title, what every second invocation does, and settings of the local Lambda."""


def life(subject: Subject, name: str, count: int, advance: Callable[[], None]) -> Row:
    """`count` times that fault in one environment, an ordinary invocation before and after each."""
    title, work, settings = FAULTS[name]
    wrong = 0
    function = Function.from_handler(f"{HERE / 'functions' / 'dying.py'}:handler")
    with Environment(function, sidecar=subject.path, **settings) as environment:
        errors = 0
        for _ in range(count):
            for do in ("answer", work):
                made = environment.attempt(do, mib=4)
                errors += made.function_error is not None
                wrong += made.function_error is None and made.payload != 4 * MIB
            advance()
        wrong += environment.attempt("answer", mib=4).payload != 4 * MIB and name != "extension"
        environment.local.stop()
        served = [made.request_id for made in environment.invocations]
        records = [json.loads(line) for line in environment.local.extension_stdout(environment.name)]
        own = [event["record"].get("errorType") for event in environment.local.events]
    return row(title, served, records, errors, wrong, own.count("Extension.Crash") if name != "extension" else 0)


def row(
    title: str, served: Sequence[str], records: Sequence[dict[str, Any]], errors: int, wrong: int, crashes: int
) -> Row:
    """What came of it: a certain line for each invocation, wanted."""
    printed = tally(list(served), list(records))
    missing = [name for name in served if not printed[name]]
    broken = [
        *([f"{title}: {counted(len(missing), 'line')} missing"] if missing else []),
        *([f"{title}: a line printed twice"] if max(printed.values()) > 1 else []),
        *([f"{title}: {counted(wrong, 'answer')} wrong"] if wrong else []),
        *([f"{title}: the sidecar has crashed"] if crashes else []),
    ]
    recovered = sum(record.get("recovered", False) for record in records)
    unreported = sum(record.get("reportMissing", False) for record in records)
    details = [
        counted(len(missing), "line") if missing else "nothing",
        *([f"{recovered} recovered from the journal"] if recovered else []),
        *([f"{unreported} without their report"] if unreported else []),
    ]
    return Row(
        title,
        counted(len(served), "invocation"),
        f"{counted(errors, 'error')} of its own, no other" if errors else "nothing",
        "; ".join(details),
        broken,
    )
