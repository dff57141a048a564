"""The line about a heap that may grow beyond the function's memory."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.heaps.page import HeapLimitNotice, PythonHeap, RuntimeHeap
from truemem.support.log import set_level
from truemem.verdict import heap_limit_advice
from truemem_workbench.judge.log_diagnosis import Log, diagnose_configuration
from truemem_workbench.judge.runtime_heap import heap_limits

MIB = 1024


@pytest.mark.parametrize(
    ("runtime", "said"),
    [
        (
            "java",
            "Set -Xmx435m, or a lower -XX:MaxRAMPercentage, where JAVA_TOOL_OPTIONS or the command has it (that wins)",
        ),
        ("nodejs", "Set --max-old-space-size=384 --max-semi-space-size=8 in the variable NODE_OPTIONS"),
        ("go", "Set the variable GOMEMLIMIT=460MiB"),
        ("dotnet", "Set the variable DOTNET_GCHeapHardLimit=0x18000000"),
    ],
)
def test_the_line_names_the_setting_and_its_value(runtime: str, said: str) -> None:
    line = heap_limit_advice(runtime, 1400 * MIB, 512 * MIB)
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
def test_it_is_said_where_heap_and_what_is_beside_it_do_not_fit(
    limit_mib: int, memory_mib: int, outside_mib: int, is_said: bool
) -> None:
    assert bool(heap_limit_advice("java", limit_mib * MIB, memory_mib * MIB, outside_mib * MIB)) is is_said
    assert heap_limit_advice("cobol", limit_mib * MIB, memory_mib * MIB, outside_mib * MIB) == ""


@given(st.sampled_from(["java", "nodejs", "go", "dotnet"]), st.integers(128, 10240), st.integers(0, 200_000))
def test_whoever_sets_the_value_is_not_told_again(runtime: str, memory_mib: int, outside_kib: int) -> None:
    """A Spring application has 435 MiB of 512 from AWS's runtime, and 90 MiB of classes."""
    said = heap_limit_advice(runtime, 20_000 * MIB, memory_mib * MIB, outside_kib)
    if value := re.search(r"(?:Xmx|old-space-size=|LIMIT=)(\d+)|0x(\w+)$", said):
        limit_kib = int(value[1]) * MIB if value[1] else int(value[2], 16) // 1024
        semi = re.search(r"semi-space-size=(\d+)", said)
        young_kib = 3 * 2 ** (int(semi[1]) - 1).bit_length() * MIB if semi else 0  # as V8 rounds it up
        assert heap_limit_advice(runtime, limit_kib + young_kib, memory_mib * MIB, outside_kib) == ""
    else:
        assert said.endswith("No limit fits: it needs a larger memory size")


def test_it_is_said_once_in_an_environment(capfd: pytest.CaptureFixture[str]) -> None:
    set_level("info")
    notice = HeapLimitNotice(512)
    malloc = PythonHeap(1, 1, 1, [1, 1, 1], 1, "mallinfo2")
    java = RuntimeHeap("java", 10 * MIB, 20 * MIB, limit=500 * MIB, metaspace=20 * MIB)
    for heap in (None, malloc, java._replace(limit=None), java, java):
        notice.look(heap)
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(
        "truemem WARN the heap may grow to 500 MiB and 20 MiB outside of it, the function has 512 MiB"
    )


# Its settings


