"""The kernel's count of OOM kills, wherever it is; and the processes that are to die first."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from truemem.linux.cgroup import MemorySource
from truemem.linux.oom_kills import OomKills
from truemem.linux.oom_score import OomScore
from truemem.linux.procfs import Procfs

V1 = "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n"
V2 = "low 0\nhigh 0\nmax 31\noom 2\noom_kill {}\noom_group_kill 0\n"
VMSTAT = "nr_free_pages 5\n" * 600 + "oom_kill {}\nnuma_hit 9\n"


def level(folder: Path, source: str) -> MemorySource:
    made = MemorySource(Procfs("/nowhere"))
    made.source, made.folder = source, str(folder)
    return made


@pytest.mark.parametrize("piece", [1, 7, 4096])
@pytest.mark.parametrize(
    ("source", "name", "text"),
    [("cgroup1", "memory.oom_control", V1), ("cgroup2", "memory.events", V2), ("meminfo", "vmstat", VMSTAT)],
)
def test_kills_are_counted_from_where_it_was_made(
    tmp_path: Path, source: str, name: str, text: str, piece: int
) -> None:
    """Read in pieces of any size."""
    file = tmp_path / name
    file.write_text(text.format(123))
    kills = OomKills(level(tmp_path, source), vmstat=str(tmp_path / "vmstat"), piece=piece)
    assert (kills.seen, kills.more()) == (123, 0)
    file.write_text(text.format(125))
    assert (kills.more(), kills.more(), kills.seen) == (2, 0, 125)
    assert (kills.since(124), kills.since(None)) == (1, 0)


def test_kills_during_a_failed_read_are_counted_by_the_next(tmp_path: Path) -> None:
    (tmp_path / "memory.events").write_text(V2.format(3))
    kills = OomKills(level(tmp_path, "cgroup2"))
    (tmp_path / "memory.events").write_text(V2.format(4))
    folder, kept = os.open(tmp_path, os.O_RDONLY), os.dup(kills._file.descriptor)
    os.dup2(folder, kills._file.descriptor)  # a folder cannot be read (EISDIR)
    assert (kills.more(), kills.seen) == (None, 3)
    os.dup2(kept, kills._file.descriptor)
    assert (kills.more(), kills.seen) == (1, 4)
    os.close(folder)
    os.close(kept)


def test_a_kernel_that_does_not_count_has_no_kills(tmp_path: Path) -> None:
    (tmp_path / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\n")  # before Linux 4.13
    kills = OomKills(level(tmp_path, "cgroup1"))
    assert (kills.seen, kills.more(), kills.since(0)) == (None, None, 0)


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as made:
        yield made
        made.kill()


def adjustment(pid: int) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


def test_a_process_gets_at_least_the_adjustment(process: subprocess.Popen[bytes]) -> None:
    before = adjustment(process.pid)
    for asked, has in [(0, before), (700, 700), (100, 700)]:  # its own, or inherited
        OomScore(Procfs(), asked).raise_for(process.pid)
        assert adjustment(process.pid) == has


def test_a_refusal_is_kept_and_not_tried_again_and_a_process_that_has_ended_is_none(
    process: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    asked = []

    class Noting(Procfs):
        def text(self, name: str, size: int = 4096) -> bytes:
            asked.append(name)
            return super().text(name, size)

    score = OomScore(Noting(), 2000)  # above what the kernel takes
    for _ in range(2):
        score.raise_for(process.pid)
    assert (score.refused, asked) == ("oom_score_adj: Invalid argument", [f"{process.pid}/oom_score_adj"])
    score = OomScore(Procfs(str(tmp_path)), 100)
    score.raise_for(8)
    assert score.refused == ""
