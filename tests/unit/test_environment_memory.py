"""The level of several processes that share pages, near the limit: it is the environment's own."""

from types import SimpleNamespace
from typing import Any

import pytest
from truemem.linux.cgroup import MemorySource, MemoryUsage
from truemem.linux.procfs import Gone, Procfs, Status
from truemem.measure.environment_memory import EnvironmentMemory

LIMIT_KIB = 512 * 1024


@pytest.mark.parametrize("is_reaped", [False, True])
def test_an_extension_that_has_ended_keeps_its_last_level(is_reaped: bool) -> None:
    """Also where windows close between its end and the environment's: its memory is gone, and it may still be there."""
    levels = [150 * 1024, 0, 0, 0]

    def rss() -> int:
        level = levels.pop(0)
        if is_reaped and not level:
            raise Gone("it was reaped")
        return level

    extension = SimpleNamespace(owner="extension:vendor", files=SimpleNamespace(rss=rss))
    table: Any = SimpleNamespace(others=lambda: [extension], forget=lambda process: None)
    memory = EnvironmentMemory(table, MemorySource(Procfs()))
    assert [memory.read().extensions for _ in range(3)] == [{"vendor": 150 * 1024}, {}, {}]
    memory.look()
    assert (memory.extensions, memory.ended) == ({"vendor": 150 * 1024}, {"vendor"})


def test_an_extension_that_was_reaped_counts_as_dying() -> None:
    """A window that closes late finds its kill counted, and no process of it."""
    levels = [150 * 1024]

    def rss() -> int:
        if not levels:
            raise Gone("it was reaped")
        return levels.pop()

    running = [SimpleNamespace(owner="extension:vendor", files=SimpleNamespace(rss=rss, is_dying=lambda: False))]
    table: Any = SimpleNamespace(others=lambda: list(running), forget=running.remove)
    memory = EnvironmentMemory(table, MemorySource(Procfs()))
    found = []
    for _ in range(3):
        memory.read()
        found.append(memory.dying_extensions())
    assert found == [0, 1, 1]


@pytest.mark.parametrize(("source", "used"), [("cgroup2", 300), ("cgroup1", 300), ("meminfo", 340)])
def test_the_level_of_several_processes_is_the_environments(source: str, used: int) -> None:
    """meminfo leaves out mapped files, which can be reclaimed: those of the largest process stand for all."""
    files = SimpleNamespace(status=lambda: Status(0, 0, 0, 40 * 1024, 0, 1))
    table: Any = SimpleNamespace(function=lambda: [SimpleNamespace(pid=pid, files=files) for pid in (8, 9)])
    levels = [MemoryUsage(source, 300 * 1024, None), None]
    level: Any = SimpleNamespace(source=source, read=lambda: levels.pop(0))
    memory = EnvironmentMemory(table, level)
    for expected in used * 1024, 0:
        assert memory.together_kib(9, counted_kib=LIMIT_KIB, limit_kib=LIMIT_KIB) == expected


@pytest.mark.parametrize(("share", "limit_kib"), [(0.9, LIMIT_KIB), (9, 0)])
def test_it_is_not_asked_far_from_the_limit_nor_without_one(share: float, limit_kib: int) -> None:
    table: Any = None
    memory = EnvironmentMemory(table, MemorySource(Procfs()))
    assert memory.together_kib(9, round(share * LIMIT_KIB), limit_kib) == 0
