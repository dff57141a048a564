"""What other allocators hold free is no leak, and hides none: those that LD_PRELOAD names, and pyarrow's pool."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.judge.curves import Curves
from truemem_workbench.judge.growth_causes import ends_holding, holding_repair
from truemem_workbench.judge.settled import Reading
from truemem_workbench.judge.witnesses import Witnesses
from truemem_workbench.runs.settle.allocators import Told, arena_rss_kib, told

from testing.cases import cases, ready
from testing.installs import Missing, debian_package

PROBE = Path(__file__).parents[2] / "layer" / "python"
TRUEMEM = Path(sys.executable).with_name("truemem")
PRELOADED = """
import random
draws, kept = random.Random(1), []
def handler(event, context):
    blocks = [bytes(draws.choice((600, 5000, 40_000, 200_000))) for _ in range(draws.randint(100, 1000))]
    kept.append(bytes({kept})) if {kept} else None
"""
POOL = """
import random
from concurrent.futures import ThreadPoolExecutor
import pyarrow as pa
draws, workers, kept = random.Random(1), ThreadPoolExecutor(4), []
def fill(size):
    pa.allocate_buffer(size)
    return [pa.allocate_buffer(size // 50) for _ in range(50)]
def handler(event, context):
    sum(map(len, workers.map(fill, [draws.randrange(100_000, 4_000_000) for _ in range(draws.randint(1, 8))])))
    kept.append({kept})
"""
NOT_PYARROW = """
import sys, types
sys.modules["pyarrow"] = types.SimpleNamespace(default_memory_pool=lambda: 1 / 0)
kept = []
def handler(event, context):
    kept.append(bytes(8192))
"""


def check(folder: Path, source: str, *options: str) -> dict[str, Any]:
    """The document of `truemem check`."""
    (folder / "app.py").write_text(source)
    command = [str(TRUEMEM), "check", "app.py:handler", "--memory", "1024", "--no-explain", "--json", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def preloaded(name: str, package: str) -> str:
    try:
        return f"LD_PRELOAD={next(debian_package(package).rglob(name))}"
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def with_pyarrow() -> str:
    """An interpreter that has it: that of a case."""
    try:
        arguments = ready(next(each for each in cases() if each.name == "arrow_pool")).arguments
    except Missing as missing:
        pytest.skip(str(missing))
    return str(arguments[arguments.index("--python") + 1])


JEMALLOC = ("libjemalloc.so.2", "libjemalloc2")
MIMALLOC = ("libmimalloc.so.2", "libmimalloc2.0")
TCMALLOC = ("libtcmalloc_minimal.so.4", "libtcmalloc-minimal4")


@pytest.mark.parametrize("library", [TCMALLOC, pytest.param(JEMALLOC, marks=pytest.mark.nightly)])
def test_a_leak_has_its_rate_under_an_allocator(tmp_path: Path, library: tuple[str, str]) -> None:
    """tcmalloc holds 40 MiB free, which the leak could use for 10,000 invocations: RSS does not show it."""
    found = check(tmp_path, PRELOADED.format(kept=8000), "--env", preloaded(*library))["finding"]
    assert found["cause"] == "leak"
    assert found["perInvocationKiB"] == pytest.approx(8.3, rel=0.15)  # it comes in blocks of 8 KiB, and a list grows


def test_what_tcmalloc_holds_is_told_with_its_setting(tmp_path: Path) -> None:
    document = check(tmp_path, PRELOADED.format(kept=0), "--env", preloaded(*TCMALLOC), "--try-repair")
    assert (document["finding"]["cause"], document["finding"]["holder"]) == ("hoarding", "tcmalloc")
    assert document["finding"]["setting"] == {"TCMALLOC_AGGRESSIVE_DECOMMIT": "true"}
    assert document["tried"]["helps"] is True


def test_an_allocator_that_does_not_say_hides_no_leak(tmp_path: Path) -> None:
    preload = preloaded(*MIMALLOC)
    document = check(tmp_path, PRELOADED.format(kept=4000), "--env", preload, "--most", "400")
    assert document["outcome"] != "passed"


@pytest.mark.parametrize("library", [JEMALLOC, TCMALLOC, MIMALLOC], ids=["jemalloc", "tcmalloc", "mimalloc"])
def test_glibcs_figures_are_not_those_of_another_malloc(library: tuple[str, str]) -> None:
    code = "import truemem_heap; print(truemem_heap._reader())"
    preload = preloaded(*library).partition("=")[2]
    for variables, is_known in (({}, True), ({"LD_PRELOAD": preload}, False)):
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, cwd=PROBE, env=variables, capture_output=True, text=True, check=True)
        assert (done.stdout != "None\n") is is_known


@pytest.mark.parametrize(("kept", "cause"), [("None", "hoarding"), ("pa.allocate_buffer(16_000)", "leak")])
def test_pyarrow_holds_and_keeps(tmp_path: Path, with_pyarrow: str, kept: str, cause: str) -> None:
    """16 KiB of a pool's own memory, which is in no figure of malloc, beside 50 MiB and more that it holds free."""
    found = check(tmp_path, POOL.format(kept=kept), "--python", with_pyarrow)["finding"]
    assert found["cause"] == cause
    if cause == "leak":
        assert found["perInvocationKiB"] == pytest.approx(16.2, rel=0.1)
    else:
        assert found["holder"] == "pyarrow's mimalloc"


def test_an_object_in_pyarrows_place_does_no_harm(tmp_path: Path) -> None:
    found = check(tmp_path, NOT_PYARROW)["finding"]
    assert found["cause"] == "leak"
    assert found["perInvocationKiB"] == pytest.approx(8.4, rel=0.1)


@pytest.mark.parametrize(("size", "resident"), [(1 << 30, 2048), (1 << 29, None)])
def test_an_arena_is_a_mapping_of_whole_gibibytes(size: int, resident: int | None) -> None:
    with mmap.mmap(-1, size) as memory:
        memory[: 2 << 20] = b"x" * (2 << 20)
        buffer = ctypes.c_char.from_buffer(memory)
        assert arena_rss_kib(os.getpid(), ctypes.addressof(buffer)) == resident
        del buffer


@pytest.mark.parametrize("said", [None, 1, [1], [{}], [{"name": "x", "gave": None}], [{"name": "x", "gave": "y"}]])
def test_what_no_probe_says_counts_for_nothing(said: object) -> None:
    assert told({"allocators": said}, os.getpid()).still_held_kib == 0
    assert told({"allocators": said}, os.getpid()) == Told(0, {}, 0, "")


@pytest.mark.parametrize(("of_threads", "variables"), [(0.9, ["MALLOC_ARENA_MAX"]), (0.1, [])])
def test_what_arenas_of_threads_hold_has_a_repair_of_its_own(of_threads: float, variables: list[str]) -> None:
    witnesses = Witnesses(Curves(settled=[Reading(25 * at, {"ofThreads": of_threads}) for at in range(8)]))
    setting = ends_holding(witnesses, "malloc")
    assert [*setting] == [*variables, "MALLOC_MMAP_THRESHOLD_"]
    assert holding_repair(setting).startswith(f"Set {' '.join(f'{name}={value}' for name, value in setting.items())}:")
