"""Whose history it is: an environment's own, also where it was restored from a snapshot that others share."""

from __future__ import annotations

import pytest
from truemem.config import Config
from truemem.platform.telemetry_events import INIT_START, RESTORE_START, Event
from truemem.records.environment_state import SNAP_START, EnvironmentState
from truemem.records.journal import Journal
from truemem.records.pending_record import PendingRecord
from truemem.records.publisher import Publisher

SNAPSHOT, RESTORED = "2026/11/22/[1]snapshot", "2026/11/22/[1]restored"


def told(kind: str, **record: str) -> Event:
    return Event(kind, dict(record))


INIT = told(INIT_START, initializationType=SNAP_START, phase=SNAP_START, instanceId=SNAPSHOT)
RESTORE = told(RESTORE_START, instanceId=RESTORED)


def hear(history: EnvironmentState, *events: Event) -> Publisher:
    publisher = Publisher(Config({}), True, history, Journal(""), lambda: 0)
    for event in events:
        publisher.join(event)
    return publisher


def test_copies_of_a_snapshot_without_a_name_name_themselves() -> None:
    """Without telemetry."""
    shared = "of the snapshot"
    made = []
    for _ in range(2):
        history = EnvironmentState()
        history.environment_id = shared
        history.begin(SNAP_START)
        made.append(history.environment_id)
        assert history.restored
    assert len({*made, shared}) == 3


@pytest.mark.parametrize(
    ("before", "after"),
    [((INIT, INIT, RESTORE), ()), ((INIT, RESTORE), ()), ((INIT,), (INIT, RESTORE))],
    ids=["told again", "told once", "told after its first event"],
)
def test_a_restored_environment_has_its_restores_name(before: tuple[Event, ...], after: tuple[Event, ...]) -> None:
    history = EnvironmentState()
    publisher = hear(history, *before)
    history.begin(SNAP_START)
    assert history.environment_id != SNAPSHOT
    for event in after:
        publisher.join(event)
    assert (history.environment_id, history.restored) == (RESTORED, True)


def test_after_a_reset_a_restored_environment_goes_on() -> None:
    before = EnvironmentState("boot")
    hear(before, INIT, RESTORE)
    before.begin(SNAP_START)
    before.invocations, before.high_water_mark = 3, 4096

    after = EnvironmentState("boot")
    assert after.resume_from(before.text().encode())
    publisher = hear(after)
    publisher.open(PendingRecord("r-4", 4, 0))
    publisher.join(told(INIT_START, initializationType=SNAP_START, phase="invoke", instanceId=RESTORED))
    after.begin(SNAP_START)
    assert (after.environment_id, after.invocations, after.high_water_mark) == (RESTORED, 3, 4096)
    assert not after.restored  # its processes are new: their init is this environment's own


AGAIN = told(INIT_START, initializationType="on-demand", phase="invoke")


@pytest.mark.parametrize("heard_with", [0, 1, 2, 3])
def test_an_init_that_was_done_again_is_that_of_the_first_invocation_after_it(heard_with: int) -> None:
    """However late its telemetry comes, and however early. Without a journal nothing else says so."""
    history = EnvironmentState()
    publisher = hear(history)
    records = [PendingRecord(f"r-{number}", number, 0) for number in (1, 2, 3)]
    records[0].cold_start = True
    for record in records[:heard_with]:
        publisher.open(record)
    publisher.join(AGAIN)
    assert [record.suppressed_init for record in records] == [heard_with > 0, False, False]
    assert history.resumed or heard_with


def test_an_init_that_was_done_again_is_none_of_those_that_follow() -> None:
    """Its own invocation is printed, or has its mark from the journal."""
    publisher = hear(EnvironmentState())
    record = PendingRecord("r-4", 4, 0)
    publisher.open(record)
    publisher.join(AGAIN)
    assert not record.suppressed_init


@pytest.mark.parametrize("initialization_type", ["", "on-demand", "provisioned-concurrency"])
def test_elsewhere_an_environment_is_what_it_was_from_its_init(initialization_type: str) -> None:
    history = EnvironmentState()
    before = history.environment_id
    history.begin(initialization_type)
    assert (history.environment_id, history.restored) == (before, False)
