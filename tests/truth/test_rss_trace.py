"""The benchmarks' truth: what a tree of processes held, from the text of the kernel's trace."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.rss_trace import MIB, LostEvents, TreeTrace

ROOT, CHILD, OTHER = 10, 11, 99
EXEC = "sched_process_exec: filename=/usr/bin/python3 pid=10 old_pid=10"


def changed(space: int, mib: int, own: bool = True) -> str:
    return f"rss_stat: mm_id={space} curr={own:d} type=MM_ANONPAGES size={mib * MIB}B"


def started(pid: int, flags: int) -> str:
    return f"task_newtask: pid={pid} comm=a b clone_flags={flags:x} oom_score_adj=0"


@pytest.fixture
def trace(tmp_path: Path) -> Iterator[TreeTrace]:
    (tmp_path / "trace_pipe").touch()
    made = TreeTrace(tmp_path)
    yield made
    made.close()


def told(trace: TreeTrace, folder: Path, *events: tuple[int, str]) -> tuple[float, float]:
    """What was held at most after these events, each of a task."""
    lines = [f"  some name-{task} [001] d..1. 5.{at:06}: {event}" for at, (task, event) in enumerate(events)]
    (folder / "trace_pipe").write_text("\n".join([*lines, ""]))
    trace.read(ROOT)
    return trace.most(0, 6_000_000_000)


LIVES = (ROOT, EXEC), (ROOT, changed(1, 5))


def test_what_others_hold_is_not_counted(trace: TreeTrace, tmp_path: Path) -> None:
    assert told(trace, tmp_path, *LIVES, (OTHER, changed(2, 70))) == (5, 5)


def test_what_the_root_held_before_exec_is_not_counted(trace: TreeTrace, tmp_path: Path) -> None:
    assert told(trace, tmp_path, (ROOT, changed(3, 70)), *LIVES) == (5, 5)


def test_a_child_of_vfork_has_its_parents_memory(trace: TreeTrace, tmp_path: Path) -> None:
    child = (ROOT, started(CHILD, 0x4111)), (CHILD, changed(1, 6))
    assert told(trace, tmp_path, *LIVES, *child) == (6, 6)


def test_what_fork_hands_on_is_there_once(trace: TreeTrace, tmp_path: Path) -> None:
    child = (ROOT, changed(2, 5, own=False)), (ROOT, started(CHILD, 0x1200011)), (CHILD, changed(2, 8))
    assert told(trace, tmp_path, *LIVES, *child) == (13, 8)


def test_memory_of_a_child_that_has_ended_is_gone(trace: TreeTrace, tmp_path: Path) -> None:
    child = (ROOT, started(CHILD, 0x1200011)), (CHILD, changed(2, 8)), (CHILD, changed(2, 0, own=False))
    assert told(trace, tmp_path, *LIVES, *child) == (13, 13)
    trace.forget()
    assert trace.most(0, 6_000_000_000) == (5, 5)


def test_a_full_buffer_leaves_no_truth(trace: TreeTrace, tmp_path: Path) -> None:
    (tmp_path / "trace_pipe").write_text("CPU:1 [LOST 17 EVENTS]\n")
    with pytest.raises(LostEvents):
        trace.read(ROOT)
