"""Leak, or a lazy garbage collector: from figures alone."""

import json
import math
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem_workbench.judge import causes
from truemem_workbench.judge.curves import curves_of
from truemem_workbench.judge.finding import Commands, Finding, commands_deployed, commands_local
from truemem_workbench.judge.heap import malloc_heaps
from truemem_workbench.judge.runtime_heap import (
    HEAP_RUNTIMES,
    LEAKS,
    CollectedHeap,
    HeapReading,
    kept_at_most,
    longest_life,
)
from truemem_workbench.printed.line import Line, line_of, parse_event
from truemem_workbench.support.typed_command import Command

BASE = 40.0
"""RSS of a runtime without its heap, MiB."""


def record(number: int, rss: float, **heap: Any) -> Line:
    line = {
        "_aws": {},
        "schema": 1,
        "environmentId": "a",
        "invocation": number,
        "CurrentRSS": rss,
        "processes": 1,
        "memoryLimit": 512,
        "heap": {"runtime": "java", "limit": 435, **heap},
    }
    (made,) = parse_event(json.dumps(line))
    return made


def life(
    needed: Callable[[int], float],
    /,
    *,
    invocations: int = 240,
    garbage: float = 4.0,
    committed: float = 120.0,
    native: Callable[[int], float] = lambda _: 0.0,
    **heap: Any,
) -> list[Line]:
    """A collector that runs whenever the heap is full. Sizes in MiB; each invocation makes so much garbage."""
    lines: list[Line] = []
    waste, top, collections, left = 0.0, 0.0, 0, None
    for number in range(1, invocations + 1):
        waste += garbage
        if needed(number) + waste > committed:
            waste, collections, left = 0.0, collections + 1, needed(number)
        used = needed(number) + waste
        top = max(top, used)
        members: dict[str, Any] = {
            "used": used,
            "committed": committed,
            "live": left,
            "collections": collections,
            "metaspace": 20.0,
        }
        own: dict[str, Any] = {name: value(number) if callable(value) else value for name, value in heap.items()}
        members = {name: value for name, value in {**members, **own}.items() if value is not None}
        outside = native(number) + float(members.get("external", 0))
        lines.append(record(number, BASE + top + outside, **members))
    return lines


def found(lines: Iterable[Line]) -> CollectedHeap:
    heap = any_heap(lines)
    assert heap is not None
    return heap


def any_heap(lines: Iterable[Line]) -> CollectedHeap | None:
    return curves_of(lines).heap


def answer(lines: Iterable[Line]) -> Finding:
    return causes.find(curves_of(lines), Commands(again="again", heap="add the probe"))


