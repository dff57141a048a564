"""A function in Java under the local Lambda, on real JVMs: what its line says of the heap in each kind of trouble."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.local import Function

from testing.environment import Environment, Record
from tests.heaps.jvms import VERSIONS, classes, java
from tests.scenarios.test_managed_instances import wait_for_lines

SOURCE = Path(__file__).parent / "java" / "Bootstrap.java"
HEAP_MIB = 64
MANAGED = ("-XX:+UseSerialGC", f"-Xmx{HEAP_MIB}m", "-Xshare:auto", "-XX:TieredStopAtLevel=1")
"""As AWS's own runtimes start it."""
MIB = 1 << 20
BLOCK = 1000 + 16
"""Of an array with its header."""


def blocks(mib: float) -> int:
    return int(mib * MIB / BLOCK)


class Java(Environment):
    """A function on one JVM, in exact mode: else the next invocation may have begun when the counters are read. As
    root, the processes stay root: HotSpot makes no file for a user without a name."""

    def __init__(self, version: str, *options: str, **settings: Any) -> None:
        folder = classes(SOURCE)
        command = (java(version), *MANAGED, *options, "-cp", str(folder), "Bootstrap")
        function = Function(command, folder, "Bootstrap", None, (folder,))
        super().__init__(function, user="current", **{"memory_mib": 512, "exact": True, **settings})

    def __enter__(self) -> Java:
        super().__enter__()
        return self

    def heaps(self) -> list[dict[str, Any]]:
        """Of each invocation so far. With the environment ends the last one's process: one more."""
        return [record.heap for record in self.finished()]

    def finished(self) -> list[Record]:
        self.invoke("nothing")
        return self.records()[:-1]


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    java(request.param)
    return str(request.param)


def known(heaps: list[dict[str, Any]], name: str) -> list[float]:
    return [heap[name] for heap in heaps if name in heap]


@pytest.mark.parametrize("exact", [True, False])
def test_a_leak_is_what_stays_live_after_each_major_collection(version: str, exact: bool) -> None:
    with Java(version, exact=exact) as running:
        for _ in range(20):
            running.invoke("leak", count=blocks(2.4))
        heaps = running.heaps()

    live = known(heaps, "live")
    assert live == sorted(live)
    assert 20 < live[-1] < 50  # of the last one that there was a need for
    assert {heap["limit"] for heap in heaps} == {HEAP_MIB}
    assert heaps[-1]["collections"] >= 1
    assert heaps[-1]["gcMs"] >= 1


@pytest.mark.parametrize(("do", "mib"), [("garbage", 40), ("buffer", 5)])
def test_live_stays_level_beside_garbage_and_direct_buffers(version: str, do: str, mib: float) -> None:
    with Java(version) as running:
        for _ in range(6):
            running.invoke(do, count=blocks(mib))
            running.invoke("collect")
        records = running.finished()[1::2]

    heaps = [record.heap for record in records]
    live = known(heaps, "live")
    assert len(live) == 6
    assert max(live) - min(live) < 1
    assert [heap["collections"] for heap in heaps] == [1, 2, 3, 4, 5, 6]
    if do == "buffer":
        assert records[-1].CurrentRSS - records[0].CurrentRSS > 20


def test_classes_that_are_never_unloaded_grow_metaspace(version: str) -> None:
    with Java(version) as running:
        for _ in range(6):
            running.invoke("classes", count=400)
            running.invoke("collect")
        heaps = running.heaps()[1::2]

    metaspace = known(heaps, "metaspace")
    steps = [after - before for before, after in itertools.pairwise(metaspace)]
    assert len(metaspace) == 6
    assert all(1 < step < 4 for step in steps), steps


@pytest.mark.parametrize("collector", ["G1GC", "ParallelGC"])
def test_other_collectors_tell_it_as_well(version: str, collector: str) -> None:
    with Java(version, "-XX:-UseSerialGC", f"-XX:+Use{collector}", f"-Xms{HEAP_MIB}m") as running:
        for _ in range(3):
            running.invoke("leak", count=blocks(5))
            running.invoke("collect")
        heaps = running.heaps()[1::2]

    steps = [after["live"] - before["live"] for before, after in itertools.pairwise(heaps)]
    assert steps == pytest.approx([5, 5], abs=1.5)


def test_a_jvm_that_keeps_no_counters_has_the_line_of_today(version: str) -> None:
    with Java(version, "-XX:-UsePerfData") as running:
        running.invoke("nothing")
        (record,) = running.finished()
    assert record.heap is None
    assert record.PeakRSS > 10


def test_a_heap_larger_than_the_function_is_told_once(version: str) -> None:
    with Java(version, "-Xmx1400m") as running:
        for _ in range(3):
            running.invoke("nothing")
        running.records()
        said = [line for line in running.log().splitlines() if "the heap may grow" in line]
    (line,) = said
    assert "to 1400 MiB" in line
    assert "Set -Xmx435m" in line


def test_managed_instances_have_it_too(version: str) -> None:
    """As of when the line is printed."""
    with Java(version, managed_instances=1, exact=False) as running:
        running.invoke("collect")
        wait_for_lines(running, 1)
        running.invoke("collect")
        wait_for_lines(running, 2)
        records = running.records()
    assert [record.heap["collections"] for record in records] == [1, 2]
