"""The line of Java that ran when memory ran out, at real kills by the kernel: it is a planted one, or there is none."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.local import Function

from testing.cases import RUNTIMES
from testing.environment import Environment
from tests.heaps.jvms import VERSIONS, classes, install, java
from tests.local.conftest import needs_cgroups
from tests.stacks.rounds import one_is_named

pytestmark = [
    needs_cgroups,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="frames are known of x86-64 alone"),
]
SOURCES = Path(__file__).parent / "functions/java"
SOURCE = SOURCES / "com/acme/RunsOut.java"
PLANTED = [
    (line.rpartition("// ")[2], number)
    for number, line in enumerate(SOURCE.read_text().splitlines(), 1)
    if " // " in line
]
MIB = 512
MANAGED = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""As AWS's own runtimes start it, but for its heap: that one is larger than the function, and the kernel ends it."""
TRIES = 6
"""Rounds until a death has its line: a burst may be faster than a look, or no look finds the thread in the JVM."""


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    install(request.param)
    java(request.param)
    return str(request.param)


def running(version: str, *cases: str, options: tuple[str, ...] = MANAGED, **settings: Any) -> list[dict[str, Any]]:
    """`outOfMemory` of the line of each of these invocations."""
    library = classes(SOURCES / "org/tiny/Cache.java")
    folder = classes(RUNTIMES / "Bootstrap.java", SOURCES / "App.java", SOURCE, path=library)
    heap = ("-Xmx2g", "-XX:MaxDirectMemorySize=2g")
    command = (java(version), *options, *heap, "-cp", f"{folder}:{library}", "Bootstrap")
    function = Function(command, folder, "com.acme.RunsOut::handle", None, (folder, library))
    with Environment(function, memory_mib=MIB, timeout_s=60, **settings) as environment:
        for event in ({}, *({"do": case} for case in cases)):
            environment.local.invoke(event)
        _, *records = environment.records()
    return [record.outOfMemory or {} for record in records]


def check(case: str, line: dict[str, Any]) -> bool:
    assert (line["file"], (case, line["line"]) in PLANTED) == ("com/acme/RunsOut.java", True)
    assert line["function"].startswith("com.acme.RunsOut")
    assert MIB / 2 <= line["level"] < 1.25 * MIB  # pages of files are in RSS, and not all in the limit
    assert f"{line['file']}:{line['line']} {line['function']}" in line["stack"]
    return True


@pytest.mark.parametrize(
    "cases",
    [
        ("nodes", "maps", "anotherThread", "library", "lambda", "json", "direct"),
        pytest.param(("paused", "deflaters"), marks=pytest.mark.nightly),  # some seconds each
    ],
)
def test_the_line_is_one_that_allocates(version: str, cases: tuple[str, ...]) -> None:
    assert one_is_named(cases, lambda case, exact: running(version, case, exact=exact)[0], check, TRIES)


@pytest.mark.parametrize(
    "options", [("-XX:+UseG1GC",), pytest.param(("-XX:+UseParallelGC",), marks=pytest.mark.nightly)]
)
def test_no_collector_leads_to_a_wrong_line(version: str, options: tuple[str, ...]) -> None:
    for case in ("smallArrays", "garbage", "reads", "deflatersAndGarbage"):
        (found,) = running(version, case, options=options)
        line = found.get("running", {}).get("line")
        assert line is None or (case, line) in PLANTED


def test_there_is_no_line_where_another_program_grows(version: str) -> None:
    (found,) = running(version, "anotherProgram")
    assert "kernel" in found["signals"]
    assert "running" not in found


def test_who_was_near_and_lives_has_no_line(version: str) -> None:
    assert running(version, "lives", "lives") == [{}, {}]
