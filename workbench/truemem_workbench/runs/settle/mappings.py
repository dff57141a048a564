"""The mappings of a process, with what is resident of each: /proc/PID/smaps, proc_pid_smaps(5)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Mapping(NamedTuple):
    """One of them."""

    begin: int
    end: int
    path: str
    """A file, a name such as `[heap]`, or empty."""
    rss_kib: float


def mappings(pid: int, root: str = "/proc") -> Iterator[Mapping]:
    """Yield each of this process, in order. Raises OSError if it has ended, ValueError for a text that is not the
    kernel's."""
    with Path(f"{root}/{pid}/smaps").open(encoding="utf-8", errors="replace") as file:
        fields: list[str] = []
        for line in file:
            name, _, rest = line.partition(" ")
            if not name.endswith(":"):
                fields = line.rstrip("\n").split(maxsplit=5)
            elif name == "Rss:":
                begin, end = (int(each, 16) for each in fields[0].split("-"))
                yield Mapping(begin, end, "".join(fields[5:]), float(rest.split()[0]))
