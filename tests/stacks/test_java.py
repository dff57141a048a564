"""Stacks of real JVMs, read from outside: what they run, or nothing; and the parsers of what HotSpot compresses."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.stacks.java import JavaStacks, Numbers, OwnClasses, line_of, stacks_of

from tests.heaps.jvms import VERSIONS, classes, install, java

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="frames are known of x86-64 alone")
SOURCE = Path(__file__).parent / "functions/java/com/acme/Moves.java"
LINES = {
    line.rpartition("// ")[2]: number
    for number, line in enumerate(SOURCE.read_text().splitlines(), 1)
    if "; //" in line
}
CHAINS = [
    [(place.partition(",")[0], LINES[place]) for place in places]
    for places in (
        ["inner", "lambda$middle$0", "middle", "outer", "both, outer", "main"],
        ["lambda$other$1", "other", "both, other", "main"],
    )
]
"""What allocates, with its callers, the innermost first. The JVM itself may need memory in any of them."""
READS = 400


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    install(request.param)
    java(request.param)
    return str(request.param)


@contextmanager
def moves(version: str, *options: str) -> Iterator[int]:
    """Its pid, while it runs."""
    folder = classes(SOURCE)
    command = [java(version), *options, "-Xmx64m", "-cp", str(folder), "com.acme.Moves"]
    environment = os.environ | {"LAMBDA_TASK_ROOT": str(folder), "_HANDLER": "com.acme.Moves::handle"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            yield child.pid
        finally:
            child.kill()


def seen(pid: int, reads: int = READS) -> set[tuple[tuple[str, int], ...]]:
    """What was read of its threads: own methods with their lines, the innermost first."""
    stacks = stacks_of(f"/proc/{pid}")
    assert stacks is not None
    found = set()
    for _ in range(reads):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            frames = stacks.frames(f"/proc/{pid}/mem", int(thread.name))
            own = [each for each in frames if each.function.startswith("com.acme.")]
            if not own:
                continue
            assert {each.file for each in own} == {f"{stacks.root}/com/acme/Moves.java"}
            found.add(tuple((each.function.rpartition(".")[2], each.line) for each in own))
    return found


@pytest.mark.parametrize(
    "options",
    [("-Xint",), ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"), ("-XX:-TieredCompilation",), ("-XX:+UseParallelGC",)],
    ids=["interpreted", "C1", "C2", "mixed"],
)
def test_a_stack_that_moves_is_read_as_it_was_or_not(version: str, options: tuple[str, ...]) -> None:
    with moves(version, *options) as pid:
        found = seen(pid)
    assert found & {tuple(chain) for chain in CHAINS}
    for innermost, *callers in found:
        assert any([innermost, *callers] == chain or callers == chain[len(chain) - len(callers) :] for chain in CHAINS)


def test_a_program_without_a_jvm_has_none() -> None:
    assert stacks_of("/proc/self") is None
    assert stacks_of("/proc/0") is None


def test_a_process_that_has_ended_has_no_stack(version: str) -> None:
    with moves(version) as pid:
        stacks = stacks_of(f"/proc/{pid}")
        thread = max(int(each.name) for each in Path(f"/proc/{pid}/task").iterdir())
    assert stacks is not None
    assert stacks.frames(f"/proc/{pid}/mem", thread) == []


def test_another_process_in_its_place_has_no_stack(version: str) -> None:
    with moves(version) as pid, subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        stacks = stacks_of(f"/proc/{pid}")
        assert stacks is not None
        assert stacks.frames(f"/proc/{other.pid}/mem", other.pid) == []
        other.kill()


@given(st.integers(0, 2**64 - 1))
def test_what_is_no_library_has_no_layout(base: int) -> None:
    memory = os.open("/proc/self/mem", os.O_RDONLY)
    try:
        with pytest.raises((OSError, ValueError, OverflowError, KeyError)):
            JavaStacks(memory, base, OwnClasses("/var/task", ""))
    finally:
        os.close(memory)


@pytest.mark.parametrize(
    ("klass", "is_own"),
    [
        ("com/acme/orders/Orders", True),
        ("com/acme/orders/deep/Order$Line", True),
        ("com/acme/shared/Store", True),
        ("com/fasterxml/jackson/core/Json", False),
        ("com/other/InAJar", False),
        ("java/util/ArrayList", False),
        ("Top", True),
        ("../../etc/passwd", False),
        ("a\0b", False),
    ],
)
def test_own_classes_are_files_that_no_library_brought(klass: str, is_own: bool, tmp_path: Path) -> None:
    for name in ("com/acme/shared/Store", "com/fasterxml/jackson/core/Json", "Top", "java/util/ArrayList"):
        path = tmp_path / f"{name}.class"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "META-INF/maven/com.fasterxml.jackson").mkdir(parents=True)
    assert OwnClasses(str(tmp_path), "com.acme.orders.Orders::handle").has(klass) is is_own


@pytest.mark.parametrize("handler", ["org.springframework.cloud.Invoker::handle", "Handler", "bootstrap", ""])
def test_a_frameworks_handler_makes_none_its_own(handler: str) -> None:
    own = OwnClasses("/nowhere", handler)
    assert not own.has("org/springframework/cloud/Invoker")
    assert not own.has("com/acme/Orders")


def compressed(value: int, excluded: int) -> bytes:
    """As HotSpot writes a number: digits of 6 bits, of which all but the last are 192 at least."""
    digits: list[int] = []
    while value >= 192 - excluded and len(digits) < 4:
        value -= 192 - excluded
        digits.append(value % 64 + 192)
        value //= 64
    return bytes([*digits, value + excluded])


def signed(value: int, excluded: int) -> bytes:
    return compressed(-2 * value - 1 if value < 0 else 2 * value, excluded)


@given(st.lists(st.integers(0, 2**24), max_size=20), st.integers(0, 1))
def test_numbers_are_read_as_they_were_written(values: list[int], excluded: int) -> None:
    data = b"".join(compressed(value, excluded) for value in values)
    assert Numbers(data, 0, excluded).take(len(values)) == values


@given(st.lists(st.integers(-(2**20), 2**20), max_size=20), st.integers(0, 1))
def test_signs_are_read_as_they_were_written(values: list[int], excluded: int) -> None:
    numbers = Numbers(b"".join(signed(value, excluded) for value in values), 0, excluded)
    assert [numbers.signed() for _ in values] == values


def table_of(pairs: Sequence[tuple[int, int]], excluded: int) -> bytes:
    """As HotSpot writes a table of lines (CompressedLineNumberWriteStream)."""
    data, at, line = b"", 0, 0
    for next_at, next_line in pairs:
        ahead, down = next_at - at, next_line - line
        is_short = 0 <= ahead < 32 and 0 <= down < 8 and (ahead, down) not in ((0, 0), (31, 7))
        data += bytes([ahead << 3 | down]) if is_short else b"\xff" + signed(ahead, excluded) + signed(down, excluded)
        at, line = next_at, next_line
    return data + b"\0"


@given(
    st.dictionaries(st.integers(0, 60_000), st.integers(1, 60_000), min_size=1, max_size=30),
    st.integers(0, 65_535),
    st.integers(0, 1),
)
def test_lines_are_those_of_the_table(lines: dict[int, int], index: int, excluded: int) -> None:
    pairs = sorted(lines.items())
    before = [line for at, line in pairs if at <= index]
    table = table_of(pairs, excluded)
    assert line_of(table + b"\x99 what follows", index, excluded) == (before[-1] if before else 0)
    for at, line in pairs:
        assert line_of(table, at, excluded) == line


@given(st.binary(max_size=60), st.integers(-1, 70_000), st.integers(0, 1))
def test_a_table_of_anything_ends(table: bytes, index: int, excluded: int) -> None:
    assert isinstance(line_of(table, index, excluded), int)
