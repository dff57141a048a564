"""One verdict from many signals: what is memory's doing, and what is not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.out_of_memory import Ending, ending_of, signals
from truemem.procfs import Status
from truemem.record import InvocationRecord, metrics, properties
from truemem.window import Window

LIMIT = 512


def ended(
    level_mib: float = 100, reason: str = "failure", kills: int = 0, mark: float | None = None, **said: Any
) -> InvocationRecord:
    """An invocation at the end of which everybody held `level_mib`, for which SHUTDOWN gave `reason` ("": none)."""
    record = InvocationRecord("r", 1, 0)
    record.ending = Ending(reason, round(level_mib * 1024), None, {}) if reason else None
    record.kernel_kills = kills
    record.max_memory_used_mib = mark
    record.status, record.error_type = said.get("status"), said.get("error_type")
    return record


KILLED: dict[str, Any] = {"status": "error", "error_type": "Runtime.ExitError"}
ALL = ["Runtime.OutOfMemory", "kernel", "exit-at-limit", "mark-at-limit"]
NAMED: dict[str, Any] = {"status": "error", "error_type": "Runtime.OutOfMemory"}


@pytest.mark.parametrize(
    ("record", "mark_before", "fired"),
    [
        (ended(**NAMED), 0, ["Runtime.OutOfMemory"]),
        (ended(**NAMED, kills=1, level_mib=509, mark=512), 94, ALL),
        (ended(**KILLED, level_mib=497), 0, ["exit-at-limit"]),
        (ended(**KILLED, level_mib=496), 0, []),
        (ended(**KILLED), 0, []),
        (ended(**KILLED, kills=1), 0, ["kernel"]),
        (ended(**KILLED, mark=512), 300, ["mark-at-limit"]),
        (ended(**KILLED, mark=512), 512, []),
        (ended(reason="timeout", status="timeout", level_mib=510), 0, ["timeout-at-limit"]),
        (ended(reason="timeout", status="timeout", level_mib=200), 0, []),
        (ended(reason="timeout", status="timeout", level_mib=200, mark=512), 200, ["mark-at-limit"]),
        (ended(reason="timeout", level_mib=510), 0, ["timeout-at-limit"]),
        (ended(reason="failure", level_mib=510), 0, ["exit-at-limit"]),
        (ended(reason="failure", level_mib=510, status="error", error_type="Function.ResponseSizeTooLarge"), 0, []),
        (ended(reason="", status="success", mark=512), 100, []),
        (ended(reason="", status="success", kills=1), 0, ["kernel"]),
        (ended(reason="", status="error", error_type="Runtime.ImportModuleError", mark=512), 100, []),
    ],
    ids=[
        *("the platform names it", "everything fires", "killed at the limit", "killed below it", "a plain crash"),
        *("the kernel counts a kill", "the mark rose to the size", "the mark was there before"),
        *("a timeout at the limit", "a timeout", "a timeout with the mark at the size"),
        *("a timeout, no telemetry", "killed, no telemetry", "an error of the response"),
        *("page cache fills the mark", "a child was killed", "an error that it lives on with"),
    ],
)  # fmt: skip
def test_the_verdict(record: InvocationRecord, mark_before: float, fired: list[str]) -> None:
    assert signals(record, LIMIT, mark_before) == fired


def test_without_a_known_size_only_the_platform_and_the_kernel_can_tell() -> None:
    assert signals(ended(**KILLED, level_mib=9000, kills=1), 0, 0) == ["kernel"]


@given(st.lists(st.sampled_from(["kernel", "exit-at-limit", "mark-at-limit"]), unique=True))
def test_however_many_signals_it_counts_once(fired: list[str]) -> None:
    record = ended(**KILLED)
    record.signals = fired
    assert metrics(record).get("OutOfMemory", 0) == (1 if fired else 0)
    assert ("outOfMemory" in properties(record, LIMIT, "1")) == bool(fired)


def test_the_ending_names_who_held_most() -> None:
    record, window = InvocationRecord("r", 1, 0), Window(0, 0, True)
    window.last = 400 * 1024
    ending = ending_of("failure", record, window, 20 * 1024, ("ffmpeg", 37, 300 * 1024))
    assert ending.document() == {"level": 420.0, "holder": {"process": "ffmpeg", "pid": 37, "rss": 300.0}}
    record.extensions = {"agent": 301 * 1024}
    window.closing = [Status(0, 500 * 1024, 0, 0, 0, 1)]  # it lived to be read
    ending = ending_of("timeout", record, window, 0, ("ffmpeg", 37, 300 * 1024))
    assert ending.document() == {"level": 500.0, "holder": {"extension": "agent", "rss": 301.0}}
