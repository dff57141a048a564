"""A function whose requests run at once: each touches a known number of MiB, and all tell the truth together.

Event: {"mib": N, "ms": hold time}, and where requests are to meet {"meet": folder, "of": how many}. Answer, in KiB:
{"own": RSS of this worker at its peak, "all": RSS of all workers and of their parent while all of those that met
held what they had touched, "pid": which worker}. {"do": "die"} then kills the runtime: the parent and all workers.

MODEL: a file that each worker maps and reads, like a model.
"""

from __future__ import annotations

import mmap
import os
import signal
import time
from pathlib import Path
from typing import Any

MIB = 1 << 20
PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024
PATIENCE_S = 30

if "MODEL" in os.environ:
    with Path(os.environ["MODEL"]).open("rb") as file:
        model = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    sum(model[::4096])


def rss(pid: int | str) -> int:
    """Resident set, KiB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_KIB


def workers() -> list[int]:
    """The others, this one last."""
    parent = os.getppid()
    children = map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text().split())
    return sorted(children, key=lambda pid: pid == os.getpid())


def family() -> int:
    """The parent and all of its workers, KiB."""
    return rss(os.getppid()) + sum(map(rss, workers()))


def meet(folder: Path, of: int) -> None:
    """Wait until so many have come."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{os.getpid()}").touch()
    until = time.monotonic() + PATIENCE_S
    while len(list(folder.iterdir())) < of:
        if time.monotonic() > until:
            raise TimeoutError(f"{of} did not meet in {folder}")
        time.sleep(0.001)


def handler(event: dict[str, Any], context: object) -> dict[str, int]:
    """See the module."""
    block = mmap.mmap(-1, max(1, round(event["mib"] * MIB)), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    chunk = memoryview(bytes(65536))
    while block.tell() < len(block):
        block.write(chunk[: len(block) - block.tell()])
    if "meet" in event:
        meet(Path(event["meet"], "up"), event["of"])
    truth = {"own": rss("self"), "all": family(), "pid": os.getpid()}
    time.sleep(event.get("ms", 0) / 1000)
    if event.get("do") == "die":
        for pid in (os.getppid(), *workers()):
            os.kill(pid, signal.SIGKILL)
    if "meet" in event:
        meet(Path(event["meet"], "down"), event["of"])
    block.close()
    return truth
