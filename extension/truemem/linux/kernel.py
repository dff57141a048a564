"""What this kernel allows, found out once at the start."""

from __future__ import annotations

import posix

from ..support.named_tuple import NamedTuple
from .proc_text import PAGE_KIB, Gone
from .procfs import Procfs

FAULT_KIB = 64
"""What one page fault can make resident: 16 pages of a file around it (fault_around_bytes)."""
HUGE_FAULT_KIB = 2048
"""The same where transparent huge pages are on for everything."""

COUNTED_PAGES = 32
"""Pages that each CPU may have counted for itself, and not yet told (percpu_counter_batch, lib/percpu_counter.c)."""


def watermark_slack_kib() -> int:
    """By so much a level that was read may be above the watermark that is read later, although nothing has reset that:
    the kernel keeps both from counters of each CPU (332 KiB were measured with two)."""
    return max(256, 2 * COUNTED_PAGES * PAGE_KIB * (posix.cpu_count() or 1))


def probe(proc: Procfs) -> str:
    """Does resetting the watermark work on this kernel? "" if so, else the reason. Tried on ourselves."""
    files = proc.process_self()
    try:
        bulk = b"x" * (1 << 20)
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


class FaultSizes(NamedTuple):
    """What one page fault can make resident here, KiB (transhuge: admin-guide/mm/transhuge.rst)."""

    own: int
    """Of memory that is no file's: a page."""
    most: int
    """Of a file: the pages around it as well."""
    asked: bool
    """More for who asks for huge pages (madvise(2), MADV_HUGEPAGE): those are counted (Procfs.huge_pages)."""


def fault_sizes(root: str = "/sys/kernel/mm") -> FaultSizes:
    """By what this kernel is set to."""
    try:
        text = Procfs(root).text("transparent_hugepage/enabled", 128)
    except Gone:
        text = b"[never]"
    if b"[always]" in text:
        return FaultSizes(HUGE_FAULT_KIB, HUGE_FAULT_KIB, asked=False)
    return FaultSizes(PAGE_KIB, FAULT_KIB, asked=b"[never]" not in text)
