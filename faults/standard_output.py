"""Faults of standard output: it takes nothing, or nothing reads it."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from faults.environment import FaultEnvironment, tally
from faults.result import Row, counted
from faults.subject import Subject

CLOSE = ("/bin/sh", "-c", 'exec "$0" >&-')


@contextmanager
def hung_up() -> Iterator[int]:
    """A pipe without a reader: EPIPE."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


@contextmanager
def always_full() -> Iterator[int]:
    """A device without space: ENOSPC."""
    writing = os.open("/dev/full", os.O_WRONLY)
    yield writing
    os.close(writing)


@contextmanager
def nowhere() -> Iterator[int]:
    """A descriptor for a sidecar that is started without standard output."""
    writing = os.open(os.devnull, os.O_WRONLY)
    yield writing
    os.close(writing)


GONE = {
    "standard output is hung up": (hung_up, ()),
    "standard output takes nothing": (always_full, ()),
    "standard output is closed": (nowhere, CLOSE),
}


def gone(subject: Subject, title: str, count: int, advance: Callable[[], None]) -> Row:
    """Run one environment whose lines cannot be printed. Nothing else may happen."""
    stream, launcher = GONE[title]
    with (
        stream() as descriptor,
        FaultEnvironment(replace(subject, launcher=launcher), stdout=descriptor) as environment,
    ):
        environment.begin()
        for _ in range(count):
            environment.invoke()
            advance()
        code = environment.shut_down()
        broken = [f"{title}: exit code {code}"] if code != 0 else []
        broken += [f"{title}: wrong answers"] if environment.wrong else []
    return Row(title, counted(count, "invocation"), "nothing", "every line: there is nowhere to print it", broken)


def blocked(subject: Subject, count: int, advance: Callable[[], None]) -> Row:
    """Run `count` invocations without a reader of standard output, then read it."""
    title = f"standard output is not read for {count:,} invocations"
    reading, writing = os.pipe()
    taken: list[bytes] = []
    with FaultEnvironment(subject, stdout=writing) as environment, os.fdopen(reading, "rb") as pipe:
        environment.begin()
        os.close(writing)
        for _ in range(count):
            environment.invoke()
            advance()
        reader = threading.Thread(target=lambda: taken.extend(pipe))
        reader.start()
        for _ in range(20):
            environment.invoke("hold 64 5")
        code = environment.shut_down()
        reader.join()
        served = environment.served
    records: list[dict[str, Any]] = [json.loads(line) for line in taken]
    printed = tally(served, records)
    missing = sum(not number for number in printed.values())
    dropped = sum(record.get("dropped", 0) for record in records)
    broken = [f"{title}: exit code {code}"] if code != 0 else []
    if missing > dropped:
        broken.append(f"{title}: {missing - dropped} lines lost in silence")
    return Row(
        title,
        counted(len(served), "invocation"),
        "nothing",
        f"{counted(missing, 'line')}, `dropped` says {dropped:,}" if missing else "nothing",
        broken,
    )
