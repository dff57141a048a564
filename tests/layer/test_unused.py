"""What is left out of the executable: names that nothing has, functions that nothing calls."""

import subprocess
from pathlib import Path

import pytest

from layer import compiled, cpython, executable, image, unused
from layer.__main__ import default_cache
from layer.errors import BuildError
from layer.toolchain import Toolchain
from tests.layer.built import Layer
from tests.layer.test_image import data

PROGRAM = """
#include <stdio.h>
#define NOINLINE __attribute__((noinline))
NOINLINE int started(int at) { puts("started"); return at; }
NOINLINE int initialise(int at) { return started(at) + 1; }
NOINLINE int write_image(int at) { return started(at) + 2; }
NOINLINE int PyMarshal_ReadObjectFromString(int at) { return puts("a module") + at; }
NOINLINE int called(int at) { switch (at) { case 1: return puts("one"); case 2: return puts("two");
    case 3: return puts("three"); case 4: return puts("four"); default: return 0; } }
NOINLINE int of_memory(int at) { return puts("of memory") + at; }
NOINLINE int of_constant(int at) { return puts("of a constant") + at; }
NOINLINE int replaced(int at) { return puts("replaced") + at; }
int (*volatile held)(int) = of_memory, (*volatile other)(int) = replaced;
int (*const volatile constant)(int) = of_constant;
volatile int is_image;
int main(int count, char **arguments) {
    if (!is_image)
        initialise(count);
    if (count > 9)
        write_image(PyMarshal_ReadObjectFromString(count));
    return called(count) + held(count) + constant(count) + (count > 9 ? other(count) : 0) < 0;
}
"""
IS_IMAGE = (1).to_bytes(4, "little")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    toolchain = Toolchain(default_cache(), print)
    (folder / "program.c").write_text(PROGRAM)
    (folder / "called.txt").write_text("of_constant main\nno_such_function")
    flags = ["-static", "-v", "-O2", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections", "program.c"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executable, "CALLED", folder / "called.txt")
        return executable.linked(toolchain, "x86_64", [toolchain.compiler("x86_64"), *flags], folder)


def address(program: Path, name: str) -> int:
    symbols = subprocess.check_output(["nm", program], text=True).splitlines()
    return next(int(line.split()[0], 16) for line in symbols if line.endswith(f" {name}"))


def test_functions_that_are_called_are_side_by_side(program: Path) -> None:
    ours = ("main", "called", "of_constant", "of_memory", "initialise", "started")
    assert sorted(ours, key=lambda name: address(program, name))[:2] == ["of_constant", "main"]


def test_a_function_that_nothing_refers_to_is_zeros(program: Path) -> None:
    linked, sections = program.read_bytes(), executable.sections(program).read_text()
    memory = bytearray(data(linked))
    (segment,) = image.writable(linked)
    for name, content in (("is_image", IS_IMAGE), ("other", bytes(8))):
        at = address(program, name) - segment.address
        memory[at : at + len(content)] = content
    without = unused.without_unreached(linked, sections, bytes(memory))
    program.with_name("image").write_bytes(image.with_memory(without, bytes(memory)))
    program.with_name("image").chmod(0o755)
    assert subprocess.check_output([program.with_name("image"), "2"]) == b"two\nof memory\nof a constant\n"
    (code,) = [each for each in image.loaded(linked) if each.flags & image.PF_X]

    def first(name: str) -> int:
        return without[address(program, name) - code.address + code.offset]

    gone = {"started", "initialise", "write_image", "PyMarshal_ReadObjectFromString", "replaced"}
    kept = {"main", "called", "of_memory", "of_constant"}
    assert {name for name in gone | kept if first(name) == 0} == gone


def test_what_has_been_called_is_in_the_layer(native: Layer, tmp_path: Path) -> None:
    toolchain = Toolchain(default_cache(), print)
    build = cpython.build(default_cache(), toolchain, print)
    library = compiled.library(default_cache(), build, toolchain, cpython.NATIVE, executable.SIDECAR_FOLDER)
    program = executable.program(build, toolchain, cpython.NATIVE, tmp_path, library)
    code = unused.Code(program.read_bytes(), executable.sections(program).read_text())
    content, at = native.executable.read_bytes(), code.segment.offset - code.segment.address
    called = set(executable.CALLED.read_text().split())
    named = [(address, name) for address, name in code.functions if name in called]
    found = {name for address, name in named if any(content[address + at : address + at + 8])}
    assert len(found) > 1000
    assert {name for _, name in named} - found == set()  # static functions of several files may have one name


def test_a_program_without_the_functions_is_refused(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unused, "ONLY_BEFORE", ("initialise", "no_such_function"))
    linked, sections = program.read_bytes(), executable.sections(program).read_text()
    with pytest.raises(BuildError, match="no_such_function"):
        unused.without_unreached(linked, sections, data(linked))


def test_each_name_of_a_source_counts() -> None:
    source = b"""
import one.two as three
class Four(five, six=seven):
    __slots__ = ("eight",)
    nine: ten = eleven.twelve
    def thirteen(self, fourteen): global fifteen; return getattr(self, f"{sixteen!r} seventeen")
"""
    numbers = "one two three five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    assert unused.named([source]) == {*numbers.split(), "Four", "self", "getattr"}


def test_what_c_asks_for_by_name_counts() -> None:
    source = """
    PyObject_GetAttr(module, &_Py_ID(one)); PyObject_CallMethod(stream, "two", "s", "text");
    PyObject_GetAttrString(other,
                           "three"); static PyMethodDef methods[] = {{"four", four, METH_NOARGS, NULL}};
    """
    assert unused.looked_up([source]) == {"one", "two", "three"}
