"""The truth lies between the bounds of every record: whatever processes do, and wherever the looks fall.

Real processes fork, allocate, exec, lose their main thread, become daemons, end. They make one step at a time, so that
what they held is known for certain; the sidecar's looks come between the steps, or do not.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from truemem.linux.procfs import watermark_slack_kib
from truemem.measure.window import VMHWM

from tests.truth.function import Function, Member

MOST = 6
"""Processes at once."""
SIZES = st.sampled_from([1, 5, 20, 60])
"""MiB."""


def check(function: Function, at_rest: bool = False, waits: bool = False) -> None:
    """The promise, at the end of an invocation."""
    sampled, function.sampled = function.sampled, False
    perhaps = function.perhaps
    window, found, truth = function.close(at_rest, waits)
    assert found is not None
    slack = watermark_slack_kib() * max(1, len(window.closing))
    assert sampled or found.lower <= truth + perhaps + slack, (found, truth, "; ".join(function.script))
    assert not found.upper or truth <= found.upper + slack, (found, truth, "; ".join(function.script))
    if found.method == VMHWM and not found.raced:
        assert truth - found.estimate <= slack, (found, truth, "; ".join(function.script))
        assert sampled or found.estimate - truth <= perhaps + slack, (found, truth, "; ".join(function.script))


class Life(RuleBasedStateMachine):
    """One environment."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.function = Function(Path(self.folder.name))

    def teardown(self) -> None:
        try:
            check(self.function)
        finally:
            self.function.stop()
            self.folder.cleanup()

    @rule(which=st.integers(0, MOST), mib=SIZES)
    def alloc(self, which: int, mib: int) -> None:
        self.step(which, "alloc", str(mib))

    @rule(which=st.integers(0, MOST), word=st.sampled_from(["free", "exec", "leave_main"]))
    def alone(self, which: int, word: str) -> None:
        self.step(which, word)

    @precondition(lambda self: len(self.function.members) < MOST)
    @rule(which=st.integers(0, MOST), word=st.sampled_from(["fork", "spawn", "daemon"]))
    def grow(self, which: int, word: str) -> None:
        self.step(which, word)

    @rule(which=st.integers(0, MOST), mib=SIZES, how=st.sampled_from(["waited", "left", "daemon"]))
    def quick(self, which: int, mib: int, how: str) -> None:
        self.step(which, "quick", f"{mib} {how}")

    @rule(which=st.integers(0, MOST), mib=st.sampled_from([1, 5, 20]))
    def churn(self, which: int, mib: int) -> None:
        self.step(which, "churn", str(mib))

    @precondition(lambda self: len(self.function.living()) > 1)
    @rule(which=st.integers(0, MOST))
    def end(self, which: int) -> None:
        children = [member for member in self.function.living() if member.name != "p0"]
        self.function.step(children[which % len(children)], "end")

    @precondition(lambda self: self.waited_for())
    @rule()
    def wait(self) -> None:
        self.function.wait_for(self.waited_for()[0])

    def waited_for(self) -> list[Member]:
        """Those that have ended, and whose parent lives."""
        return [
            member for member in self.function.members if member.ended and member.parent and not member.parent.ended
        ]

    @rule(late=st.booleans(), exact=st.booleans())
    def tick(self, late: bool, exact: bool) -> None:
        self.function.recorder.levels.sample(late, reset=not exact)

    @rule()
    def watch(self) -> None:
        self.function.recorder.levels.watch()

    @rule(at_rest=st.booleans(), waits=st.booleans())
    def invocation(self, at_rest: bool, waits: bool) -> None:
        check(self.function, at_rest, waits)

    def step(self, which: int, word: str, argument: str = "") -> None:
        living = self.function.living()
        self.function.step(living[which % len(living)], word, argument)


LONG = settings().max_examples > 100
"""`make fuzz`: at random, for long. Else always the same sequences."""


@pytest.mark.timeout(0 if LONG else 600)
def test_whatever_processes_do_the_truth_lies_between_the_bounds() -> None:
    run_state_machine_as_test(
        Life, settings=settings(max_examples=1000 if LONG else 40, stateful_step_count=30, derandomize=not LONG)
    )
