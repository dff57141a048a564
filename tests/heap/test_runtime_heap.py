"""Leak, or a lazy garbage collector: from figures alone."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from truemem_workbench.analysis import runtime_heap
from truemem_workbench.analysis.heap import readings as malloc_readings
from truemem_workbench.analysis.runtime_finding import LEAKS, PATTERNS, Finding
from truemem_workbench.analysis.runtime_reading import RUNTIMES, last_life, reading, readings
from truemem_workbench.lines.record import Record, parse_line

BASE = 40.0
"""RSS of a runtime without its heap, MiB."""


def record(number: int, rss: float, **heap: Any) -> Record:
    line = {
        "_aws": {},
        "schema": 1,
        "invocation": number,
        "CurrentRSS": rss,
        "processes": 1,
        "memoryLimit": 512,
        "heap": {"runtime": "java", "limit": 435, **heap},
    }
    made = parse_line(json.dumps(line))
    assert made is not None
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
) -> list[Record]:
    """A collector that runs whenever the heap is full. Sizes in MiB; each invocation makes so much garbage."""
    lines: list[Record] = []
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


def found(lines: list[Record]) -> Finding:
    finding = runtime_heap.find(lines)
    assert finding is not None
    return finding


# --- What is said -----------------------------------------------------------------------------------------------------


def test_a_leak_on_the_heap() -> None:
    assert found(life(lambda n: 10 + n / 4)).sentence == (
        "What is live after collection grows by 256 KiB per invocation, from 23 to 66 MiB, over 12 major collections: a"
        " leak on the heap, else a cache that is far from full. Its limit of 435 MiB is about 1,476 invocations away."
        " Compare two heap dumps (jcmd PID GC.heap_dump FILE)."
    )


def test_a_collector_that_had_no_need_to_run() -> None:
    assert found(life(lambda _: 12, garbage=0.9, committed=300)).sentence == (
        "The collector has not needed to run: up to 228 MiB that objects use may be garbage. RSS has risen from 54 to"
        " 264 MiB; whether something leaks, the next collection tells. It collects before the heap's limit of 435 MiB."
        " In a test, a smaller -Xmx makes it run earlier."
    )


def test_a_collector_that_ran_once_long_ago() -> None:
    lines = life(lambda _: 12, garbage=1, committed=200, live=lambda n: 12 if n > 30 else None, collections=1)
    assert "has not needed to run since invocation" in found(lines).sentence
    assert "left 12 MiB live: up to" in found(lines).sentence
    assert "are garbage" in found(lines).sentence


def test_a_collector_that_runs_and_leaves_what_is_live_as_it_was() -> None:
    assert found(life(lambda _: 12, committed=120)).sentence == (
        "What is live after collection stays at 12 MiB, over 8 major collections: no leak on the heap. RSS has risen"
        " from 60 to 160 MiB, for the collector lets the heap grow to 120 MiB before it runs; 64 MiB of what it has are"
        " garbage now. It collects before the heap's limit of 435 MiB. In a test, a smaller -Xmx makes it run earlier."
    )


def test_native_memory_beside_a_heap_that_stays_level() -> None:
    assert found(life(lambda _: 12, committed=40, native=lambda n: n / 4)).sentence == (
        "What is live after collection stays at 12 MiB, and RSS grows beside the heap by 256 KiB per invocation, from"
        " 50 to 98 MiB: a leak in native memory (direct buffers, threads, native libraries: jcmd PID VM.native_memory"
        " tells, with -XX:NativeMemoryTracking=summary)."
    )


def test_buffers_of_node_js() -> None:
    lines = life(lambda _: 12, committed=40, runtime="nodejs", external=lambda n: 3 + n / 4, metaspace=1)
    assert found(lines).sentence == (
        "What is live after collection stays at 12 MiB, and memory outside of the heap grows by 256 KiB per invocation,"
        " from 13 to 61 MiB: Buffers that are kept, a leak."
    )


def test_classes_that_are_never_unloaded() -> None:
    lines = life(lambda _: 12, metaspace=lambda n: 20 + n // 8, native=lambda n: n / 4)
    assert found(lines).kind == "classes"
    assert found(lines).sentence.startswith("Metaspace grows by 128 KiB per invocation, from 26 to 49 MiB: classes")


def test_code_that_is_compiled_anew_in_node_js() -> None:
    lines = life(lambda _: 12, runtime="nodejs", metaspace=lambda n: 1 + n / 16)
    assert found(lines).sentence.startswith("Code grows by 64 KiB per invocation, from 4 to 15 MiB: functions that")


def test_a_cache_that_filled() -> None:
    lines = life(lambda n: 10 + min(n, 80) / 2, committed=90)
    assert found(lines).sentence == (
        "What is live after collection grew from 14 to 50 MiB, and has levelled off: a cache that filled."
    )


@pytest.mark.parametrize("full", [2.5, 3, 4])
@pytest.mark.parametrize("garbage", [3, 6, 12])
def test_a_cache_of_random_keys_that_is_nine_tenths_full_is_no_leak(full: float, garbage: float) -> None:
    """Its bend is no movement that would hide how little is left of its growth."""
    lines = life(lambda n: 10 + 60 * (1 - math.exp(-n * full / 600)), invocations=600, garbage=garbage)
    assert found(lines).kind in ("filling", "filled")


@pytest.mark.parametrize("needed", [lambda n: 12 + max(0, n - 400) / 4, lambda n: 15 if n < 500 else 50])
def test_growth_that_began_late_is_not_said_to_stay_level(needed: Callable[[int], float]) -> None:
    finding = found(life(needed, invocations=600, garbage=6))
    assert finding.kind == "filling"
    assert re.match(r"What is live after collection has grown from 1[25] to 5\d MiB", finding.sentence)


def test_what_moves_with_load_is_not_said_to_stay_where_it_is() -> None:
    lines = life(lambda n: 30 + 15 * math.sin(2 * math.pi * n / 200), invocations=600, garbage=6)
    assert found(lines).sentence.startswith(
        "What is live after collection goes up and down between 15 and 45 MiB, over"
    )


def test_what_was_needed_for_a_while_and_given_back_is_no_cache_that_filled() -> None:
    lines = life(lambda n: 15 + 40 * math.sin(math.pi * n / 400), invocations=400, garbage=6)
    assert found(lines).kind == "lazy"


@pytest.mark.parametrize("seed", range(4))
def test_a_leak_is_said_though_what_is_live_goes_up_and_down_by_a_quarter_of_it(seed: int) -> None:
    source = random.Random(seed)
    needed = [10 + source.uniform(0, 15) + n / 10 for n in range(601)]
    assert found(life(needed.__getitem__, invocations=600, garbage=12)).kind == "leak"


def test_a_limit_above_the_memory_size_is_told_with_the_value_to_set() -> None:
    finding = found(life(lambda _: 12, limit=1400))
    assert finding.exceeds
    assert finding.pattern == "a-heap-limit-above-the-memory-size"
    assert finding.sentence.endswith(
        "The heap may grow to 1400 MiB and 20 MiB outside of it, the function has 512 MiB: it can be killed before the"
        " garbage collector has to run. Set -Xmx435m, or a lower -XX:MaxRAMPercentage, where JAVA_TOOL_OPTIONS or the"
        " command has it (that wins)."
    )
    assert "It collects before" not in finding.sentence


# --- What is not known is not said ------------------------------------------------------------------------------------


def test_java_25_says_nothing_of_what_is_used_before_a_collection() -> None:
    lines = [record(n, 50 + n / 2, committed=400, collections=0) for n in range(1, 241)]
    assert found(lines).kind == "lazy"
    assert found(lines).sentence.startswith("The collector has not run: of 400 MiB that the heap has taken, all that")


def test_java_25_says_nothing_of_what_became_garbage_since_a_collection() -> None:
    def after(collection: int, lowest: int, **heap: Any) -> str:
        lines = [
            record(n, 60 + min(140, n * 2), committed=200, collections=n // collection, **(heap if n >= lowest else {}))
            for n in range(1, 401)
        ]
        return found(lines).sentence

    assert "garbage now" not in after(20, 20, used=13, live=12)
    assert "12 MiB live: how much has become garbage since is not known." in after(390, 390, used=13, live=12)
    assert after(1000, 50, used=13).startswith("The collector made no major collection: of 200 MiB that the heap")


def test_a_heap_that_is_touched_for_the_first_time_is_not_native_memory() -> None:
    """It has taken all of its memory at the start: RSS follows what objects use."""
    assert found(life(lambda _: 12, garbage=0.5, committed=400)).kind == "lazy"


def test_of_a_collector_that_tells_nothing_of_what_is_live_no_leak_is_said() -> None:
    """ZGC, Shenandoah."""
    lines = life(lambda n: 10 + n / 4, garbage=0, committed=120, live=None, collections=None)
    assert not found(lines).is_leak
    assert "may be garbage" in found(lines).sentence


def buffers(collected_at: int, left: float) -> list[Record]:
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


def test_buffers_that_no_collection_has_come_for_are_not_said_to_be_kept() -> None:
    for lines in (buffers(1000, 0), buffers(5, 1)):
        assert found(lines).kind == "filling"
        assert found(lines).sentence.endswith(
            "memory that objects own has grown from 9 to 38 MiB: a leak, or garbage; a major collection tells."
        )
    assert found(buffers(400, 0.1)).kind not in LEAKS
    assert found(buffers(400, 0.9)).kind == "external"


def test_classes_that_no_collection_has_come_for_are_not_said_to_be_kept() -> None:
    def metaspace(n: int) -> float:
        return 20 + n // 8

    never = found(life(lambda _: 12, garbage=0.2, committed=300, metaspace=metaspace))
    assert "classes (class loaders) that are kept, or that no major collection has come for yet." in never.sentence
    code = found(life(lambda _: 12, garbage=0.2, committed=300, metaspace=metaspace, runtime="nodejs"))
    assert "and kept, or not collected yet (eval" in code.sentence
    assert "not collected yet" not in found(life(lambda _: 12, metaspace=metaspace, runtime="nodejs")).sentence


def test_what_the_heap_cannot_have_touched_is_not_said_to_be_the_collectors() -> None:
    """Native memory that rose once, and stayed."""
    finding = found(life(lambda _: 12, committed=40, invocations=400, native=lambda n: 60.0 * (n > 200)))
    assert "RSS has risen from 60 to 140 MiB, by more than the 24 MiB that the heap can have touched since." in (
        finding.sentence
    )


def test_native_memory_does_not_begin_below_nothing() -> None:
    """The heap has taken much that it touches by and by."""
    lines = life(lambda _: 12, invocations=400, garbage=2, committed=300, native=lambda n: n / 4)
    assert re.search(r"from 49 to 13\d MiB: a leak in native memory", found(lines).sentence)


def test_a_limit_that_the_heap_is_beyond_is_not_promised() -> None:
    """GOMEMLIMIT is a soft one."""
    assert "It collects before" in found(life(lambda _: 12, runtime="go", limit=120)).sentence
    assert "It collects before" not in found(life(lambda _: 12, runtime="go", limit=60)).sentence


def test_a_few_lines_are_too_few() -> None:
    assert not found(life(lambda n: 10 + n, invocations=20)).is_leak


def test_only_the_process_that_ran_last_is_judged() -> None:
    leak, level = life(lambda n: 10 + n / 4), life(lambda _: 12)
    again = [Record(members={**line.members, "invocation": 240 + n}) for n, line in enumerate(level, 1)]
    assert found([*leak, *again]).kind == "lazy"
    assert len(last_life(readings([*leak, *again]))) == 240


def test_growth_that_has_ended_long_ago_is_no_leak() -> None:
    """The collector runs while a cache fills, and then not again: what objects use since then bounds what is live."""
    filled = life(lambda n: 10 + n, invocations=60, garbage=20)
    later = [record(60 + n, 160, used=72 + n % 5, committed=120, live=60, collections=11) for n in range(1, 300)]
    assert not found([*filled, *later]).is_leak


def test_what_is_python_s_is_not_read() -> None:
    line = record(1, 50)
    python = Record(members={**line.members, "heap": {"inUse": 1.0, "held": 2.0, "mapped": 0.0}})
    assert runtime_heap.find([python]) is None
    assert runtime_heap.explain([python]) is None
    assert malloc_readings(life(lambda _: 12)) == []


ANYTHING = st.one_of(
    st.none(), st.booleans(), st.floats(), st.integers(-5, 2000), st.text(max_size=3), st.lists(st.none(), max_size=1)
)
FIGURES = ("used", "committed", "live", "limit", "external", "metaspace", "collections", "gcMs")
HEAPS = st.fixed_dictionaries(
    {"runtime": st.sampled_from([*RUNTIMES, "cobol"])}, optional=dict.fromkeys(FIGURES, ANYTHING)
)
OTHERS = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("CurrentRSS", "processes", "invocation", "memoryLimit", "coldStart"), ANYTHING)
)


@given(st.lists(st.tuples(HEAPS, OTHERS), max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_members_give_a_sentence_or_none(lines: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    finding = runtime_heap.find(Record(members={**others, "heap": heap}) for heap, others in lines)
    assert finding is None or (finding.sentence and finding.pattern)


SIZES = st.floats(0, 600, allow_nan=False)


@given(st.integers(1, 300), st.integers(0, 1000), st.sampled_from(RUNTIMES))
@settings(max_examples=150, deadline=None)
def test_any_valid_figures_give_a_sentence(count: int, seed: int, runtime: str) -> None:
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
    assert found(lines).sentence


@given(
    st.integers(40, 400),
    st.floats(1, 100),
    st.floats(0.2, 30),
    st.floats(1.1, 6),
    st.integers(0, 1000),
)
@settings(max_examples=150, deadline=None)
def test_a_leak_is_never_said_where_what_is_live_is_flat(
    invocations: int, live: float, garbage: float, room: float, seed: int
) -> None:
    """What is live goes up and down by a third, with what an invocation needs."""
    source = random.Random(seed)
    needed = [live * source.uniform(0.9, 1.2) for _ in range(invocations + 1)]
    lines = life(needed.__getitem__, invocations=invocations, garbage=garbage, committed=live * room + 2 * garbage)
    assert found(lines).kind not in LEAKS


@pytest.mark.parametrize("heap", [None, {}, {"runtime": "java"}, {"runtime": "cobol", "committed": 1}, [], "java"])
def test_what_is_no_heap_makes_no_reading(heap: object) -> None:
    assert reading({"heap": heap}) is None


def test_each_finding_leads_to_a_section_of_the_patterns() -> None:
    from pathlib import Path

    page = (Path(__file__).parents[2] / "docs" / "patterns.md").read_text()
    titles = {line[3:].strip().lower().replace(" ", "-") for line in page.splitlines() if line.startswith("## ")}
    assert {*PATTERNS.values(), "a-heap-limit-above-the-memory-size"} <= titles