@pytest.mark.parametrize(
    ("variables", "runtime", "mib"),
    [
        ({"JAVA_TOOL_OPTIONS": "-XX:+UseSerialGC -Xmx2g -Dname=value"}, "java", 2048),
        ({"JAVA_TOOL_OPTIONS": "-Xmx1g -Xmx300M"}, "java", 300),  # the last one counts
        ({"JAVA_TOOL_OPTIONS": "-XX:MaxHeapSize=445645k"}, "java", 435.2),
        ({"JAVA_TOOL_OPTIONS": "-Xmx536870912"}, "java", 512),
        ({"JAVA_TOOL_OPTIONS": "-XX:MaxRAMPercentage=50"}, "java", 256),
        ({"JAVA_TOOL_OPTIONS": "-XX:MaxRAMPercentage=75.5 -Xmx100m"}, "java", 100),
        ({"JAVA_TOOL_OPTIONS": "-Xmx100m", "JDK_JAVA_OPTIONS": "'-Xmx200m'"}, "java", 200),
        ({"NODE_OPTIONS": "--max_old_space_size=600"}, "nodejs", 600),
        ({"NODE_OPTIONS": '--max-old-space-size=300 "--max-old-space-size=600"'}, "nodejs", 600),
        ({"NODE_OPTIONS": '--max-old-space-size="600" --no-warnings'}, "nodejs", 600),
        ({"GOMEMLIMIT": "1400MiB"}, "go", 1400),
        ({"GOMEMLIMIT": "536870912B"}, "go", 512),
        ({"DOTNET_GCHeapHardLimit": "20000000"}, "dotnet", 512),  # hexadecimal, with or without 0x
        ({"COMPlus_GCHeapHardLimit": "40000000"}, "dotnet", 1024),
        ({"DOTNET_GCHeapHardLimitPercent": "0x4B"}, "dotnet", 384),
        ({"COMPlus_GCHeapHardLimit": "0x10000000", "DOTNET_GCHeapHardLimitPercent": "0x4B"}, "dotnet", 256),
    ],
)
def test_the_limit_is_read_as_the_runtime_reads_it(variables: dict[str, str], runtime: str, mib: float) -> None:
    (limit,) = heap_limits(variables, 512)
    assert (limit.runtime, limit.kib) == (runtime, round(mib * MIB, 0))


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"JAVA_TOOL_OPTIONS": "-Xms1400m -Xmxm -Xmx-1m -Xmx1.5g"},
        {"NODE_OPTIONS": "--max-old-space-size=big --max-old-space-size-percentage=80"},
        {"JAVA_TOOL_OPTIONS": "-XX:MaxRAMPercentage=150"},  # no JVM starts with it
        {"NODE_OPTIONS": "--max_old_space_size 600"},  # nor Node.js
        {"DOTNET_GCHeapHardLimitPercent": "75"},  # 0x75 is 117, which .NET passes over
        {"GOMEMLIMIT": "off"},
        {"GOMEMLIMIT": "1400 MiB"},
        {"DOTNET_GCHeapHardLimit": "512MiB"},
        {"DOTNET_GCHeapHardLimit": "0"},
        {"JAVA_TOOL_OPTIONS": None, "GOMEMLIMIT": 1400},
    ],
)
def test_what_sets_no_limit_is_left_out(variables: dict[str, object]) -> None:
    assert heap_limits(variables, 512) == []


@given(
    st.dictionaries(
        st.sampled_from(["JAVA_TOOL_OPTIONS", "NODE_OPTIONS", "GOMEMLIMIT", "DOTNET_GCHeapHardLimit"]),
        st.text() | st.from_regex(r"(-Xmx|--max-old-space-size=|0x)?[0-9]{1,30}[kmgKMG]?(iB)?") | st.none(),
    ),
    st.integers(0, 40_000),
)
def test_any_text_gives_limits_within_bounds_or_none(variables: dict[str, object], memory_mib: int) -> None:
    for limit in heap_limits(variables, memory_mib):
        assert 0 < limit.kib < 2**40
        limit.advice(memory_mib)


def test_doctor_names_a_limit_above_the_memory_size() -> None:
    configuration = {
        "FunctionName": "orders",
        "MemorySize": 512,
        "Layers": [{"Arn": "arn:aws:lambda:eu-west-1:1:layer:truemem-x86_64:1"}],
        "Environment": {"Variables": {"NODE_OPTIONS": "--max-old-space-size=1400"}},
    }
    found = [finding for finding in diagnose_configuration(configuration, Log()) if "heap" in finding.text]
    (finding,) = found
    assert finding.grade == "note"
    assert finding.text == (
        "The heap may grow to 1400 MiB, the function has 512 MiB: it can be killed before the garbage collector has to"
        " run. Set --max-old-space-size=384 --max-semi-space-size=8 in the variable NODE_OPTIONS."
    )
    assert finding.evidence == "NODE_OPTIONS: --max-old-space-size=1400"
    assert finding.fix == "truemem docs patterns#a-heap-limit-above-the-memory-size"

    known = Log(heap_limit="The heap may grow to ...")  # the lines have the limit itself
    assert not any("heap" in finding.text for finding in diagnose_configuration(configuration, known))
    configuration["MemorySize"] = 2048
    assert not any("heap" in finding.text for finding in diagnose_configuration(configuration, Log()))
