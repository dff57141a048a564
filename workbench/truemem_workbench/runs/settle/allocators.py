"""What the allocators of a Python function tell of themselves through the probe, beside glibc's own lists."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from .mappings import mappings

ARENA_KIB = 1024 * 1024
"""mimalloc reserves its memory in parts of this size (`arena_reserve`). A mapping of another size has something else in
it, or is not all of it."""


class Told(NamedTuple):
    """What they have told, KiB."""

    in_use_kib: float
    """Given out by those beside glibc's malloc."""
    held_kib: Mapping[str, float]
    """Held free by each until it was asked, by its name: what it gave back, and what it still holds."""
    still_held_kib: float
    """Held free and resident now, where that is known."""
    unsaid: str
    """The name of one that does not say what it has given out; empty if all do."""


def told(said: Mapping[str, object], pid: int) -> Told:
    """What the probe of this process has said of them (`allocators`); nothing of what is not as it says it."""
    in_use, still, unsaid, held = 0.0, 0.0, "", dict[str, float]()
    each_of = said.get("allocators")
    for each in each_of if isinstance(each_of, list) else []:
        with suppress(TypeError, ValueError, KeyError, OSError):
            held[str(each["name"])] = gave = float(each["gave"])
            if "inUse" not in each and each["name"] != "malloc":
                unsaid = str(each["name"])
            own = each.get("inUse", 0) / 1024
            in_use += own
            if "at" in each and (resident := arena_rss_kib(pid, int(each["at"]))) is not None:
                held[str(each["name"])] = gave + max(0.0, resident - own)
                still += max(0.0, resident - own)
    return Told(in_use, held, still, unsaid)


def arena_rss_kib(pid: int, address: int, root: str = "/proc") -> float | None:
    """Resident KiB of the mapping that has this address, if that is one of mimalloc's arenas, or several; else None.
    Raises OSError if the process has ended, ValueError for a text that is not the kernel's."""
    for each in mappings(pid, root):
        if each.begin <= address < each.end:
            return each.rss_kib if (each.end - each.begin) // 1024 % ARENA_KIB == 0 else None
    return None
