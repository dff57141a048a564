"""Pages of a mapped file come into memory as they are read: as many as it has, and no more."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from truemem_workbench.judge.causes import find
from truemem_workbench.judge.curves import Curves
from truemem_workbench.judge.finding import Commands
from truemem_workbench.judge.settled import Reading
from truemem_workbench.runs.settle.outside import seen_from_outside

MIB = 1024
READS = """
import mmap, sys
file = open(sys.argv[1], "rb")
mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
for line in sys.stdin:
    sum(mapped[at << 12] for at in range(int(line)))
    print(line, end="", flush=True)
"""


def test_what_is_read_of_a_file_is_not_unread_any_more(tmp_path: Path) -> None:
    file = tmp_path / "model"
    file.write_bytes(bytes(32 << 20))
    command = [sys.executable, "-c", READS, str(file)]
    unread = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for pages in (1, 8192):
            print(pages, file=process.stdin, flush=True)
            process.stdout.readline()
            unread.append(seen_from_outside(psutil.Process(process.pid))["unread"])
        process.stdin.close()
    assert unread[0] - unread[1] == pytest.approx(32 * MIB, abs=3 * MIB)  # pages of 2 MiB


def kept(number: int, **more: float) -> Reading:
    """What a settled Python keeps after this pass of 25 invocations: 8 KiB more of RSS in each invocation."""
    level = {"inUse": 10.0 * MIB, "blocks": 1e5, "files": 12.0 * MIB, "unread": 40.0 * MIB}
    return Reading(25 * number, {**level, "rss": 30.0 * MIB + 200 * number, **more})


@pytest.mark.parametrize(
    ("per_pass", "cause", "holder"),
    [
        ({"files": 200, "unread": -200}, "cache", "mapped files"),
        ({"files": 200, "unread": 0}, "native", "mapped files"),  # each time one more
        ({}, "native", "mapped memory"),
    ],
)
def test_growth_of_mapped_memory_is_told_by_files(per_pass: dict[str, float], cause: str, holder: str) -> None:
    begin = {"files": 12.0 * MIB, "unread": 40.0 * MIB}
    grown = [{name: begin[name] + more * at for name, more in per_pass.items()} for at in range(13)]
    readings = [kept(at, **more) for at, more in enumerate(grown)]
    found = find(Curves(settled=readings, invocations=325), Commands(again="truemem check"))
    assert (found.cause, found.holder) == (cause, holder)


def test_rss_that_rises_with_what_is_in_use_is_no_mapped_memory() -> None:
    """A cache that is cleared: RSS is read from later on than what is in use, and rises at both ends."""
    levels = [100 * (at % 8) for at in range(16)]
    readings = [kept(at, inUse=10.0 * MIB + level, rss=30.0 * MIB + level) for at, level in enumerate(levels)]
    late = [Reading(each.invocation, {k: v for k, v in each.kept.items() if k != "rss"}) for each in readings[:5]]
    found = find(Curves(settled=[*late, *readings[5:]], invocations=400), Commands(again="truemem check"))
    assert found.cause != "native"
