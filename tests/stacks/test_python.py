"""Stacks of real processes of CPython, read from outside: what they run, or nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import time
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.stacks.python import LAYOUTS, PythonStacks, line_of, parse

PROBE = Path(__file__).parents[2] / "layer/python"
SAYS = f"import sys; sys.path.insert(0, {str(PROBE)!r}); import truemem_heap; said = truemem_heap._stacks()\n"
"""It needs no Lambda."""


def interpreter(version: str) -> str | None:
    """A CPython of this version, if there is one: on the path, or pyenv's."""
    if sys.version.startswith(version):
        return sys.executable
    beside = [str(path) for path in Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}")]
    found = [*beside, *filter(None, [shutil.which(f"python{version}")])]
    return next((path for path in found if not subprocess.run([path, "-c", ""], check=False).returncode), None)


@contextmanager
def process(code: str, python: str = sys.executable) -> Iterator[tuple[subprocess.Popen[bytes], PythonStacks | None]]:
    """A process that runs this code, once it has said where its stacks are and has gone on to a line that ends by
    `ready()`."""
    ready = "def ready():\n    sys.stdout.buffer.write(said); sys.stdout.buffer.flush()\n"
    with subprocess.Popen([python, "-c", SAYS + ready + code], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            said = child.stdout.readline()
            time.sleep(0.1)
            yield child, parse(said)
        finally:
            child.kill()


def functions(stacks: PythonStacks | None, pid: int, thread: int = 0) -> list[tuple[str, int]]:
    """Names and lines of what runs, the innermost first."""
    assert stacks is not None
    return [(frame.function, frame.line) for frame in stacks.frames(f"/proc/{pid}/mem", thread or pid)]


CODE = """
import time
class Käse:
    def __init__(self):
        [self.call(n) for n in range(1)]
    def call(self, n):
        sorted([1], key=lambda each: (
            ready(),
            time.sleep(60),
        ))
def numbers():
    yield Käse()
list(numbers())
"""
FIRST = 3
"""Lines before CODE."""


@pytest.mark.parametrize("version", [version.decode() for version in LAYOUTS])
def test_the_stack_is_that_of_the_interpreter(version: str) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"there is no python{version}")
    with process(CODE, python) as (child, stacks):
        found = functions(stacks, child.pid)
    inlined = version == "3.11"  # before PEP 709 a comprehension is a function
    assert found == [
        ("Käse.call.<locals>.<lambda>", FIRST + 9),
        ("Käse.call", FIRST + 7),
        *([("Käse.__init__.<locals>.<listcomp>", FIRST + 5)] if inlined else []),
        ("Käse.__init__", FIRST + 5),
        ("numbers", FIRST + 12),
        ("<module>", FIRST + 13),
    ]


def test_each_thread_has_its_own_stack() -> None:
    code = """
import threading, time
def waits(): time.sleep(60)
threading.Thread(target=waits, daemon=True).start()
def main(): ready(); time.sleep(60)
main()
"""
    with process(code) as (child, stacks):
        threads = sorted(int(path.name) for path in Path(f"/proc/{child.pid}/task").iterdir())
        first, second = (functions(stacks, child.pid, thread) for thread in threads)
        assert functions(stacks, child.pid, 1) == []
    assert [name for name, _ in first] == ["main", "<module>"]
    assert second[0][0] == "waits"


def test_a_child_of_fork_is_read_by_what_its_parent_said() -> None:
    code = """
import os, time
def child(): time.sleep(60)
def main():
    pid = os.fork()
    if not pid: child()
    ready(); os.write(1, b"%d\\n" % pid); os.waitpid(pid, 0)
main()
"""
    with process(code) as (child, stacks):
        assert child.stdout is not None
        pid = int(child.stdout.readline())
        assert [name for name, _ in functions(stacks, pid)] == ["child", "main", "<module>"]
        assert [name for name, _ in functions(stacks, child.pid)] == ["main", "<module>"]
        os.kill(pid, 9)


def test_a_stack_that_moves_is_read_as_it_was_or_not_at_all() -> None:
    code = """
def inner(n): return [n] * 3
def middle(n): return [inner(each) for each in range(n)]
def gen():
    for each in range(9): yield middle(each)
def outer():
    exec("list(gen())")
    return sum(1 for _ in gen())
def main():
    ready()
    while True: outer()
main()
"""
    called = {
        "inner": {"middle", "middle.<locals>.<listcomp>"},
        "middle.<locals>.<listcomp>": {"middle"},
        "middle": {"gen"},
        "gen": {"<module>", "outer", "outer.<locals>.<genexpr>"},
        "outer.<locals>.<genexpr>": {"outer"},
        "outer": {"main"},
        "main": {"<module>"},
        "<module>": {"outer", ""},
    }
    seen = set()
    with process(code) as (child, stacks):
        for _ in range(2000):
            names = [name for name, _ in functions(stacks, child.pid)]
            for name, caller in zip(names, [*names[1:], ""], strict=False):
                assert caller in called[name], names
            seen |= set(names)
    assert seen >= {"outer", "gen", "main"}


def test_another_program_has_no_stack() -> None:
    code = "import os\nready()\nos.execvp('sleep', ['sleep', '60'])"
    with process(code) as (child, stacks):
        assert functions(stacks, child.pid) == []


def test_a_process_that_has_ended_has_no_stack() -> None:
    with process("ready()") as (child, stacks):
        child.wait()
        assert functions(stacks, child.pid) == []


WORDS = st.integers(0, 2**64 - 1)


@given(st.lists(WORDS, min_size=4, max_size=4), st.sampled_from(sorted(LAYOUTS)), st.integers(1, 2**22))
def test_wrong_addresses_have_no_stack(numbers: list[int], version: bytes, thread: int) -> None:
    page = b"truemem-stacks-1 %s %s /var/task\n" % (version, b" ".join(b"%d" % each for each in numbers))
    stacks = parse(page)
    assert stacks is None or stacks.frames(f"/proc/{os.getpid()}/mem", thread) == []


@given(st.binary(max_size=300) | st.binary(max_size=200).map(lambda text: b"truemem-stacks-1 3.11 " + text))
def test_a_page_of_anything_is_understood_or_not(page: bytes) -> None:
    stacks = parse(page)
    assert stacks is None or stacks.frames("/nowhere", 1) == []


def codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from codes(each)


def test_lines_are_those_that_python_has() -> None:
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("[a-f]*.py"))
    compared = 0
    for file in files:
        for code in codes(compile(file.read_bytes(), str(file), "exec")):
            for begin, end, line in code.co_lines():
                assert line_of(code.co_linetable, code.co_firstlineno, begin) == (line or 0)
                assert line_of(code.co_linetable, code.co_firstlineno, end - 2) == (line or 0)
                compared += 1
    assert compared > 10_000


@given(st.binary(max_size=60), st.integers(1, 1000), st.integers(-10, 1000))
def test_a_table_of_anything_ends(table: bytes, first: int, at: int) -> None:
    assert isinstance(line_of(table, first, at), int)
