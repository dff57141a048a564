"""Watermarks that are lost, and processes that hide: what an adversary has found, one by one. Real processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from truemem.measure.window import NEVER_NS, SAMPLED, VMHWM, VMHWM_THREADS, Peak, Window

from tests.truth.function import Function
from tests.truth.test_bounds import check

MIB = 1024
"""KiB."""


@pytest.fixture
def function(tmp_path: Path) -> Iterator[Function]:
    made = Function(tmp_path)
    yield made
    made.stop()


def plays(function: Function, script: str) -> None:
    """`0 alloc 60`: process 0, the runtime, allocates 60 MiB; `1 waited`: its parent waits for process 1, which has
    ended; `find`: the sidecar looks for processes; `tick` and `watch`: it samples all of them, or the children;
    `close`: the invocation ends, and the next one begins."""
    for step in script.split(", "):
        if step == "find":
            function.table.scan()
        elif step == "tick":
            function.recorder.levels.sample(late=True)
        elif step == "watch":
            while function.recorder.levels.watch() == 0:  # a busy machine cut it short
                pass
        elif step == "close":
            function.close()
        else:
            number, *words = step.split()
            member = function.members[int(number)]
            if words == ["release"]:
                function.release(member)
            elif words == ["waited"]:
                function.wait_for(member)
            else:
                function.step(member, words[0], " ".join(words[1:]))


def closed(function: Function) -> tuple[Window, Peak, int]:
    """The end of the invocation: its window, its peak, and the truth (KiB)."""
    window, found, truth, _ = function.close()
    assert found is not None
    return window, found, truth


@pytest.mark.parametrize(
    "script",
    [
        "0 alloc 60, 0 free",
        "0 alloc 50, 0 leave_main, 0 free",
        "0 alloc 50, 0 leave_main, 0 free, close, 0 alloc 20",
        "0 exec, close, 0 alloc 30",
    ],
    ids=["one process", "its main thread has ended", "and in the invocation after", "after a lost watermark"],
)
def test_an_invocation_of_one_process_is_exact(function: Function, script: str) -> None:
    plays(function, script)
    _, found, truth = closed(function)
    # where the main thread has ended, the other one may run while it is read
    assert found.method in ({VMHWM, VMHWM_THREADS} if "leave_main" in script else {VMHWM})
    assert not found.raced
    assert abs(found.estimate - truth) < MIB


@pytest.mark.parametrize("loses", ["exec", "reset"])
@pytest.mark.parametrize("late", [False, True])
def test_a_sample_above_the_final_watermark_shows_the_loss(function: Function, loses: str, late: bool) -> None:
    plays(function, "0 alloc 100")
    function.recorder.levels.sample(late, reset=False)
    plays(function, f"0 free, 0 {loses}")
    window, found, truth = closed(function)
    assert window.lost
    assert (found.method, found.upper) == (SAMPLED, 0)
    assert truth - MIB < found.lower <= truth + MIB


@pytest.mark.parametrize(
    "script",
    ["0 alloc 100, 0 exec", "0 alloc 100, 0 exec, 0 leave_main", "0 sigchld ignored, close, 0 quick 40"],
    ids=["an exec that was not seen", "and the main thread has ended", "a child that is not waited for"],
)
def test_where_a_watermark_was_lost_there_is_no_upper_bound(function: Function, script: str) -> None:
    plays(function, script)
    _, found, _ = closed(function)
    assert (found.method, found.upper) == (SAMPLED, 0)


def test_a_child_without_its_main_thread_is_read(function: Function) -> None:
    plays(function, "0 fork, 1 leave_main, find, 1 alloc 100")
    _, found, truth = closed(function)
    assert min(truth, found.lower) > 100 * MIB
    assert found.upper > truth - MIB


def test_processes_that_no_look_had_time_for_leave_no_bound(function: Function) -> None:
    plays(function, "0 fork, 0 fork, 0 fork, find, close, 3 alloc 30")
    cut = function.recorder.read_and_reset(most=1)
    assert len(cut.readings) == 1
    assert len(cut.left) == 3
    assert function.recorder.close(cut, NEVER_NS).lost
    cut = function.recorder.read_and_reset(most=1)
    function.recorder.read_rest(cut, NEVER_NS)
    assert cut.left == []
    window = function.recorder.close(cut, NEVER_NS)
    assert not window.end.exact
    assert len(window.closing) == 4


KNOWN_CHILD = "0 fork, 1 alloc 60, find, close"
"""A child that holds 60 MiB when the invocation begins."""


@pytest.mark.parametrize("ends", ["1 end, 1 waited", "1 end"])
def test_a_known_child_that_ends_unread_counts_what_it_held(function: Function, ends: str) -> None:
    plays(function, f"{KNOWN_CHILD}, 0 alloc 60, {ends}")
    _, found, truth = closed(function)
    assert truth > 120 * MIB
    assert found.estimate > truth - MIB
    assert not found.upper or found.upper > truth - MIB


def test_a_zombie_is_counted_once_however_often_it_is_seen(function: Function) -> None:
    plays(function, f"{KNOWN_CHILD}, 1 end, close")
    for _ in range(3):
        function.table.scan()
        function.table.scan()  # nothing is new: /proc is listed
        window, found, truth = closed(function)
        assert not window.process_exited
        assert (found.method, found.raced) == (VMHWM, False)
        assert abs(found.estimate - truth) < MIB


HELD = "0 alloc 60, close, 0 hold"
"""A child between vfork() and exec(): it has the memory of the runtime, and no other."""
FORKED = "0 alloc 60, 0 fork, find, 1 exec"
"""What fork() has handed on is gone."""
SEEN_EARLY = "0 fork, watch, 1 alloc 40, 1 end, 0 sigchld default"
SEEN_BETWEEN = "0 fork, 1 alloc 9, tick, 1 alloc 40, 1 end, 0 sigchld default"

FOUND = [
    *(HELD, f"{HELD}, find", f"{HELD}, tick", f"{HELD}, watch", f"{HELD}, close", f"{HELD}, close, 0 release"),
    *(f"{HELD}, close, 0 alloc 20, 0 free", f"{HELD}, tick, 0 release, close"),
    # a child that is found at the end alone; one that has ended after it was looked at
    "0 alloc 20, 0 fork, 1 alloc 60, 1 free",
    f"{KNOWN_CHILD}, tick, 0 alloc 60, 0 free, 1 end, 1 waited",
    *(FORKED, f"{FORKED}, tick", f"{FORKED}, close, 1 end", "0 fork, 1 alloc 80, 1 exec"),
    # children that nothing waits for
    *(f"0 sigchld ignored, {SEEN_EARLY}", f"0 sigchld ignored, {SEEN_BETWEEN}"),
    *(f"0 sigchld nocldwait, {SEEN_EARLY}", f"0 sigchld nocldwait, {SEEN_BETWEEN}"),
    *("0 huge 60, 0 free", "0 huge 60, tick, 0 free", "0 quick 60 huge", "0 fork, watch, 1 huge 60, 1 end"),
]


@pytest.mark.parametrize("script", FOUND)
def test_what_once_had_false_bounds_is_within_them(function: Function, script: str) -> None:
    plays(function, script)
    check(function, at_rest=script.startswith(HELD))
