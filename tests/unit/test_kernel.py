"""What the kernel allows: this one, and others."""

from __future__ import annotations

from pathlib import Path

import pytest
from truemem.linux.kernel import FAULT_KIB, HUGE_FAULT_KIB, fault_kib, probe
from truemem.linux.procfs import Procfs


@pytest.mark.parametrize(
    ("enabled", "kib"),
    [
        ("[always] madvise never", HUGE_FAULT_KIB),
        ("always [madvise] never", FAULT_KIB),
        ("always madvise [never]", FAULT_KIB),
    ],
)
def test_what_a_fault_can_bring_depends_on_huge_pages(tmp_path: Path, enabled: str, kib: int) -> None:
    (tmp_path / "transparent_hugepage").mkdir()
    (tmp_path / "transparent_hugepage" / "enabled").write_text(enabled + "\n")
    assert fault_kib(str(tmp_path)) == kib


def test_a_kernel_without_huge_pages(tmp_path: Path) -> None:
    assert fault_kib(str(tmp_path)) == FAULT_KIB


def test_the_reset_works_on_this_kernel() -> None:
    assert probe(Procfs()) == ""


def test_a_proc_without_clear_refs_is_named(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    assert probe(Procfs(str(tmp_path))) == "clear_refs: No such file or directory"


def test_a_clear_refs_without_effect_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "self"
    folder.mkdir()
    (folder / "clear_refs").write_text("")
    status = [
        "x",
        "VmHWM:\t9000 kB",
        "VmRSS:\t100 kB",
        "RssAnon:\t100 kB",
        "RssFile:\t0 kB",
        "RssShmem:\t0 kB",
        "Threads:\t1",
    ]
    (folder / "status").write_text("\n".join(status) + "\n")
    assert probe(Procfs(str(tmp_path))) == "clear_refs: accepted, but VmHWM stays"
