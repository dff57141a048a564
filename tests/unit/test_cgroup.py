"""The environment's level and its OOM kills, from whichever source is there."""

import os
from pathlib import Path

import pytest
from truemem.linux.cgroup import MemorySource, OomKills
from truemem.linux.procfs import Procfs

from tests.golden import unpack


def source(root: Path) -> MemorySource:
    return MemorySource(Procfs(str(root / "proc")), str(root / "sys/fs/cgroup"))


@pytest.mark.parametrize(
    ("tree", "name", "used", "peak"),
    [
        ("cgroup2", "cgroup2", 102400, 204800),
        ("cgroup2-before-5.19", "cgroup2", 102400, None),
        ("cgroup1", "cgroup1", 51200, 71680),
        ("cgroup1-namespaced", "cgroup1", 51200, 71680),
        ("cgroup-garbage", "meminfo", 112000, None),
    ],
)
def test_the_best_source_there_is(tmp_path: Path, tree: str, name: str, used: int, peak: int | None) -> None:
    made = source(unpack(tree, tmp_path))
    for level in (made.read(), made.read()):  # its descriptors are kept
        assert level is not None
        assert (level.source, level.used, level.peak) == (name, used, peak)


def test_what_cannot_be_read_is_not_claimed(tmp_path: Path) -> None:
    assert source(unpack("cgroup-unreadable", tmp_path)).read() is None


@pytest.mark.parametrize("garbage", ["", "max\n", "-1\n", "9" * 60, "\0"])
def test_garbage_for_a_peak_leaves_the_level(tmp_path: Path, garbage: str) -> None:
    root = unpack("cgroup2", tmp_path)
    (peak,) = root.rglob("memory.peak")
    peak.write_text(garbage)
    level = source(root).read()
    assert level is not None
    assert (level.used, level.peak) == (102400, None)


def test_this_machine_has_a_level() -> None:
    level = MemorySource(Procfs()).read()
    assert level is not None
    assert level.used > 0


# OOM kills


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
