"""What this kernel allows, found out once at the start."""

from __future__ import annotations

import posix

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


def fault_kib(root: str = "/sys/kernel/mm") -> int:
    """KiB that one page fault can make resident here, at most (transhuge: admin-guide/mm/transhuge.rst)."""
    try:
        text = Procfs(root).text("transparent_hugepage/enabled", 128)
    except Gone:
        return FAULT_KIB
    return HUGE_FAULT_KIB if b"[always]" in text else FAULT_KIB
