"""What is in the zips, and how they are made."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

from layer.__main__ import EXECUTABLES, default_cache
from layer.executable import SIDECAR_FOLDER, built_in
from layer.imports import STAND_INS
from layer.pins import ARCHITECTURES, PYTHON
from layer.toolchain import Toolchain
from tests.layer.built import MACHINES, ROOT, Layer, machine, script

OF_LINES = (
    "__init__",
    "containers",
    "kinds",
    "looks",
    "objects",
    "profile",
    "request",
    "rising",
    "users",
    "values",
    "watch",
)
LINES = (
    *(f"python/truemem_lines/{name}.py" for name in OF_LINES),
    *(f"truemem/{name}.cjs" for name in ("keeping_line", "lines", "maps", "source")),
)
LOADERS = tuple(f"truemem/python/{name}.py" for name in ("sitecustomize", "truemem_preload", "usercustomize"))
FILES = ("python/truemem_heap.py", *LOADERS, "truemem/heap.cjs", *LINES, "truemem/cloudwatch.yaml")
ZIP_LIMIT, UNPACKED_LIMIT = 1_750_000, 7_700_000
"""CPython takes memory by the MiB: of the last one in the image hardly more than zeros is used."""
WRAPPER_LIMIT = 20_000
"""It is read, started and gone before each runtime."""


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_zip_holds_executables_files_and_notices(dist: Path, architecture: str) -> None:
    archive = dist / f"truemem-layer-{architecture}.zip"
    with zipfile.ZipFile(archive) as layer:
        entries = {entry.filename: entry for entry in layer.infolist()}
        notices = {name: layer.read(name).decode() for name in entries if name.startswith("licenses/")}
        files = {name: layer.read(name) for name in FILES}
    assert entries.keys() == {*EXECUTABLES, *FILES, *notices}
    assert files == {name: (ROOT / "layer" / name).read_bytes() for name in FILES}
    assert {entries[name].external_attr >> 16 for name in FILES} == {0o100644}
    assert {entries[name].external_attr >> 16 for name in EXECUTABLES} == {0o100755}
    assert notices["licenses/truemem/truemem-LICENSE.txt"] == (ROOT / "LICENSE").read_text()
    assert "PYTHON SOFTWARE FOUNDATION LICENSE" in notices["licenses/truemem/CPython-LICENSE.txt"]
    assert "musl as a whole is licensed under" in notices["licenses/truemem/musl-COPYRIGHT.txt"]
    assert "Jukka Lehtosalo" in notices["licenses/truemem/mypy-LICENSE.txt"]
    assert all(text.strip() for text in notices.values())


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_it_is_small(dist: Path, architecture: str) -> None:
    archive = dist / f"truemem-layer-{architecture}.zip"
    with zipfile.ZipFile(archive) as layer:
        unpacked = sum(entry.file_size for entry in layer.infolist())
        wrapper = layer.getinfo("truemem/exact").file_size
    assert archive.stat().st_size <= ZIP_LIMIT
    assert unpacked <= UNPACKED_LIMIT
    assert wrapper <= WRAPPER_LIMIT


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_sampler_asks_for_no_newer_glibc(dist: Path, architecture: str) -> None:
    with (dist / f"malloc_sampler-{architecture}.so").open("rb") as file:
        elf = ELFFile(file)
        dynamic, wanted = (elf.get_section_by_name(name) for name in (".dynamic", ".gnu.version_r"))
        assert isinstance(dynamic, DynamicSection)
        assert isinstance(wanted, GNUVerNeedSection)
        needed = {each.needed for each in dynamic.iter_tags("DT_NEEDED")}  # type: ignore[attr-defined]
        versions = {version.name for _, found in wanted.iter_versions() for version in found}
    assert elf.get_machine_arch() == {"x86_64": "x64", "arm64": "AArch64"}[architecture]
    assert needed <= {"libc.so.6", "libdl.so.2", "libpthread.so.0"}
    assert {name for name in versions if tuple(map(int, name[6:].split("."))) > (2, 17)} == set()


@pytest.mark.parametrize("name", EXECUTABLES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_it_is_static(layers: dict[str, Layer], architecture: str, name: str) -> None:
    path = layers[architecture].folder / name
    with path.open("rb") as file:
        kinds = {segment["p_type"] for segment in ELFFile(file).iter_segments()}
    assert machine(path) == MACHINES[architecture]
    assert "PT_LOAD" in kinds
    assert not kinds & {"PT_INTERP", "PT_DYNAMIC"}


def check(layer: Layer) -> tuple[str, set[str]]:
    """What `--check` says: the versions, and the modules."""
    done = subprocess.run([layer.executable, "--check"], capture_output=True, text=True, check=True)
    head, _, modules = done.stdout.partition(": ")
    return head, set(modules.split())


def test_every_module_of_ours_is_in_it(native: Layer) -> None:
    head, modules = check(native)
    assert re.fullmatch(rf"truemem [0-9.]+, CPython {re.escape(PYTHON)}, x86_64", head)
    paths = [path.relative_to(SIDECAR_FOLDER.parent).with_suffix("") for path in SIDECAR_FOLDER.rglob("*.py")]
    ours = {".".join(path.parts).removesuffix(".__init__") for path in paths}
    assert {name for name in modules if name.startswith("truemem")} == ours


def test_without_an_environment_it_ends_with_one_line(native: Layer) -> None:
    done = subprocess.run([native.executable], env={}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        "truemem ERROR AWS_LAMBDA_RUNTIME_API is not host:port; this runs as a Lambda extension"
    ]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_it_has_no_path_of_the_machine_that_built_it(layers: dict[str, Layer], architecture: str) -> None:
    content = layers[architecture].executable.read_bytes()
    assert str(default_cache()).encode() not in content
    assert b"compiling-" not in content


def test_of_the_standard_library_hardly_anything_is(native: Layer) -> None:
    """Each is memory, or may become it. Say here why, before adding to it."""
    _, modules = check(native)
    standard = {name for name in modules if not name.startswith("truemem")}
    assert standard == {path.stem for path in STAND_INS.glob("*.py")} | {*built_in(), "_frozen_importlib", "__main__"}


NO_DOWNLOAD = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull}


def not_built(*arguments: str | Path, output: Path, **variables: str) -> str:
    """The one line that says why. Nothing is left of a build that fails."""
    command: list[str | Path] = [sys.executable, "-m", "layer", "--output", output, *arguments]
    environment = {**os.environ, **variables}
    made = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert made.returncode == 1
    assert "Traceback" not in made.stderr
    assert list(output.glob("*.zip")) == []
    return made.stderr.splitlines()[-1]


def test_a_compiler_that_cannot_be_had_is_one_clear_line(tmp_path: Path) -> None:
    said = not_built("--cache", tmp_path / "cache", output=tmp_path, **NO_DOWNLOAD)
    assert said.startswith("layer not built: the compiler cannot be installed")


def test_another_compiler_than_the_pinned_one_is_one_clear_line(tmp_path: Path) -> None:
    about = "ziglang-0.15.2.dist-info"
    with zipfile.ZipFile(tmp_path / "ziglang-0.15.2-py3-none-any.whl", "w") as wheel:
        wheel.writestr("ziglang/zig", "#!/bin/sh\n")
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: ziglang\nVersion: 0.15.2\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")
    variables = {**NO_DOWNLOAD, "PIP_FIND_LINKS": str(tmp_path)}
    said = not_built("--cache", tmp_path / "cache", output=tmp_path, **variables)
    assert "DO NOT MATCH THE HASHES" in said


@pytest.mark.nightly
def test_source_that_does_not_compile_is_one_clear_line(tmp_path: Path) -> None:
    """A compiler that fails, as a broken download of it would."""
    toolchain = Toolchain(default_cache(), print)
    script(tmp_path / toolchain.zig.parents[1].name / "ziglang", "exit 1", "zig")
    tarball = default_cache() / f"Python-{PYTHON}.tar.xz"
    said = not_built("--cache", tmp_path, "--source", tarball, output=tmp_path)
    assert said.startswith("layer not built: configure of CPython failed (")
    assert list(tmp_path.glob("cpython-*")) == []


# Two builds


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_a_second_build_from_nothing_gives_the_same_zips(dist: Path, tmp_path: Path) -> None:
    """From nothing but the download: compiler unpacked anew, its cache empty, CPython configured and compiled."""
    tarball = default_cache() / f"Python-{PYTHON}.tar.xz"
    command: list[str | Path] = [sys.executable, "-m", "layer", "--source", tarball]
    subprocess.run([*command, "--cache", tmp_path / "cache", "--output", tmp_path / "dist"], cwd=ROOT, check=True)
    for name in (name for each in ARCHITECTURES for name in (f"truemem-layer-{each}.zip", f"malloc_sampler-{each}.so")):
        assert (tmp_path / "dist" / name).read_bytes() == (dist / name).read_bytes()
