"""What the kernel allows: this one, and others."""

from __future__ import annotations

from pathlib import Path

import pytest
from truemem.linux.kernel import FAULT_KIB, HUGE_FAULT_KIB, FaultSizes, fault_sizes, probe
from truemem.linux.proc_text import PAGE_KIB
from truemem.linux.procfs import Procfs

from tests.unit.stand_ins import files_text


@pytest.mark.parametrize(
    ("enabled", "sizes"),
    [
        ("[always] madvise never", FaultSizes(HUGE_FAULT_KIB, HUGE_FAULT_KIB, asked=False)),
        ("always [madvise] never", FaultSizes(PAGE_KIB, FAULT_KIB, asked=True)),
        ("always madvise [never]", FaultSizes(PAGE_KIB, FAULT_KIB, asked=False)),
        (None, FaultSizes(PAGE_KIB, FAULT_KIB, asked=False)),  # a kernel without huge pages
    ],
)
def test_what_a_fault_can_bring_depends_on_huge_pages(tmp_path: Path, enabled: str | None, sizes: FaultSizes) -> None:
    if enabled is not None:
        (tmp_path / "transparent_hugepage").mkdir()
        (tmp_path / "transparent_hugepage" / "enabled").write_text(enabled + "\n")
    assert fault_sizes(str(tmp_path)) == sizes


def test_the_reset_works_on_this_kernel_and_what_is_missing_elsewhere_is_named(tmp_path: Path) -> None:
    assert probe(Procfs()) == ""
    folder = tmp_path / "self"
    folder.mkdir()
    assert probe(Procfs(str(tmp_path))) == "clear_refs: No such file or directory"
    (folder / "clear_refs").write_text("")
    (folder / "status").write_bytes(files_text("status", rss=100, hwm=9000))
    assert probe(Procfs(str(tmp_path))) == "clear_refs: accepted, but VmHWM stays"
