"""Watermarks that are lost, and processes that hide: what an adversary has found, one by one. Real processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from truemem.measure.window import SAMPLED, VMHWM

from tests.truth.function import Function, Member

MIB = 1024
"""KiB."""


@pytest.fixture
def function(tmp_path: Path) -> Iterator[Function]:
    made = Function(tmp_path)
    yield made
    made.stop()


def test_an_invocation_of_one_process_is_exact(function: Function) -> None:
    (runtime,) = function.members
    function.step(runtime, "alloc", "60")
    function.step(runtime, "free")
    _, found, truth = function.close()
    assert found is not None
    assert (found.method, found.raced) == (VMHWM, False)
    assert abs(found.estimate - truth) < MIB


@pytest.mark.parametrize("loses", ["exec", "reset"])
@pytest.mark.parametrize("late", [False, True])
def test_a_sample_above_the_final_watermark_shows_that_it_was_lost(function: Function, loses: str, late: bool) -> None:
    (runtime,) = function.members
    function.step(runtime, "alloc", "100")
    function.recorder.levels.sample(late, reset=False)
    function.step(runtime, "free")
    function.step(runtime, loses)
    window, found, truth = function.close()
    assert window.lost
    assert found is not None
    assert (found.method, found.upper) == (SAMPLED, 0)
    assert truth - MIB < found.lower <= truth + MIB


def test_after_an_exec_that_nothing_has_seen_there_is_no_upper_bound(function: Function) -> None:
    (runtime,) = function.members
    function.step(runtime, "alloc", "100")
    function.step(runtime, "exec")
    _, found, _ = function.close()
    assert found is not None
    assert (found.method, found.upper) == (SAMPLED, 0)


def test_an_exec_shows_although_the_main_thread_has_ended_since(function: Function) -> None:
    (runtime,) = function.members
    function.step(runtime, "alloc", "100")
    function.step(runtime, "exec")
    function.step(runtime, "leave_main")
    _, found, _ = function.close()
    assert found is not None
    assert (found.method, found.upper) == (SAMPLED, 0)


def test_the_invocation_after_a_lost_watermark_is_exact_again(function: Function) -> None:
    (runtime,) = function.members
    function.step(runtime, "exec")
    function.close()
    function.step(runtime, "alloc", "30")
    _, found, truth = function.close()
    assert found is not None
    assert found.method == VMHWM
    assert abs(found.estimate - truth) < MIB


def test_a_child_whose_main_thread_has_ended_is_read_through_another(function: Function) -> None:
    (runtime,) = function.members
    function.step(runtime, "fork")
    child = function.members[1]
    function.step(child, "leave_main")
    function.table.scan()
    function.step(child, "alloc", "100")
    _, found, truth = function.close()
    assert found is not None
    assert truth > 100 * MIB
    assert found.lower > 100 * MIB
    assert found.upper > truth - MIB


def test_the_main_thread_of_the_runtime_ends_in_the_invocation(function: Function) -> None:
    (runtime,) = function.members
    function.step(runtime, "alloc", "50")
    function.step(runtime, "leave_main")
    function.step(runtime, "free")
    _, found, truth = function.close()
    assert found is not None
    assert abs(found.estimate - truth) < MIB
    function.step(runtime, "alloc", "20")
    _, found, truth = function.close()
    assert found is not None
    assert found.method == VMHWM
    assert abs(found.estimate - truth) < MIB


def test_what_a_child_held_between_fork_and_exec_lies_within_the_bounds(function: Function) -> None:
    (runtime,) = function.members
    function.step(runtime, "fork")
    child = function.members[1]
    function.step(child, "alloc", "80")
    function.step(child, "exec")
    _, found, truth = function.close()
    assert found is not None
    assert truth > 80 * MIB
    assert not found.upper or found.upper > truth - MIB


def test_a_child_for_which_the_function_does_not_wait_leaves_no_upper_bound(function: Function) -> None:
    (runtime,) = function.members
    function.step(runtime, "ignore")
    function.close()
    function.step(runtime, "quick", "40")
    _, found, _ = function.close()
    assert found is not None
    assert found.upper == 0


def test_processes_that_no_look_had_time_for_leave_no_upper_bound(function: Function) -> None:
    (runtime,) = function.members
    for _ in range(3):
        function.step(runtime, "fork")
    function.table.scan()
    function.close()
    function.step(function.members[3], "alloc", "30")
    cut = function.recorder.read_and_reset(most=1)
    assert len(cut.readings) == 1
    assert len(cut.left) == 3
    window = function.recorder.close(cut, 1 << 62)
    function.recorder.adopt_new_processes(window)
    assert window.lost
    cut = function.recorder.read_and_reset(most=1)
    function.recorder.read_rest(cut, 1 << 62)
    assert cut.left == []
    window = function.recorder.close(cut, 1 << 62)
    assert not window.end.exact
    assert len(window.closing) == 4


def known_child(function: Function) -> tuple[Member, Member]:
    """The runtime, and a child that holds 60 MiB when the invocation begins."""
    (runtime,) = function.members
    function.step(runtime, "fork")
    child = function.members[1]
    function.step(child, "alloc", "60")
    function.table.scan()
    function.close()
    return runtime, child


@pytest.mark.parametrize("waits", [True, False])
def test_a_known_child_that_ends_before_it_is_read_counts_with_what_it_held(function: Function, waits: bool) -> None:
    runtime, child = known_child(function)
    function.step(runtime, "alloc", "60")
    function.step(child, "end")
    if waits:
        function.wait_for(child)
    _, found, truth = function.close()
    assert found is not None
    assert truth > 120 * MIB
    assert found.estimate > truth - MIB
    assert not found.upper or found.upper > truth - MIB


def test_a_zombie_is_counted_once_however_often_all_processes_are_looked_for(function: Function) -> None:
    _, child = known_child(function)
    function.step(child, "end")
    function.close()
    for _ in range(3):
        function.table.scan()
        function.table.scan()  # nothing is new: /proc is listed
        window, found, truth = function.close()
        assert not window.process_exited
        assert found is not None
        assert (found.method, found.raced) == (VMHWM, False)
        assert abs(found.estimate - truth) < MIB
