"""What this kernel can, and how exact its figures are: asked once."""

from __future__ import annotations

import posix

from .procfs import FAULT_KIB, HUGE_FAULT_KIB, PAGE_KIB, FaultSizes, Gone, ProcessFiles, Procfs

COUNTERS = 3
"""Counters of resident memory: of files, of no file, shared (mm_types_task.h)."""
COUNTED_PAGES = 31
"""Pages that each CPU may have counted for itself, and not yet reported, in each (percpu_counter_batch, 32)."""


def watermark_slack_kib() -> int:
    """KiB by which the kernel's figures may be off, and a watermark from a level: it counts on each CPU and adds up
    later. 372 for each CPU. Before Linux 6.2 it counts up to 63 pages in each thread."""
    return COUNTERS * COUNTED_PAGES * PAGE_KIB * (posix.cpu_count() or 1)


def reset_problem(proc: Procfs) -> str:
    """Does resetting the watermark work on this kernel? "" if so, else the reason. Tried on ourselves."""
    files = ProcessFiles(f"{proc.root}/self/")
    try:
        bulk = b"x".ljust(1 << 20, b"x")  # no constant: it is to be made here
        del bulk  # a mapping of its own, given back at once: VmHWM is now 1 MiB above VmRSS
        files.reset_watermark()
        after = files.status()
    except OSError as error:
        return f"clear_refs: {error.strerror}"
    except Gone as gone:
        return f"status: {gone}"
    finally:
        files.close()
    return "" if after.hwm - after.rss < 512 else "clear_refs: accepted, but VmHWM stays"


def fault_sizes(root: str = "/sys/kernel/mm") -> FaultSizes:
    """What one page fault can make resident, by this kernel's settings."""
    try:
        text = Procfs(root).text("transparent_hugepage/enabled", 128)
    except Gone:
        text = b"[never]"
    if b"[always]" in text:
        return FaultSizes(HUGE_FAULT_KIB, HUGE_FAULT_KIB, asked=False)
    return FaultSizes(PAGE_KIB, FAULT_KIB, asked=b"[never]" not in text)
