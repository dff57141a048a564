"""The line about a heap that may grow beyond the function's memory."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.lifecycle.heap_limit import HeapLimitNotice, advice
from truemem.linux.heap_page import Heap
from truemem.linux.runtime_heap import RuntimeHeap
from truemem.support.log import set_level

MIB = 1024


@pytest.mark.parametrize(
    ("runtime", "said"),
    [
        (
            "java",
            "Set -Xmx435m, or a lower -XX:MaxRAMPercentage, where JAVA_TOOL_OPTIONS or the command has it (that wins)",
        ),
        ("nodejs", "Set --max-old-space-size=384 in the variable NODE_OPTIONS"),
        ("go", "Set the variable GOMEMLIMIT=460MiB"),
        ("dotnet", "Set the variable DOTNET_GCHeapHardLimit=0x18000000"),
    ],
)
def test_the_line_names_the_setting_and_its_value(runtime: str, said: str) -> None:
    line = advice(runtime, 1400 * MIB, 512 * MIB)
    assert line.startswith("the heap may grow to 1400 MiB, the function has 512 MiB: it can be killed before")
    assert line.endswith(said)


@pytest.mark.parametrize(
    ("limit_mib", "memory_mib", "outside_mib", "is_said"),
    [
        (435, 512, 40, False),  # what AWS's own runtime sets
        (108, 128, 18, False),
        (512, 512, 0, False),
        (512, 512, 1, True),
        (480, 512, 40, True),
        (1400, 512, 0, True),
        (1400, 0, 0, False),  # the memory size is not known
        (0, 512, 600, False),
    ],
)
def test_it_is_said_where_heap_and_what_is_known_beside_it_do_not_fit(
    limit_mib: int, memory_mib: int, outside_mib: int, is_said: bool
) -> None:
    assert bool(advice("java", limit_mib * MIB, memory_mib * MIB, outside_mib * MIB)) is is_said


@given(st.sampled_from(["java", "nodejs", "go", "dotnet"]), st.integers(128, 10240), st.integers(0, 200_000))
def test_whoever_sets_the_value_is_not_told_again(runtime: str, memory_mib: int, outside_kib: int) -> None:
    """A Spring application has 435 MiB of 512 from AWS's runtime, and 90 MiB of classes."""
    said = advice(runtime, 20_000 * MIB, memory_mib * MIB, outside_kib)
    if value := re.search(r"(?:Xmx|size=|LIMIT=)(\d+)|0x(\w+)$", said):
        limit_kib = int(value[1]) * MIB if value[1] else int(value[2], 16) // 1024
        young_kib = 48 * MIB if runtime == "nodejs" else 0
        assert advice(runtime, limit_kib + young_kib, memory_mib * MIB, outside_kib) == ""
    else:
        assert said.endswith("No limit fits: it needs a larger memory size")


def test_of_a_runtime_that_is_not_known_nothing_is_said() -> None:
    assert advice("cobol", 1400 * MIB, 512 * MIB) == ""


def test_it_is_said_once_in_an_environment(capfd: pytest.CaptureFixture[str]) -> None:
    set_level("info")
    notice = HeapLimitNotice(512)
    malloc = Heap(1, 1, 1, [1, 1, 1], 1, "mallinfo2")
    java = RuntimeHeap("java", 10 * MIB, 20 * MIB, limit=500 * MIB, metaspace=20 * MIB)
    for heap in (None, malloc, java._replace(limit=None), java, java):
        notice.look(heap)
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(
        "truemem WARN the heap may grow to 500 MiB and 20 MiB outside of it, the function has 512 MiB"
    )
