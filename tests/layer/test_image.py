"""The executable is an image of a process that has imported everything: what is taken over, and what must not be."""

import subprocess
import sys
from pathlib import Path

import pytest

from layer import image
from layer.__main__ import default_cache
from layer.emulator import emulator
from layer.errors import BuildError
from layer.pins import ARCHITECTURES
from layer.toolchain import Toolchain
from tests.layer.built import ROOT, script

PROGRAM = """
#include <stdio.h>
extern char _end[];
char text[] = "as it was linked", saved[] = "?";
int main(void) { printf("%s%s", text, saved[0] == '!' ? _end : ""); }
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A static executable with data."""
    toolchain = Toolchain(default_cache(), print)
    (tmp_path / "program.c").write_text(PROGRAM)
    command = [toolchain.compiler("x86_64"), "-static", "-s", "-g0", "program.c", "-o", "program"]
    subprocess.run(command, cwd=tmp_path, env=toolchain.environment(), check=True)
    return tmp_path / "program"


def data(program: bytes) -> bytes:
    """Its data segment as a process has it at its start."""
    (segment,) = image.writable(program)
    stored = image.SEGMENT.unpack_from(program, segment.at)[5]
    return program[segment.offset :][:stored].ljust(segment.memory_size, b"\0")


def test_a_program_starts_with_the_memory_that_it_is_given(program: Path) -> None:
    linked = program.read_bytes()
    assert subprocess.check_output([program]) == b"as it was linked"
    memory = data(linked).replace(b"as it was linked", b"as it was saved\0").replace(b"?\0", b"!\0")
    program.write_bytes(image.with_memory(linked, memory + b", and more\0"))
    assert subprocess.check_output([program]) == b"as it was saved, and more"


def test_less_memory_than_the_program_has_is_refused(program: Path) -> None:
    linked = program.read_bytes()
    with pytest.raises(BuildError, match="smaller"):
        image.with_memory(linked, data(linked)[:-1])


def made_by(tmp_path: Path, text: str) -> bytes:
    return image.memory([script(tmp_path, text)], b"the modules")


def test_what_differs_from_process_to_process_is_not_kept(tmp_path: Path) -> None:
    """An identity, here of 8 bytes after 16 others."""
    text = "printf 'the same always.%8d' $$; cat"
    assert made_by(tmp_path, text) == b"the same always." + bytes(8) + b"the modules"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("head -c 8192 /dev/urandom", "differ in 10"),
        ("echo again >> $0.runs; cat $0.runs", "differ in size"),
        ("echo 'no room' >&2; exit 1", "truemem does not make its image (1): no room"),
    ],
)
def test_a_process_that_is_another_each_time_makes_no_image(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(BuildError) as refused:
        made_by(tmp_path, text)
    assert why in str(refused.value)


def test_an_emulator_that_cannot_be_had_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}")
    with pytest.raises(BuildError, match=r"qemu-aarch64 is not here, .*: install the package qemu-user-static"):
        emulator("aarch64", tmp_path, print)


@pytest.mark.nightly
def test_the_image_is_the_same_whoever_makes_it(dist: Path, tmp_path: Path) -> None:
    """Another environment, folder and stack."""
    command = (
        f"ulimit -s unlimited; cd /; LC_ALL=C.UTF-8 TZ=Asia/Tokyo exec {sys.executable} -m layer --output {tmp_path}"
    )
    subprocess.run(["sh", "-c", command], env={"PYTHONPATH": f"{ROOT}", "HOME": f"{Path.home()}"}, check=True)
    for architecture in ARCHITECTURES:
        name = f"truemem-layer-{architecture}.zip"
        assert (tmp_path / name).read_bytes() == (dist / name).read_bytes()
