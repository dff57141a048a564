"""When malloc is read from outside, and when nothing is said."""

import errno
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from truemem import arenas
from truemem.config import Config
from truemem.linux.process_table import FUNCTION, Process
from truemem.malloc import MallocReadings, door
from truemem.measure.sampling import CpuBudget
from truemem.support.clock import Clock
from truemem.wings import HEAP_NOTE, IN_USE_NOTE, Site

from tests.records import record
from tests.unit.stand_ins import PROC
from tests.unit.test_arenas import says

SLEEPS = "pass"
RUNS = "import threading; threading.Thread(target=lambda: [None for _ in iter(int, 1)], daemon=True).start()"


class Driven:
    """The wing of an environment with these processes, and the invocations that it is told of."""

    def __init__(self, *pids: int, budget: CpuBudget | None = None, managed: bool = False, **settings: str) -> None:
        self.pids = pids
        environ = {name.encode(): value.encode() for name, value in settings.items()}
        table: Any = SimpleNamespace(function=lambda: [self._process(pid) for pid in self.pids])
        self.wing = door(Site(Config(environ), environ, "truemem", managed, table, PROC, Clock()))
        self._budget = budget
        self.number = 0

    def _process(self, pid: int) -> Process:
        return Process(pid, 7, 1, FUNCTION, PROC.process(pid, keep=False))

    def invoke(self, count: int, note: str = "", dying: bool = False) -> dict[int, Any]:
        """Close the windows of so many invocations: what malloc has on the line of each that has it."""
        found = {}
        assert isinstance(self.wing, MallocReadings)
        for _ in range(count):
            self.number += 1
            made = record(self.number, 50)
            if note:
                made.note(note, object())
            assert made.window is not None
            budget = self._budget or CpuBudget(1.0, 1.0, Clock().monotonic_ns())
            self.wing.window_closed((made,), made.window, budget, dying)
            if members := self.wing.members(made):
                assert members.keys() == {HEAP_NOTE}
                found[self.number] = members[HEAP_NOTE]
        return found


def test_a_sleeping_process_is_read_ever_more_seldom() -> None:
    with says(objects=300) as (pid, said):
        found = Driven(pid).invoke(600)
    assert [*found] == [64, 128, 256, 512]
    for heap in found.values():
        assert heap.pop("source") == "outside"
        assert heap == pytest.approx(
            dict(zip(("inUse", "held", "mapped"), (each / 2**20 for each in said), strict=True)), abs=0.1
        )


def test_a_process_that_runs_is_read_when_it_sleeps() -> None:
    with says(RUNS, 300) as (runs, _), says(objects=300) as (sleeps, _):
        driven = Driven(runs)
        assert driven.invoke(200) == {}
        driven.pids = (sleeps,)
        driven.wing._process = None  # type: ignore[union-attr]
        assert [*driven.invoke(1)] == [201]


def test_a_reading_in_which_it_has_run_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """It sleeps before and after."""
    with says(objects=300) as (pid, _):
        known = iter(range(10**6))
        monkeypatch.setattr("truemem.linux.procfs.ProcessFiles.asleep_ns", lambda _: next(known))
        assert Driven(pid).invoke(100) == {}


@pytest.mark.parametrize("note", [HEAP_NOTE, IN_USE_NOTE])
def test_where_a_probe_has_spoken_it_is_silent(note: str) -> None:
    with says(objects=300) as (pid, _):
        driven = Driven(pid)
        driven.invoke(1, note)
        assert driven.invoke(200) == {}


def test_a_second_process_ends_it() -> None:
    """Its figures would be taken for the first one's."""
    with says(objects=300) as (pid, _), says(objects=300) as (other, _):
        driven = Driven(pid)
        assert [*driven.invoke(64)] == [64]
        driven.pids = (other, pid)
        assert driven.invoke(400) == {}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[[Exception], list[int]]:
    """Readings end with this error: the pids that were asked for."""

    def make(error: Exception) -> list[int]:
        pids: list[int] = []

        def read(pid: int, *_: object) -> arenas.Malloc:
            pids.append(pid)
            raise error

        monkeypatch.setattr(arenas, "read", read)
        return pids

    return make


@pytest.mark.parametrize(
    ("error", "times", "said"),
    [
        (PermissionError(errno.EACCES, "no"), 1, "malloc of the function cannot be read: [Errno 13] Permission denied"),
        (PermissionError(errno.EPERM, "no"), 1, "malloc of the function cannot be read: [Errno 1] "),
        (arenas.NoGlibc(), 1, ""),
        (ValueError("too many chunks are free"), 4, ""),
        (OSError(errno.EIO, "no"), 4, ""),
    ],
)
def test_what_is_refused_is_asked_for_once_and_said_once(
    asked: Callable[[Exception], list[int]], capfd: pytest.CaptureFixture[str], error: Exception, times: int, said: str
) -> None:
    pids = asked(error)
    with says(objects=300) as (pid, _):
        assert Driven(pid).invoke(600) == {}
    assert len(pids) == times
    assert capfd.readouterr().err.count("malloc") == bool(said)


def test_it_is_off_where_it_is_not_wanted_or_cannot_be() -> None:
    assert Driven(TRUEMEM_SETTLE="off").wing is None
    assert Driven(managed=True).wing is None
    driven = Driven()
    assert driven.invoke(100) == {}
    with says(objects=300) as (pid, _):
        driven.pids = (pid,)
        assert driven.invoke(1, dying=True) == {}
        driven.pids = (4_000_100,)
        assert driven.invoke(20) == {}


def test_it_pays_out_of_the_budget_and_waits_for_it() -> None:
    """One that is used up allows none until it is earned."""
    spent = CpuBudget(1e-6, 1.0, Clock().monotonic_ns())
    spent.spend_beside(10**6, Clock().monotonic_ns())
    with says(objects=300) as (pid, _):
        assert Driven(pid, budget=spent).invoke(300) == {}
