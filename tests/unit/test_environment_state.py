"""Whose history it is: an environment's own, also where it was restored from a snapshot that others share."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.lifecycle.publisher import Publisher
from truemem.platform.telemetry import INIT_START, RESTORE_START, PlatformEvent
from truemem.records.pending_record import SNAP_START, EnvironmentState, PendingRecord

from tests.records import publisher_of

SNAPSHOT, RESTORED = "2026/11/22/[1]snapshot", "2026/11/22/[1]restored"


def told(kind: str, **record: str) -> PlatformEvent:
    return PlatformEvent(kind, dict(record))


INIT = told(INIT_START, initializationType=SNAP_START, phase=SNAP_START, instanceId=SNAPSHOT)
RESTORE = told(RESTORE_START, instanceId=RESTORED)


def hear(history: EnvironmentState, *events: PlatformEvent) -> Publisher:
    publisher = publisher_of({}, history)
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
def test_a_restored_environment_has_its_restores_name(
    before: tuple[PlatformEvent, ...], after: tuple[PlatformEvent, ...]
) -> None:
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
def test_a_suppressed_init_belongs_to_the_next_first_invocation(heard_with: int) -> None:
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


def test_a_suppressed_init_is_not_a_later_invocations() -> None:
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


def test_it_goes_on_after_a_reset_but_not_after_another_boot() -> None:
    history = EnvironmentState("boot-1")
    history.identify("2026/11/21/[$LATEST]abc")
    history.invocations, history.high_water_mark, history.mark_mib, history.kills = 7, 1024, 94, None
    after = EnvironmentState("boot-1")
    assert after.resume_from(history.text().encode())
    assert (after.environment_id, after.invocations, after.high_water_mark) == ("2026/11/21/[$LATEST]abc", 7, 1024)
    assert after.resumed
    assert not EnvironmentState("boot-2").resume_from(history.text().encode())


@given(st.recursive(st.none() | st.floats() | st.text(max_size=20), st.lists, max_leaves=20))
def test_a_state_that_is_not_one_is_not_taken_over(text: Any) -> None:
    history = EnvironmentState("boot")
    before = history.text()
    assert not history.resume_from(json.dumps(text).encode())
    assert history.text() == before
