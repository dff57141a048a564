"""HotSpot's performance counters: what is read of real JVMs' files, and of bytes that are none."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from truemem.linux.hsperf import Layout, locate, values
from truemem.linux.java_heap import EDEN, EXITS, MAJOR, NUMBERS, OLD, POLICY, TEXTS, JavaHeap
from truemem.linux.runtime_heap import RuntimeHeap

from tests.heap.hsperf_golden import MOMENTS, Entry, captured, encoded

GOLDEN = captured()
SERIAL = "java-17 SerialGC"
KEPT, GARBAGE, COLLECTED = (MOMENTS.index(name) for name in ("kept", "garbage", "collected"))
LIMIT = 128 * 1024


def parse(data: bytes) -> tuple[Layout, dict[bytes, int]] | None:
    layout = locate(data, NUMBERS, TEXTS)
    if layout is None:
        return None
    read = values(layout, data[layout.start : layout.end])
    assert read is not None
    return layout, read


def heaps(name: str) -> list[RuntimeHeap]:
    """Of one JVM, at each moment, read by one who looks at each."""
    found = []
    jvm = None
    for moment in range(len(MOMENTS)):
        parsed = parse(encoded(GOLDEN[name], moment))
        assert parsed is not None
        layout, counters = parsed
        jvm = jvm or JavaHeap(layout.texts.get(POLICY, b""))
        heap = jvm.read(counters)
        assert heap is not None
        found.append(heap)
    return found


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("name", GOLDEN)
def test_what_a_jvm_has_written_is_read(name: str, order: Any) -> None:
    for moment in range(len(MOMENTS)):
        parsed = parse(encoded(GOLDEN[name], moment, order))
        assert parsed is not None
        written = {entry.name.encode(): entry.values[moment] for entry in GOLDEN[name]}
        assert parsed[1] == {counter: int(value) for counter, value in written.items() if counter in NUMBERS}
        assert parsed[0].texts == ({POLICY: written[POLICY].encode()} if POLICY in written else {})


@pytest.mark.parametrize("version", [17, 21, 25])
@pytest.mark.parametrize("collector", ["SerialGC", "ParallelGC", "G1GC"])
def test_live_is_what_a_major_collection_has_left(version: int, collector: str) -> None:
    """Of 20,000 arrays of 1,000 bytes, 10,000."""
    *before, after = heaps(f"java-{version} {collector}")
    assert [(heap.live, heap.collections) for heap in before] == [(None, 0)] * 3
    assert after.collections == 1
    assert after.live == pytest.approx(10_160_000 / 1024, abs=3 * 1024)
    assert after.gc_ms
    assert after.metaspace
    assert {heap.limit for heap in (*before, after)} == {LIMIT}
    assert all(heap.committed <= LIMIT for heap in (*before, after))


@pytest.mark.parametrize("version", [17, 21, 25])
@pytest.mark.parametrize("collector", ["SerialGC", "ParallelGC", "G1GC"])
def test_used_has_the_garbage_in_it_unless_the_counter_stands_still(version: int, collector: str) -> None:
    began, kept, garbage, _ = heaps(f"java-{version} {collector}")
    if version == 25 and collector != "G1GC":  # JDK-8241678: only at the end of a collection
        assert (began.used, kept.used) == (None, None)
    else:
        assert kept.used is not None
        assert kept.used - (began.used or 0) == pytest.approx(20_320_000 / 1024, abs=3 * 1024)
    assert garbage.used is not None
    assert garbage.used >= 20_000_000 / 1024


@pytest.mark.parametrize("version", [17, 21, 25])
@pytest.mark.parametrize("collector", ["ZGC", "ShenandoahGC", "EpsilonGC"])
def test_of_other_collectors_nothing_is_said_of_what_is_live(version: int, collector: str) -> None:
    for heap in heaps(f"java-{version} {collector}"):
        assert heap.limit == (1 << 20 if collector == "EpsilonGC" else LIMIT)
        assert heap.used is None or heap.used <= heap.committed
        assert (heap.live, heap.collections, heap.gc_ms) == (None, None, None)


def counters(moment: int, **changed: int) -> dict[bytes, int]:
    parsed = parse(encoded(GOLDEN[SERIAL], moment))
    assert parsed is not None
    known = {"majors": MAJOR, "old": OLD, "eden": EDEN, "young_exit": EXITS[0]}
    return {**parsed[1], **{known[name]: value for name, value in changed.items()}}


def test_what_other_collections_have_moved_since_is_not_called_live() -> None:
    """The old generation has grown by what a collection of the young one has moved there."""
    jvm, later = JavaHeap(b"Copy:MSC"), {"majors": 2, "young_exit": 10**18}
    read = [jvm.read(counters(COLLECTED, **changed)) for changed in ({}, later, later)]
    told = [(heap.live is not None, heap.collections) for heap in read if heap is not None]
    assert told == [(True, 1), (False, 2), (False, 2)]


def test_live_stays_until_the_next_major_collection() -> None:
    jvm = JavaHeap(b"Copy:MSC")
    readings = [jvm.read(counters(COLLECTED, **changed)) for changed in ({}, {"old": 40 << 20, "young_exit": 10**18})]
    assert readings[0] is not None
    assert readings[1] is not None
    assert readings[0].live == readings[1].live
    assert readings[1].used == pytest.approx(40 << 10, abs=3 * 1024)


@pytest.mark.parametrize("wrong", [{"old": -1}, {"eden": 1 << 50}, {"old": 129 << 20}])
def test_what_cannot_be_is_not_told(wrong: dict[str, int]) -> None:
    assert JavaHeap(b"Copy:MSC").read(counters(COLLECTED, **wrong)) is None


def test_a_heap_without_an_old_generation_is_not_told() -> None:
    without = [entry for entry in GOLDEN[SERIAL] if not entry.name.startswith("sun.gc.generation.1")]
    parsed = parse(encoded(without))
    assert parsed is not None
    assert JavaHeap(b"Copy:MSC").read(parsed[1]) is None


WHOLE = encoded(GOLDEN[SERIAL], COLLECTED)


@pytest.mark.parametrize(
    ("at", "value"),
    [
        *[(0, 0), (4, 2), (5, 3), (6, 1), (7, 0)],  # magic, order of bytes, version, ready
        *itertools.product((8, 24, 28), (-1, 0, 2**31 - 1)),  # used, first entry, number of entries
        *itertools.product((32, 36, 48), (-1, 0, 1, 2**31 - 1)),  # of an entry: its length, its name, its value
    ],
)
def test_a_file_of_another_kind_or_with_a_wrong_place_is_not_read(at: int, value: int) -> None:
    size = 1 if 4 <= at < 8 else 4
    changed = WHOLE[:at] + value.to_bytes(size, "little", signed=True) + WHOLE[at + size :]
    assert parse(changed) is None


def test_an_entry_that_is_another_now_is_not_read() -> None:
    layout = locate(WHOLE, NUMBERS)
    assert layout is not None
    part = WHOLE[layout.start : layout.end]
    assert values(layout, part) is not None
    assert values(layout, part[:-1]) is None
    for _, entry, value, _ in layout.heads:
        for at in (entry, entry + 12, entry + 20, value - 1):
            assert values(layout, part[:at] + bytes([part[at] ^ 1]) + part[at + 1 :]) is None


def test_a_number_that_is_text_or_a_list_is_not_read() -> None:
    first, *others = [entry for entry in GOLDEN[SERIAL] if entry.name.encode() in NUMBERS]
    as_text: list[Entry] = [first._replace(kind="B", vector=1, values=("x",)), *others]
    for entries in as_text, [first._replace(kind="I"), *others]:
        parsed = parse(encoded(entries))
        assert parsed is not None
        assert first.name.encode() not in parsed[1]
