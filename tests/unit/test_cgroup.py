"""The environment's level, from whichever source is there."""

from __future__ import annotations

from pathlib import Path

import pytest
from truemem.linux.cgroup import MemorySource, parse_membership
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


def test_membership_of_both_hierarchies() -> None:
    assert parse_membership(b"4:memory:/a\n0::/b\n") == ("/b", "/a")
    assert parse_membership(b"") == (None, None)
    assert parse_membership(b"\n:\nx\n4:cpu:/a\n") == (None, None)


def test_this_machine_has_a_level() -> None:
    level = MemorySource(Procfs()).read()
    assert level is not None
    assert level.used > 0
