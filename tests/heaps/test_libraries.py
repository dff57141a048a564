"""The libraries of one file for functions in Ruby, PHP and .NET (libraries/), under the local Lambda."""

import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from truemem_workbench.local import Function

from testing import installs
from testing.dotnet import built
from testing.environment import Environment, Record
from tests.local.conftest import executable

ROOT = Path(__file__).parents[2]
LIBRARIES = {"ruby": "truemem.rb", "php": "Truemem.php"}
PROGRAMS: dict[str, Callable[[], list[str]]] = {"ruby": installs.ruby, "php": installs.php}
FUNCTIONS = Path(__file__).with_name("functions")


def program(language: str) -> list[str]:
    try:
        return PROGRAMS[language]()
    except installs.Missing as missing:
        pytest.skip(str(missing))


@contextmanager
def unpacked(language: str) -> Iterator[Path]:
    """The function with the library beside it. Not in pytest's folder: the function's user cannot read that."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        shutil.copytree(FUNCTIONS / language, folder, dirs_exist_ok=True)
        shutil.copy(ROOT / "libraries" / language / LIBRARIES[language], folder)
        yield folder


def records(language: str, *steps: tuple[str, float], **variables: str) -> list[Record]:
    command = program(language)
    with unpacked(language) as folder:
        (main,) = folder.glob("main.*")
        executable(folder / "bootstrap", f"#!/bin/sh\nexec {shlex.join([*command, str(main)])}\n")
        function = Function.from_spec(str(folder / "bootstrap"))
        with Environment(function, environment=variables, memory_mib=512) as running:
            for do, mib in (*steps, ("nothing", 0)):
                running.invoke(do, mib=mib)
            return running.records()[:-1]


def test_ruby_has_objects_and_their_mallocs_on_its_line() -> None:
    steps = [("collect", 0.0), *[("leak", 1.0)] * 30, *[("nothing", 0.0)] * 32, ("garbage", 1.0), ("nothing", 0.0)]
    told = [record.heap for record in records("ruby", *steps)]
    known = [heap for heap in told if heap]  # malloc is not asked each time
    assert {heap["runtime"] for heap in known} == {"ruby"}
    for heap in known:
        assert heap["used"] <= heap["committed"]
    kept = told[63]["kept"]  # of the 64th: settled
    assert kept - known[0]["live"] == pytest.approx(30 * (1000 + 40 + 24) / 1024, rel=0.1)  # a slot, and malloc's block
    assert told[63]["garbage"] >= 0
    assert not any("kept" in (heap or {}) for heap in (*told[:63], *told[64:]))


def test_ruby_asks_glibcs_malloc_and_no_other() -> None:
    asked = "require 'truemem'; kept = Array.new(20_000) { 'x' * 1000 }; p Truemem.send(:malloc)&.first"
    with unpacked("ruby") as folder:
        command = [*program("ruby"), "-I", str(folder), "-e", asked]
        own = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert 20 < int(own) / 2**20 < 40
        try:
            library = next((installs.debian_package("libjemalloc2") / "usr" / "lib").glob("*/libjemalloc.so.2"))
        except installs.Missing as missing:
            pytest.skip(str(missing))
        others = ["env", f"LD_PRELOAD={library}", *command]
        assert subprocess.run(others, capture_output=True, text=True, check=True).stdout == "nil\n"


def test_php_has_what_zend_holds_on_its_line() -> None:
    steps = (("nothing", 0.0), ("leak", 30.0), ("cycles", 10.0), ("nothing", 0.0))
    before, leak, cycles, after = (record.heap for record in records("php", *steps))
    for heap in (before, leak, cycles, after):
        assert (heap["runtime"], heap["limit"]) == ("php", 128)
        assert heap["live"] == heap["used"] <= heap["committed"]
    assert leak["used"] - before["used"] == pytest.approx(38, abs=1)  # 1,280 bytes for each string
    assert cycles["used"] == pytest.approx(leak["used"], abs=0.5)
    assert [heap["collections"] for heap in (before, leak, cycles, after)] == [1, 2, 3, 4]


def test_phps_page_goes_on_where_each_request_begins_anew() -> None:
    """As under FPM."""
    asked = "require 'Truemem.php'; Truemem::note('one'); $begun = new ReflectionClass('Truemem');"
    asked += "$begun->setStaticPropertyValue('file', null); $begun->setStaticPropertyValue('number', 0);"
    asked += "Truemem::note('two'); echo getmypid();"
    with unpacked("php") as folder, tempfile.TemporaryDirectory(dir="/tmp") as tmp:
        variables = {"AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9", "TMPDIR": tmp}
        command = [*program("php"), "-r", asked]
        done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=True)
        page = Path(tmp, f".truemem-heap-{done.stdout}").read_text(encoding="latin-1")
    assert re.findall(r"truemem-heap-3 (\d) (\w+) ", page) == [("1", "one"), ("2", "two")]


@pytest.mark.nightly
def test_dotnet_has_what_it_keeps_on_its_line(tmp_path: Path) -> None:
    """By .NET Core 3.1: what only later ones say is not tried here."""
    sources = [ROOT / "libraries" / "dotnet" / "Truemem.cs", FUNCTIONS / "dotnet" / "main.cs"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        try:
            command = built(folder, *sources)
        except installs.Missing as missing:
            pytest.skip(str(missing))
        executable(folder / "bootstrap", f"#!/bin/sh\nexec {shlex.join(command)}\n")
        steps = [("leak", 1.0)] * 30 + [("empty", 0.0)] + [("garbage", 1.0)] * 34
        with Environment(Function.from_spec(str(folder / "bootstrap")), memory_mib=512) as running:
            for do, mib in steps:
                running.invoke(do, mib=mib)
            told = [record.heap for record in running.records()[:-1]]
    known = [heap for heap in told if heap]
    assert len(known) >= len(told) - 1  # but that of the page that was removed
    for heap in known:
        assert heap["runtime"] == "dotnet"
        assert heap["used"] <= heap["committed"]
    assert told[63]["kept"] == pytest.approx(30, abs=2)
    assert told[63]["garbage"] > 1
    assert told[63]["collections"] > told[62]["collections"]


@pytest.mark.parametrize("language", LIBRARIES)
def test_a_lost_page_is_made_again_and_lambda_is_needed(language: str) -> None:
    _, _, *after = records(language, ("nothing", 0), ("empty", 0), *[("nothing", 0.0)] * 8)
    assert any(record.heap for record in after)  # Ruby does not ask malloc each time
    with unpacked(language) as folder, tempfile.TemporaryDirectory(dir="/tmp") as tmp:
        call = {"ruby": "require './truemem'; Truemem.note('id')", "php": "require 'Truemem.php'; Truemem::note('id');"}
        option = {"ruby": "-e", "php": "-r"}[language]
        command = [*program(language), option, call[language]]
        done = subprocess.run(command, cwd=folder, env={"TMPDIR": tmp}, capture_output=True, text=True, check=True)
        assert (done.stdout, done.stderr) == ("", "")
        assert not list(Path(tmp).iterdir())
