"""What a function's processes keep, as the kernel and the allocator's own lists have it: read from outside."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import psutil
from truemem import arenas

from ...judge.curves import DESCRIPTORS, FILES, GO, HELD, MALLOC, OF_THREADS, OWN_HEAP, PROCESSES, RSS, THREADS, UNREAD
from ...target.go_program import is_go_file
from .mappings import mappings

RUNTIMES = ("node", "dotnet", "bun", "deno", "php", "php-fpm", "ruby")
"""Programs with a heap of their own, by name without a version: what malloc has given out says little of it."""
IN_MEMORY = ("/dev/shm/", "/memfd:", "/dev/zero", "/SYSV")
"""Begin of the names of mappings that look like files and are memory."""
PAGE_KIB = os.sysconf("SC_PAGE_SIZE") / 1024


def seen_from_outside(runtime: psutil.Process) -> dict[str, float]:
    """What the kernel, and the allocator's own lists, say of the runtime's process and all below it. KiB and numbers.
    Raises psutil.Error if the runtime has ended."""
    processes, alive = [runtime, *runtime.children(recursive=True)], []
    found = {PROCESSES: float(len(processes)), RSS: 0.0, FILES: 0.0, THREADS: 0.0, DESCRIPTORS: 0.0}
    for process in processes:
        with suppress(psutil.Error, OSError):
            rss, shared = (int(each) for each in Path(f"/proc/{process.pid}/statm").read_bytes().split()[1:3])
            found[RSS] += rss * PAGE_KIB
            alive += [process.pid] if rss else []
            found[FILES] += shared * PAGE_KIB
            found[THREADS] += process.num_threads()
            found[DESCRIPTORS] = max(found[DESCRIPTORS], process.num_fds())  # each has a limit of its own
            program = Path(f"/proc/{process.pid}/exe")
            if is_go_file(program, program.stat().st_ino):
                found[GO] = found[OWN_HEAP] = 1.0
            if program.resolve().name.rstrip("0123456789.") in RUNTIMES:
                found[OWN_HEAP] = 1.0
    with suppress(OSError, ValueError):  # one that cannot be read may be the one that keeps something
        found |= _of_malloc(alive, found[RSS])
    return found


def _of_malloc(pids: Collection[int], rss_kib: float) -> dict[str, float]:
    """What malloc has given out and holds in these processes, all together; RSS without what it holds; and what is not
    read yet of the files that they have mapped. KiB. Raises OSError and ValueError if one of them cannot be read."""
    in_use = held = main_held = unread = 0.0
    for pid in pids:
        parts = [*mappings(pid)]
        files = [each for each in parts if each.path.startswith("/") and not each.path.startswith(IN_MEMORY)]
        unread += sum((each.end - each.begin) / 1024 - each.rss_kib for each in files)
        known = arenas.read(pid)
        in_use += (known.in_use + known.mapped) / 1024
        held, main_held = held + known.held / 1024, main_held + known.main_held / 1024
        # Pages in which little is in use stay resident: which ones changes where nothing grows.
        heap = sum(each.rss_kib for each in parts if each.path == "[heap]")
        rss_kib -= max(0.0, heap - known.main / 1024)
    found = {MALLOC: in_use, HELD: held, RSS: rss_kib, UNREAD: unread}
    return {**found, **({OF_THREADS: 1 - main_held / held} if held else {})}


def mapped(pid: int, names: Collection[str]) -> str:
    """The first file of these names that the process has mapped; empty if it has none, or cannot be read."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace").splitlines():
            if (name := line.rpartition("/")[2]) in names:
                return name
    return ""
