"""A cache in a library says nothing of itself: the function runs once more without it."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.judge.curves import BUFFERS, DIRECT, SOFT, library_of
from truemem_workbench.judge.settled import Reading

from tests.check.conftest import Check

APP = """
import mmap, os, random
done = {library!r} + ".done"
file = open({library!r}, "r+b")
mapped = mmap.mmap(file.fileno(), 0)
has_cache = os.environ.get("LRU_CACHE_CAPACITY") != "1"
made, kept = {{}}, []

def of_shapes(event, context):
    if has_cache:
        made[random.randrange(1_000_000) if len(made) < 1024 else next(iter(made))] = bytearray(20_000)

def leaks(event, context):
    kept.append(bytearray(12_000))

def leaks_what_is_new(event, context):
    with open(done, "a+") as table:  # what another run has done already is skipped
        table.seek(0)
        lines = table.read().split()
        number = str(len(kept))
        if number not in lines:
            kept.append(bytearray(12_000))
            print(number, file=table)
        else:
            kept.append(None)
"""


@pytest.fixture
def check_beside_torch(invoke_check: Check, tmp_path: Path) -> Any:
    library = tmp_path / "libtorch_cpu.so"  # what is known of a process is the name of the file that it has mapped
    library.write_bytes(bytes(4096))
    library.chmod(0o666)
    tmp_path.chmod(0o777)
    (tmp_path / "app.py").write_text(APP.format(library=str(library)))

    def checked(handler: str, *options: str) -> Any:
        done = invoke_check(f"{tmp_path / 'app.py'}:{handler}", "--no-explain", "--json", *options)
        return done.exit_code, json.loads(done.stdout)

    return checked


def test_what_ends_without_the_librarys_cache_is_that_cache(check_beside_torch: Any) -> None:
    exit_code, said = check_beside_torch("of_shapes")
    assert exit_code == 0
    assert said["finding"]["cause"] == "cache"
    assert "oneDNN in PyTorch" in said["finding"]["sentence"]
    assert said["tried"]["helps"]


def test_a_run_that_finds_its_work_done_proves_nothing(check_beside_torch: Any) -> None:
    exit_code, said = check_beside_torch("leaks_what_is_new")
    assert exit_code == 1
    assert "oneDNN" not in said["finding"]["sentence"]


def test_what_goes_on_without_the_librarys_cache_is_a_leak(check_beside_torch: Any) -> None:
    exit_code, said = check_beside_torch("leaks")
    assert exit_code == 1
    assert said["finding"]["cause"] == "leak"
    assert "oneDNN" not in said["finding"]["sentence"]
    assert "tried" not in said


def test_ctrl_c_in_the_second_run_proves_nothing(check_beside_torch: Any, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "truemem_workbench.commands",
        "check",
        f"{tmp_path / 'app.py'}:leaks",
        "--no-explain",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        next(line for line in process.stderr if "trying the repair" in line)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "FAILED, ended early" in said
    assert "nothing grows" not in said


@pytest.mark.parametrize(
    ("gained", "cache"),
    [
        ({SOFT: 100}, SOFT),
        ({SOFT: 10}, ""),
        ({DIRECT: 8192, BUFFERS: 2}, DIRECT),
        ({DIRECT: 8192, BUFFERS: 100}, ""),
        ({DIRECT: 100, BUFFERS: 0}, ""),
    ],
)
def test_a_jvm_says_which_cache_may_grow(gained: dict[str, float], cache: str) -> None:
    before, after = Reading(100, {SOFT: 1, DIRECT: 1, BUFFERS: 1}), {name: 1.0 + more for name, more in gained.items()}
    assert library_of([before, Reading(200, {SOFT: 1, DIRECT: 1, BUFFERS: 1, **after})]) == cache
