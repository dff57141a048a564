"""One run of the probe: all functions are asked side by side, then the log is read."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from truemem import VERSION

from . import SCHEMA, functions, questions
from .deployment import Deployment, side_by_side
from .functions import FILTER, MEASURE, SNAP_START, USERS, WRAPPED, ProbeFunction
from .questions import Outcome, outcome, refusal

_PATTERNS = (
    (re.compile(r"arn:[\w-]+:[^\s\"',]+"), "ARN"),
    (re.compile(r"truemem-probe-[0-9a-f]{8}[\w-]*"), "FUNCTION"),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE), "UUID"),
    (re.compile(r"\d{4}/\d\d/\d\d/\[[^\]]*\]\w+"), "STREAM"),
    # Not 16: a mask of capabilities is 16 hexadecimal digits.
    (re.compile(r"(?<![0-9a-z])[0-9a-f]{17,}(?![0-9a-z])", re.IGNORECASE), "HEX"),
    (re.compile(r"(?<!\d)\d{12}(?!\d)"), "ACCOUNT"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b"), "IP"),
    (re.compile(r"\b[\w-]+(?:\.[\w-]+)*\.(?:internal|amazonaws|local)\b(?:\.[\w-]+)*|\bip-\d+(?:-\d+){3}\b"), "HOST"),
)


def anonymous(value: Any) -> Any:
    """A copy of a JSON value in which each of these is a word such as ACCOUNT, ARN or UUID."""
    if isinstance(value, dict):
        return {key: anonymous(each) for key, each in value.items()}
    if isinstance(value, list):
        return [anonymous(each) for each in value]
    if isinstance(value, str):
        for pattern, word in _PATTERNS:
            value = pattern.sub(word, value)
    return value


LOG_S, PAUSE_S, SETTLE_S = 30.0, 2.0, 6.0
"""Longest wait for lines in the log, pause between two looks, and the time after which a line that is not there was
dropped, although others are there."""

KINDS = frozenset(each.name for each in (SNAP_START, *USERS))
"""Functions of which only the environment is asked."""
Key = tuple[str, ProbeFunction]
Lines = list[tuple[str, str]]
"""Stream and text of each line of the log. A stream is of one environment."""


def ask(deployment: Deployment, architectures: Sequence[str], memory_mib: int, say: Callable[[str], None]) -> Any:
    """Ask everything. Returns the document: nothing in it identifies the account, its functions or its invocations."""
    answers = side_by_side(
        {
            (architecture, function): partial(_ask, deployment, architecture, function, say)
            for architecture in architectures
            for function in deployment.functions[architecture]
        }
    )
    say("reading the log")
    lines = _lines(deployment, [(architecture, FILTER) for architecture in architectures])
    results = [
        {"architecture": architecture, "runtime": runtime, "outcomes": outcomes}
        for architecture in architectures
        for runtime, outcomes in (
            (functions.RUNTIME, _outcomes(deployment, architecture, answers, lines)),
            *_kinds(deployment, architecture, answers),
        )
    ]
    document = {
        "schema": SCHEMA,
        "truemem": VERSION,
        "date": datetime.now(UTC).date().isoformat(),
        "region": deployment.region,
        "memoryMiB": memory_mib,
        "results": results,
    }
    return anonymous(document)


def _ask(deployment: Deployment, architecture: str, function: ProbeFunction, say: Callable[[str], None]) -> Any:
    refused = deployment.refusals.get((architecture, function))
    name = deployment.run.function_name(architecture, function)
    invoke = partial(deployment.invoke, name, function.version)
    if function is MEASURE:
        answer: Any = questions.measure(invoke)
    elif function.name in KINDS:
        answer = {"environment": refusal(refused)} if refused else questions.environment(invoke)
    elif function is FILTER:
        answer = refusal(refused) if refused else questions.filtered(invoke)
    else:
        answer = {"answer": refusal(refused), "tail": ""} if refused else questions.wrapped(invoke)
    say(f"{architecture} {function.name}: asked")
    return answer


def _kinds(deployment: Deployment, architecture: str, answers: dict[Key, Any]) -> Iterator[tuple[str, Any]]:
    """What each other kind of environment has said: one is a column of its own."""
    for function in deployment.functions[architecture]:
        if function.name in KINDS:
            given = answers[architecture, function]
            answer = {"environment": refusal(given)} if isinstance(given, Exception) else given
            yield f"{functions.RUNTIME}, {function.name}", answer


def _outcomes(deployment: Deployment, architecture: str, answers: dict[Key, Any], lines: Lines) -> dict[str, Outcome]:
    """All outcomes of one architecture, by question."""

    def answer(function: ProbeFunction) -> tuple[str, Any, list[str]]:
        """Name of the function, what it answered, and the lines of its environments."""
        given = answers[architecture, function]
        if isinstance(given, Exception):
            why = refusal(given)
            given = {MEASURE: {"environment": why}, FILTER: why}.get(function, {"answer": why, "tail": ""})
        name = deployment.run.function_name(architecture, function)
        streams = {stream for stream, text in lines if name in text}
        return name, given, [text for stream, text in lines if stream in streams]

    _, found, _ = answer(MEASURE)
    for runtime, function in WRAPPED.items():
        name, asked, messages = answer(function)
        found[f"exec wrapper {runtime}"] = questions.wrapper(name, asked, messages)
        if runtime.startswith("nodejs"):
            found["NODE_OPTIONS preload"] = questions.preload(asked)
        if runtime.startswith("java"):
            found["HotSpot counters"] = questions.hotspot(name, asked, messages)
    return {**found, "log filter": questions.log_filter(*answer(FILTER))}


def _lines(deployment: Deployment, wanted: Sequence[Key]) -> Lines:
    """Read the log, some seconds after each of the wanted functions has a line of its own in it."""
    names = [f"{deployment.run.function_name(*key)} function error" for key in wanted]
    end = time.monotonic() + LOG_S
    lines = _read(deployment)
    while not all(any(name in text for _, text in lines) for name in names):
        if time.monotonic() > end:
            return lines
        time.sleep(PAUSE_S)
        lines = _read(deployment) or lines
    time.sleep(SETTLE_S)
    return _read(deployment) or lines


def _read(deployment: Deployment) -> Lines:
    """The log so far, or nothing if AWS refuses it."""
    read = outcome(deployment.lines)
    found: Lines = read["value"] if read["ok"] else []
    return found
