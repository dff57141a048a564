"""What was recorded of real deaths: which of them the verdict takes for memory's doing, and what it takes to say so."""

from __future__ import annotations

import pytest
from truemem.records.out_of_memory import PLATFORM

from faults.deaths import DEATHS, EXTENSION_DIED
from tests.unit.deaths import LIMIT, Seen, seen

RIGHT = {death.title: death for death in DEATHS}
SEEN = seen()


def test_each_death_was_recorded_in_both_modes() -> None:
    assert {(death.title, death.exact) for death in SEEN} == {
        (title, exact) for title in RIGHT for exact in (False, True)
    }


@pytest.mark.parametrize("mark_before", [60, LIMIT], ids=["the mark was low", "the mark was at the size"])
@pytest.mark.parametrize("death", SEEN, ids=lambda death: f"{death.title}{', exact mode' if death.exact else ''}")
def test_the_verdict_is_right_of_each(death: Seen, mark_before: float) -> None:
    fired = death.record().signals(LIMIT, mark_before)
    right = RIGHT[death.title]
    assert bool(fired) is right.out_of_memory, fired
    assert ("kernel" in fired) is (death.kernel_kills > 0 and right.killed != EXTENSION_DIED)


@pytest.mark.parametrize("told_by_shutdown", [False, True], ids=["with telemetry", "without"])
@pytest.mark.parametrize(
    "death", [death for death in SEEN if RIGHT[death.title].killed != EXTENSION_DIED], ids=lambda death: death.title
)
def test_where_nothing_counts_kills_no_other_death_is_taken_for_one(death: Seen, told_by_shutdown: bool) -> None:
    """Nor does the platform name it: some are not told then, and none that is not so is."""
    record = death.record()
    record.kernel_kills = None
    if record.error_type == PLATFORM:
        record.error_type = "Runtime.ExitError"
    if told_by_shutdown:
        record.status = record.error_type = record.max_memory_used_mib = record.done_ns = None
    fired = record.signals(LIMIT, 60)
    assert RIGHT[death.title].out_of_memory or not fired
    assert fired or (death.level_mib or 0) < 0.97 * LIMIT
