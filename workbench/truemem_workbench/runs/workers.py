"""What the processes of an environment of Managed Instances hold, with pages that several of them map counted once.

The kernel's PSS shares a page among all processes of the machine that map it: what others here map as well would hardly
count. So PSS is taken of anonymous and shared memory alone, which no other program has: the runtime was executed anew.
Of mapped files that process counts which holds most of them: workers run the same code.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

RESETS_WATERMARK = "5"
"""Written to /proc/PID/clear_refs (proc_pid_clear_refs(5))."""
MIB_OF_KIB = 1 / 1024


@dataclass(frozen=True)
class Held:
    """What an environment's function held at one moment, MiB."""

    sum: float
    """RSS of all processes."""
    once: float
    """The same with shared pages counted once."""
    highest: float
    """The sum of all watermarks: RSS, had each process been at its highest at the same moment."""
    rss: dict[int, float]
    """RSS of each worker, by its pid: a worker is a process that serves requests."""
    peaks: dict[int, float]
    """The watermark of each worker since it was reset."""
    own: float
    """What all workers have in memory that nothing else maps."""
    forked: bool
    """Workers are processes that the runtime has forked: one request each. Else threads of one process serve."""
    ended: int
    """Page faults of children that have ended: if there are more, some did."""

    @property
    def overcount(self) -> float:
        """What RSS counts more than once."""
        return self.sum - self.once


def held(runtime: int, *, reset: bool = False) -> Held | None:
    """What the runtime's process and all below it hold now. None if it has ended. What may not be read, or ends
    meanwhile, is left out. `reset`: their watermarks begin again after that."""
    try:
        root = psutil.Process(runtime)
        family = [root, *root.children(recursive=True)]
    except psutil.Error:
        return None
    parts: dict[int, dict[str, float]] = {}
    for each in family:
        with suppress(OSError, ValueError):
            parts[each.pid] = _parts(each.pid)
            if reset:
                Path(f"/proc/{each.pid}/clear_refs").write_text(RESETS_WATERMARK, encoding="ascii")
    if not parts:
        return None
    serving, forked = workers(family)
    of_workers = [each.pid for each in serving if each.pid in parts]
    shared = sum(each["Pss_Anon"] + each["Pss_Shmem"] for each in parts.values())
    files = max(each["RssFile"] for each in parts.values())
    return Held(
        sum=sum(each["Rss"] for each in parts.values()) * MIB_OF_KIB,
        once=(shared + files) * MIB_OF_KIB,
        highest=sum(each["VmHWM"] for each in parts.values()) * MIB_OF_KIB,
        rss={pid: parts[pid]["Rss"] * MIB_OF_KIB for pid in of_workers},
        peaks={pid: parts[pid]["VmHWM"] * MIB_OF_KIB for pid in of_workers},
        own=sum(parts[pid]["Private"] for pid in of_workers) * MIB_OF_KIB,
        forked=forked,
        ended=int(sum(each["ended"] for each in parts.values())),
    )


def workers(family: Sequence[psutil.Process]) -> tuple[list[psutil.Process], bool]:
    """Those of a runtime's processes, the runtime's own first, that serve requests: those that it has forked, as AWS's
    client for Python does; else that which executes the handler itself, with threads. And whether they were forked."""
    by_parent: dict[int, list[psutil.Process]] = {}
    lines: dict[int, list[str]] = {}
    for each in family:
        with suppress(psutil.Error):
            lines[each.pid] = each.cmdline()
            by_parent.setdefault(each.ppid(), []).append(each)
    for each in family:
        forked = [child for child in by_parent.get(each.pid, ()) if lines[child.pid] == lines.get(each.pid)]
        if forked:
            return forked, True
    alone = family[0]
    while len(below := by_parent.get(alone.pid, [])) == 1:  # a shell that has started it
        (alone,) = below
    return [alone], False


NAMES = ("Rss", "Pss_Anon", "Pss_Shmem", "RssFile", "VmHWM")


def _parts(pid: int) -> dict[str, float]:
    """KiB of one process, by the kernel's names (proc_pid_smaps(5), proc_pid_status(5)); `Private` is of both kinds,
    `ended` the minor faults of its children that it has waited for. Raises OSError, and ValueError where the kernel
    does not tell all of them."""
    found = {"Private": 0.0}
    for file in "smaps_rollup", "status":
        for line in Path(f"/proc/{pid}/{file}").read_text(encoding="ascii", errors="replace").splitlines():
            name, _, rest = line.partition(":")
            if name in NAMES:
                found[name] = float(rest.split()[0])
            elif name in ("Private_Clean", "Private_Dirty"):
                found["Private"] += float(rest.split()[0])
    if not found.keys() >= {*NAMES}:
        raise ValueError(f"/proc/{pid}/smaps_rollup has no parts of PSS")
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    return {**found, "ended": float(stat.rpartition(")")[2].split()[8])}
