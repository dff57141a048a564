"""Some of the deaths of faults/deaths.py, at one size: is it memory's doing, and who is blamed?"""

from __future__ import annotations

import pytest
from truemem_workbench.testing.environment import FUNCTIONS, SIDECAR, Environment

from faults.deaths import DEATHS, die, judge
from faults.subject import Subject
from tests.local.conftest import needs_cgroups

pytestmark = needs_cgroups

TRIED = (
    "page cache, then timeout",
    "page cache, then exit with 1",
    "MemoryError, caught",
    "in a child",
    "anonymous memory in the runtime",
    "an extension takes all memory",
)


@pytest.mark.parametrize("title", TRIED)
def test_the_record_of_a_death_says_what_is_so(title: str) -> None:
    (death,) = (death for death in DEATHS if death.title == title)
    assert judge(death, die(Subject(SIDECAR), death, 128)) == []


def test_a_daemon_that_the_kernel_kills_is_not_told_later_on_an_innocent() -> None:
    """The sidecar may not know it: it has no variables, and its parent has ended. The last one ends a process."""
    with Environment(FUNCTIONS / "daemon.py", memory_mib=128) as environment:
        for do in ("start", "idle", "grow", "idle", "run"):
            environment.invoke(do)
        assert environment.local.environment.memory.kills() == 1
        records = environment.records()
    told = [(record.OutOfMemory or 0) + (record.environmentKills or 0) for record in records]
    assert told == [0, 0, 1, 0, 0]
