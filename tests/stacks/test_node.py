"""Stacks of real processes of Node.js, read from outside: what they run, or nothing."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.stacks import v8
from truemem.stacks.node import NodeStacks, parse
from truemem.stacks.python import Frame

from testing import installs

FUNCTIONS = Path(__file__).with_name("functions")
BUSY = FUNCTIONS / "busy.cjs"
VERSIONS = {"20": b"11.3", "22": b"12.4", "24": b"13.6"}
"""Versions of Node.js, with the V8 of each."""
WAIT = "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 60_000)"


def program(version: str) -> str:
    try:
        return str(installs.node(version))
    except installs.Missing as reason:
        pytest.skip(str(reason))


@contextmanager
def process(command: Sequence[str], v8_version: bytes = b"13.6") -> Iterator[tuple[int, NodeStacks]]:
    """A process once it has printed a line, and some 0.2 s later."""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            time.sleep(0.2)
            stacks = parse(b"truemem-stacks-node-1 %s %d /var/task\n" % (v8_version, child.pid))
            assert stacks is not None
            yield child.pid, stacks
        finally:
            child.kill()


def frames(stacks: NodeStacks, pid: int) -> list[Frame]:
    return stacks.frames(f"/proc/{pid}/mem", pid)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("comment", ["", "// ключ 鍵"], ids=["one byte", "two bytes"])
def test_the_stack_is_that_of_v8(version: str, newline: str, comment: str, tmp_path: Path) -> None:
    lines = [
        '"use strict";',
        "class Orders {" + comment,
        "  get first() {",
        '    console.log("ready");',
        f"    return {WAIT};",
        "  }",
        "}",
        "function* numbers() {",
        '  yield "a".replace(/a/, (found) =>',
        "    new Orders().first);",
        "}",
        "async function main() {",
        "  await null;",
        "  const all = [1].map(function each() {",
        "    return [...numbers()];",
        "  });",
        "  return all;",
        "}",
        "main();",
    ]
    file = tmp_path / "main.cjs"
    file.write_text(newline.join(lines), newline="")
    with process([program(version), str(file)], VERSIONS[version]) as (pid, stacks):
        found = [(frame.line, frame.function) for frame in frames(stacks, pid) if frame.file == str(file)]
    getter = "get first" if found[0][1].startswith("get ") else "first"
    assert found == [(5, getter), (10, "<anonymous>"), (9, "numbers"), (15, "each"), (14, "main")]


def test_a_module_has_the_path_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "main.mjs"
    file.write_text(f'console.log("ready");\n{WAIT};\n')
    with process([program("24"), str(file)]) as (pid, stacks):
        assert (str(file), 2) in [frame[:2] for frame in frames(stacks, pid)]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_stack_that_moves_is_read_as_it_was_or_not_at_all(version: str) -> None:
    marks = {number: line.rpartition("// ")[2].split() for number, line in enumerate(BUSY.read_text().split("\n"), 1)}
    seen = set()
    with process([program(version), str(BUSY)], VERSIONS[version]) as (pid, stacks):
        for _ in range(5000):
            innermost = True
            for frame in frames(stacks, pid):
                if frame.file == str(BUSY) and frame.line:
                    assert "calls" in marks[frame.line] or (innermost and "takes" in marks[frame.line])
                    seen.add(frame.function)
                innermost = innermost and frame.file not in ("", str(BUSY))
    assert len(seen) > 1


@pytest.mark.parametrize("other", sorted(set(VERSIONS.values()) - {b"13.6"}))
def test_the_layout_of_another_version_has_no_line(other: bytes) -> None:
    with process([program("24"), str(BUSY)], other) as (pid, stacks):
        assert not any(frame.line for _ in range(500) for frame in frames(stacks, pid))


def test_another_program_has_no_stack() -> None:
    with process(["sh", "-c", "echo ready; sleep 60"]) as (pid, stacks):
        assert frames(stacks, pid) == []


def test_another_thread_and_an_ended_process_have_no_stack() -> None:
    with process([program("24"), str(BUSY)]) as (pid, stacks):
        assert stacks.frames(f"/proc/{pid}/mem", pid + 1) == []
        os.kill(pid, 9)
        time.sleep(0.2)
        assert frames(stacks, pid) == []


@given(st.binary(max_size=300) | st.binary(max_size=200).map(lambda text: b"truemem-stacks-node-1 13.6 1,2 " + text))
def test_a_page_of_anything_is_understood_or_not(page: bytes) -> None:
    stacks = parse(page)
    assert stacks is None or stacks.frames("/proc/1/nowhere", 1) == []


def test_a_page_says_which_threads_are_v8s() -> None:
    stacks = parse(b"truemem-stacks-node-1 13.6 7,8,9 /var/task/\nrest")
    assert stacks is not None
    assert (sorted(stacks.threads), stacks.root) == ([7, 8, 9], "/var/task")


def unsigned(value: int) -> bytes:
    low = value & 127
    return bytes([low | 128]) + unsigned(value >> 7) if value >> 7 else bytes([low])


def signed(value: int) -> bytes:
    return unsigned(value << 1 if value >= 0 else (-value << 1) - 1)


STEPS = st.lists(st.tuples(st.integers(1, 500), st.integers(0, 1 << 20), st.booleans()), max_size=20)


@given(STEPS, st.integers(0, 12_000))
def test_a_position_is_that_of_the_entry_before(steps: list[tuple[int, int, bool]], at: int) -> None:
    table, code, before, entries = b"", -1, 0, [(0, -1)]
    for step, said, is_statement in steps:
        code += step
        table += signed(step if is_statement else -step - 1) + signed(said - before)
        before = said
        entries.append((said, code))
    assert v8.position(table, at) == [entry for entry in entries if entry[1] <= at][-1]


@given(st.sampled_from(sorted(v8.LAYOUTS)), st.lists(st.tuples(st.integers(4, 190), st.integers(0, 2)), max_size=20))
def test_code_of_sparkplug_has_the_bytecode_it_is_of(version: bytes, wanted: list[tuple[int, int]]) -> None:
    layout = v8.LAYOUTS[version]
    bytecodes, table, ends, code = b"", unsigned(30), [(30, -1)], 30
    for which, scale in wanted:
        size, wide = int(layout.sizes[which], 16), int(layout.wide[which], 16)
        length = (size, wide, 3 * wide - 2 * size)[scale]
        offset = len(bytecodes)
        bytecodes += (b"", b"\0", b"\1")[scale] + bytes([which]) + bytes(length - 1)
        table += unsigned(10 + which)
        code += 10 + which
        ends.append((code, offset))
    for at in range(0, code, 7):
        assert v8.bytecode_at(table, bytecodes, layout, at) == next(offset for end, offset in ends if end > at)
    assert v8.bytecode_at(table, bytecodes, layout, code) == -1


@given(st.binary(max_size=80), st.binary(max_size=80), st.integers(-5, 3000))
def test_tables_of_anything_end(table: bytes, bytecodes: bytes, at: int) -> None:
    said, _ = v8.position(table, at)
    assert v8.script_offset(said) >= -1
    assert v8.bytecode_at(table, bytecodes, v8.LAYOUTS[b"13.6"], at) < max(1, len(bytecodes))
    assert v8.can_deoptimize(table, at) in (None, False, True)


@given(st.lists(st.tuples(st.integers(0, 60_000), st.booleans()), max_size=12, unique_by=lambda each: each[0]))
def test_a_call_has_a_state_where_the_table_says_so(calls: list[tuple[int, bool]]) -> None:
    entries = b"".join(at.to_bytes(2, "little") + bytes([has_state]) + b"\0\0" for at, has_state in calls)
    flags = 1 | 2 << 4 | 1 << 7
    table = len(calls).to_bytes(4, "little") + flags.to_bytes(4, "little") + entries
    assert {at: v8.can_deoptimize(table, at) for at, _ in calls} == dict(calls)
    assert v8.can_deoptimize(table, 60_001) is None