NODE: dict[str, Any] = {"runtime": "nodejs", "metaspace": 1}
TROUBLES: dict[str, tuple[list[Line], tuple[str, str, str], float]] = {
    "a leak on the heap": (life(lambda n: 10 + n / 4), ("leak", "leak", "live objects"), 256),
    "native memory beside a level heap": (
        life(lambda _: 12, committed=40, native=lambda n: n / 4),
        ("native", "native", "native memory"),
        256,
    ),
    "native memory beside a heap that is touched by and by": (
        life(lambda _: 12, invocations=400, garbage=2, committed=300, native=lambda n: n / 4),
        ("native", "native", "native memory"),
        256,
    ),
    "buffers of Node.js": (
        life(lambda _: 12, committed=40, external=lambda n: 3 + n / 4, **NODE),
        ("external", "leak", "buffers outside of the heap"),
        256,
    ),
    "classes that are never unloaded": (
        life(lambda _: 12, metaspace=lambda n: 20 + n // 8, native=lambda n: n / 4),
        ("classes", "leak", "classes"),
        128,
    ),
    "code that is compiled anew in Node.js": (
        life(lambda _: 12, runtime="nodejs", metaspace=lambda n: 1 + n / 16),
        ("classes", "leak", "code"),
        64,
    ),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_what_grows_is_named_with_its_rate(trouble: str) -> None:
    lines, (kind, cause, holder), rate = TROUBLES[trouble]
    finding = answer(lines)
    assert (found(lines).kind, finding.cause, finding.holder) == (kind, cause, holder)
    assert finding.grows
    assert finding.per_invocation_kib == pytest.approx(rate, rel=0.1)
    assert finding.next == "again"  # the line has the heap: no probe is missing


def test_rss_that_falls_while_the_heap_rests_is_no_native_leak() -> None:
    """It rises when the heap takes more: a function that packs and unpacks JSON, on Node.js 26. The gate said "Leak:
    -22.5 KiB more in each invocation, in native memory"."""
    lines = []
    for number in range(1, 241):
        steps, rest = divmod(number, 60)
        committed = 40.0 + 2 * steps
        members = {"used": committed - 1, "committed": committed, "live": 12.0, "collections": number // 3}
        lines.append(record(number, BASE + committed + 6 * steps - 0.02 * rest, **NODE, **members))
    assert found(lines).kind == "filling"
    finding = answer(lines)
    assert not finding.grows
    assert finding.cause != "native"


def test_what_node_holds_for_garbage_is_no_native_leak() -> None:
    """While RSS may still warm up: what zlib holds is freed only when V8 collects its objects."""
    same: dict[str, Any] = {"invocations": 400, "garbage": 2, "committed": 300, "native": lambda n: n / 4}
    assert answer(life(lambda _: 12, **same)).cause == "native"
    in_node = answer(life(lambda _: 12, **same, **NODE))
    assert (in_node.cause, in_node.grows) == ("undecided", False)


def test_the_end_of_a_leak_is_where_the_first_limit_is() -> None:
    finding = answer(life(lambda n: 10 + n / 4, limit=256))
    assert finding.invocations_left == pytest.approx((256 - 66) * 4, rel=0.05)
    assert finding.then == "the runtime's own heap is full and its process ends"
    assert answer(life(lambda n: 10 + n / 4, limit=1400)).then.startswith("the memory size is reached")


QUIET: dict[str, tuple[list[Line], tuple[str, str]]] = {
    "it had no need to run": (life(lambda _: 12, garbage=0.9, committed=300), ("lazy", "undecided")),
    "it runs, and what is live stays": (life(lambda _: 12, committed=120), ("lazy", "collector")),
    "the heap is touched for the first time": (life(lambda _: 12, garbage=0.5, committed=400), ("lazy", "undecided")),
    "a cache that filled": (life(lambda n: 10 + min(n, 80) / 2, committed=90), ("filled", "cache")),
    "it moves with load": (
        life(lambda n: 30 + 15 * math.sin(2 * math.pi * n / 200), invocations=600, garbage=6),
        ("lazy", "collector"),
    ),
    "it was given back": (
        life(lambda n: 15 + 40 * math.sin(math.pi * n / 400), invocations=400, garbage=6),
        ("lazy", "collector"),
    ),
    "ZGC, Shenandoah: nothing is told of what is live": (
        life(lambda n: 10 + n / 4, garbage=0, committed=120, live=None, collections=None),
        ("lazy", "undecided"),
    ),
    "Java 25: nothing is told before a collection": (
        [record(n, 50 + n / 2, committed=400, collections=0) for n in range(1, 241)],
        ("lazy", "undecided"),
    ),
}


@pytest.mark.parametrize("case", QUIET)
def test_a_collector_is_not_accused(case: str) -> None:
    lines, (kind, cause) = QUIET[case]
    finding = answer(lines)
    assert (found(lines).kind, finding.cause, finding.grows) == (kind, cause, False)


@pytest.mark.parametrize("full", [2.5, 3, 4])
@pytest.mark.parametrize("garbage", [3, 6, 12])
def test_a_cache_of_random_keys_nine_tenths_full_is_no_leak(full: float, garbage: float) -> None:
    """Its bend is no movement that would hide how little is left of its growth."""
    lines = life(lambda n: 10 + 60 * (1 - math.exp(-n * full / 600)), invocations=600, garbage=garbage)
    assert found(lines).kind in ("filling", "filled")


@pytest.mark.parametrize("needed", [lambda n: 12 + max(0, n - 400) / 4, lambda n: 15 if n < 500 else 50])
def test_growth_that_began_late_is_not_called_level(needed: Callable[[int], float]) -> None:
    finding = found(life(needed, invocations=600, garbage=6))
    assert finding.kind == "filling"
    assert finding.live.before == pytest.approx(13.5, abs=2)
    assert finding.live.after == pytest.approx(55, abs=6)


@pytest.mark.parametrize("seed", range(4))
def test_a_leak_is_found_under_live_objects_that_move(seed: int) -> None:
    source = random.Random(seed)
    needed = [10 + source.uniform(0, 15) + n / 10 for n in range(601)]
    assert found(life(needed.__getitem__, invocations=600, garbage=12)).kind == "leak"


def test_a_limit_above_the_memory_size_has_a_value_to_set() -> None:
    finding = answer(life(lambda _: 12, limit=1400))
    assert (finding.cause, finding.pattern) == ("collector", "a-heap-limit-above-the-memory-size")
    assert "the function has 512 MiB" in finding.repair
    assert "Set -Xmx435m" in finding.repair
    assert answer(life(lambda _: 12)).repair == ""


def buffers(collected_at: int, left: float) -> list[Line]:
    """Node.js 20 with the last 60 of buffers of 60 KiB: so they rose for 1,000 invocations, and no collection came."""

    def external(n: int) -> float:
        return 3 + n * 0.06 - (n >= collected_at) * (1 - left) * collected_at * 0.06

    return life(
        lambda _: 12,
        invocations=600,
        garbage=0.02,
        committed=300,
        runtime="nodejs",
        metaspace=1,
        external=external,
        collections=lambda n: int(n >= collected_at),
    )


def test_buffers_that_no_collection_came_for_may_be_garbage() -> None:
    for lines in (buffers(1000, 0), buffers(5, 1)):
        assert (found(lines).kind, answer(lines).cause) == ("filling", "undecided")
    assert found(buffers(400, 0.1)).kind not in LEAKS
    assert found(buffers(400, 0.9)).kind == "external"


def test_classes_that_no_collection_came_for_are_undecided() -> None:
    def metaspace(n: int) -> float:
        return 20 + n // 8

    assert answer(life(lambda _: 12, garbage=0.2, committed=300, metaspace=metaspace)).cause == "undecided"
    assert answer(life(lambda _: 12, metaspace=metaspace, runtime="nodejs")).cause == "leak"


def test_a_few_lines_are_too_few() -> None:
    assert found(life(lambda n: 10 + n, invocations=20)).kind not in LEAKS


def test_too_few_invocations_want_more_of_them_next() -> None:
    commands = Commands(again="again", longer="longer", with_variable="longer --env")
    lines = life(lambda _: 20.0, invocations=100, runtime="nodejs")
    assert causes.find(curves_of(lines), commands).next == "longer"


@pytest.mark.parametrize(
    ("runtime", "following"),
    [
        ("nodejs", "truemem attach NAME --lines"),
        ("java", "truemem attach NAME --lines --lines-java"),
        ("go", "truemem events NAME --since 1h --output events.jsonl"),
        *((runtime, "truemem report NAME --since 1h") for runtime in ("dotnet", "ruby", "php")),
    ],
)
def test_what_names_the_line_comes_next(runtime: str, following: str) -> None:
    lines = life(lambda n: 12 + n / 4, runtime=runtime)
    found = causes.find(curves_of(lines), commands_deployed(""))
    assert (found.next, "truemem explain" in found.repair) == (following, runtime in ("java", "go"))


@pytest.mark.parametrize("runtime", ["java", "go"])
def test_here_the_line_is_named_by_explain(runtime: str) -> None:
    commands = commands_local(Command("local run", ("cmd/api/bootstrap",)))
    found = causes.find(curves_of(life(lambda n: 12 + n / 4, runtime=runtime)), commands)
    assert (found.next, found.repair) == ("truemem explain cmd/api/bootstrap", "Give what keeps it a bound.")


def test_only_the_process_that_ran_last_is_judged() -> None:
    leak, level = life(lambda n: 10 + n / 4), life(lambda _: 12)
    again = [line_of({**line.members, "invocation": 240 + n}) for n, line in enumerate(level, 1)]
    assert found([*leak, *again]).kind == "lazy"
    assert len(longest_life(curves_of([*leak, *again]).readings)) == 240


def test_growth_that_has_ended_long_ago_is_no_leak() -> None:
    """The collector runs while a cache fills, and then not again: what objects use since then bounds what is live."""
    filled = life(lambda n: 10 + n, invocations=60, garbage=20)
    later = [record(60 + n, 160, used=72 + n % 5, committed=120, live=60, collections=11) for n in range(1, 300)]
    assert found([*filled, *later]).kind not in LEAKS


def test_what_is_python_s_is_not_read() -> None:
    line = record(1, 50)
    python = line_of({**line.members, "heap": {"inUse": 1.0, "held": 2.0, "mapped": 0.0}})
    assert any_heap([python]) is None
    assert malloc_heaps(life(lambda _: 12)) == []


ANYTHING = st.one_of(
    st.none(), st.booleans(), st.floats(), st.integers(-5, 2000), st.text(max_size=3), st.lists(st.none(), max_size=1)
)
FIGURES = ("used", "committed", "live", "limit", "external", "metaspace", "collections", "gcMs")
HEAPS = st.fixed_dictionaries(
    {"runtime": st.sampled_from([*HEAP_RUNTIMES, "cobol"])}, optional=dict.fromkeys(FIGURES, ANYTHING)
)
OTHERS = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("CurrentRSS", "processes", "invocation", "memoryLimit", "coldStart"), ANYTHING)
)


@given(st.lists(st.tuples(HEAPS, OTHERS), max_size=60))
def test_any_members_give_a_kind_or_none(lines: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    heap = any_heap(Line(environment="", schema=1, members={**others, "heap": heap}) for heap, others in lines)
    assert heap is None or heap.invocations > 0


@given(st.integers(1, 300), st.integers(0, 1000), st.sampled_from(HEAP_RUNTIMES))
def test_any_valid_figures_give_a_finding(count: int, seed: int, runtime: str) -> None:
    source = random.Random(seed)
    lines = [
        record(
            number,
            source.uniform(0, 600),
            **{name: source.uniform(0, 600) for name in FIGURES[:6] if name == "committed" or source.random() < 0.7},
            runtime=runtime,
            collections=number // 3,
        )
        for number in range(1, count + 1)
    ]
    assert answer(lines).paragraph()


@given(
    st.integers(40, 400),
    st.floats(1, 100),
    st.floats(0.2, 30),
    st.floats(1.1, 6),
    st.integers(0, 1000),
)
def test_no_leak_is_found_where_what_is_live_is_flat(
    invocations: int, live: float, garbage: float, room: float, seed: int
) -> None:
    """What is live goes up and down by a third, with what an invocation needs."""
    source = random.Random(seed)
    needed = [live * source.uniform(0.9, 1.2) for _ in range(invocations + 1)]
    lines = life(needed.__getitem__, invocations=invocations, garbage=garbage, committed=live * room + 2 * garbage)
    assert found(lines).kind not in LEAKS


# --- what is kept at most -------------------------------------------------------------------------------------------


def used(*sizes: int, collections: Sequence[int], begins: int = 0, overlaps: bool = False) -> list[HeapReading]:
    """Readings of these MiB, with the number of major collections so far; of a new process from `begins` on."""
    made = [HeapReading(runtime="nodejs", number=at, committed=99.0, used=size) for at, size in enumerate(sizes, 1)]
    return [
        each._replace(collections=count, begins=each.number == begins, overlaps=overlaps)
        for each, count in zip(made, collections, strict=True)
    ]


def kept(found: list[HeapReading]) -> dict[int, float]:
    return {number: size / 1024 for number, size in kept_at_most(found).items()}


def test_what_less_was_used_after_was_not_kept() -> None:
    found = used(10, 14, 11, 15, 12, 16, 13, collections=[0, 0, 1, 1, 2, 2, 3])
    assert kept(found) == {1: 10, 2: 11, 3: 11, 4: 12, 5: 12, 6: 13, 7: 13}


def test_what_grows_long_after_a_collection_may_be_garbage() -> None:
    found = used(10, 12, 11, 15, 20, 25, 30, collections=[0, 0, 1, 1, 1, 1, 1])
    assert kept(found) == {1: 10, 2: 11, 3: 11}
    assert kept(used(10, 20, 30, collections=[0, 0, 0])) == {}


def test_each_process_is_judged_by_its_own_collections() -> None:
    found = used(10, 20, 30, 5, 6, 7, collections=[0, 0, 1, 0, 0, 0], begins=4)
    assert kept(found) == {1: 10, 2: 20, 3: 30}


def test_requests_that_overlap_are_of_one_process() -> None:
    """The one that began first may have ended last."""
    found = used(10, 11, 14, 12, collections=[0, 1, 3, 2], overlaps=True)
    assert len(longest_life(found)) == 4
    assert kept(found) == {1: 10, 2: 11, 3: 12}
