"""How long it warms up, and when it gives up."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from truemem_workbench.check.drive import HOPELESS, drive


@dataclass
class Pretended:
    """Settles after so many invocations; fails from the first, or never."""

    settles_after: int
    fails: bool = False
    events: list[object] = field(default_factory=list)

    def invoke(self, event: object) -> None:
        self.events.append(event)

    def settled(self) -> bool:
        return len(self.events) >= self.settles_after

    @property
    def failing(self) -> int:
        return len(self.events) if self.fails else 0


def drive_it(run: Pretended, *, warm_up: int = 100) -> int:
    return drive(run, ["a", "b", "c"], invocations=50, warm_up=warm_up, progress=lambda _, __, ___: None)


@pytest.mark.parametrize(
    ("settles_after", "warm_up", "taken"),
    [(0, 100, 10), (10, 100, 10), (11, 100, 20), (1000, 100, 100), (1000, 35, 35), (0, 0, 0), (0, 4, 4)],
)
def test_it_warms_up_in_tens_until_it_has_settled_within_a_bound(settles_after: int, warm_up: int, taken: int) -> None:
    run = Pretended(settles_after)
    assert drive_it(run, warm_up=warm_up) == taken
    assert len(run.events) == taken + 50


def test_events_go_on_in_turn_after_the_warm_up() -> None:
    run = Pretended(0)
    drive_it(run)
    assert run.events == (["a", "b", "c"] * 20)[:60]


@pytest.mark.parametrize("warm_up", [0, 3, 100])
def test_where_everything_fails_it_gives_up(warm_up: int) -> None:
    run = Pretended(1000, fails=True)
    drive_it(run, warm_up=warm_up)
    assert len(run.events) == HOPELESS
