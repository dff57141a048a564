"""The steps: each a function that returns what it found, or raises OSError with the errno that we want to know.

Run as a program it is the second process: `STEP<tab>PID` a line on standard input, an outcome a line on the output.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import select
import socket
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PROC = Path("/proc")
TEXT = 6000
"""Characters kept of a file."""
SPIKE = 32 << 20

SO_TIMESTAMPNS = 35
"""socket(7); the same number on x86_64 and arm64."""


def attempt(step: Callable[..., Any], *arguments: Any, unwrap: bool = False) -> dict[str, Any]:
    """The outcome of one step. With `unwrap` the step answers an outcome itself: another process has made it."""
    try:
        value = step(*arguments)
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, str(error.errno))
        return {"ok": False, "errno": name, "error": str(error)}
    except Exception as error:  # whatever a strange environment makes of it: the other steps go on
        return {"ok": False, "error": f"{type(error).__name__}: {error}"}
    if unwrap:
        outcome: dict[str, Any] = value
        return outcome
    return {"ok": True, "value": value}


def text(path: str) -> str:
    return Path(path).read_text(errors="replace")[:TEXT]


def fields(path: Path, *names: str) -> dict[str, str]:
    """Lines `Name: value` of a file of /proc."""
    pairs = (line.partition(":") for line in path.read_text().splitlines())
    return {name: value.strip() for name, _, value in pairs if name in names}


def kib(path: Path, *names: str) -> dict[str, int]:
    return {name: int(value.split()[0]) for name, value in fields(path, *names).items()}


def memory(pid: int | str) -> dict[str, int]:
    """VmHWM, VmRSS, and of it the pages of files, KiB."""
    return kib(PROC / str(pid) / "status", "VmHWM", "VmRSS", "RssFile")


def meminfo(*names: str) -> dict[str, int]:
    return kib(PROC / "meminfo", *names)


def kernel() -> dict[str, str]:
    about = platform.uname()
    return {"release": about.release, "version": about.version, "machine": about.machine}


def libc() -> str:
    return " ".join(platform.libc_ver())


def identity() -> dict[str, str]:
    """The process's user, and its restrictions."""
    return fields(PROC / "self" / "status", "Uid", "Gid", "NoNewPrivs", "Seccomp", "Seccomp_filters", "CapEff")


def proc_options() -> str:
    """Mount options of /proc: rw or ro, hidepid, subset."""
    for line in text("/proc/mounts").splitlines():
        _, where, kind, options, *_ = line.split()
        if where == "/proc" and kind == "proc":
            return options
    raise OSError(errno.ENOENT, "no /proc in /proc/mounts")


def processes() -> list[dict[str, Any]]:
    """Every process that can be seen, its uid, and what can be read of it: what hidepid hides is not here."""
    found = []
    for pid in sorted(int(name.name) for name in PROC.iterdir() if name.name.isdigit()):
        entry: dict[str, Any] = {"pid": pid, "status": attempt(memory, pid)}
        if entry["status"].get("value") == {}:
            continue  # a thread of the kernel, or a zombie
        entry["uid"] = attempt(lambda pid=pid: (PROC / str(pid)).stat().st_uid)
        entry["command"] = attempt(lambda pid=pid: (PROC / str(pid) / "comm").read_text().strip())
        entry["smaps_rollup"] = attempt(smaps_rollup, pid)
        found.append(entry)
    return found[:40]


def cgroup_files() -> dict[str, Any]:
    """What is mounted below /sys/fs/cgroup, and the text of the memory files of a root."""
    root = Path("/sys/fs/cgroup")
    found: dict[str, Any] = {"entries": sorted(entry.name for entry in root.iterdir())[:60]}
    for name in ("memory.current", "memory.peak", "memory.max", "memory.events", "memory/memory.usage_in_bytes",
                 "memory/memory.max_usage_in_bytes", "memory/memory.limit_in_bytes"):  # fmt: skip
        found[name] = attempt(text, str(root / name))
    return found


def memory_total() -> dict[str, int]:
    """MemTotal against the configured size: KiB, MiB."""
    return {**meminfo("MemTotal"), "configuredMiB": int(os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"])}


def clear_refs(pid: int | str) -> dict[str, Any]:
    """Reset a watermark, and look whether it did. 5 is CLEAR_REFS_MM_HIWATER_RSS (proc_pid_clear_refs(5))."""
    before = memory(pid)
    began = time.perf_counter_ns()
    with (PROC / str(pid) / "clear_refs").open("wb", buffering=0) as file:
        file.write(b"5")
    took = (time.perf_counter_ns() - began) / 1000
    return {"before": before, "after": memory(pid), "us": round(took, 1)}


def clear_refs_after_a_spike() -> dict[str, Any]:
    """With something to forget: allocate, free, reset. `works` says that the mark fell, and caught the next spike.

    Three tries: the sidecar beside us resets the same mark, and may come between two of our steps.
    """
    for _ in range(3):
        spike()
        reset = clear_refs("self")
        spike()
        again = memory("self")
        fell = reset["before"]["VmHWM"] - reset["after"]["VmHWM"]
        rose = again["VmHWM"] - reset["after"]["VmHWM"]
        works = min(fell, rose) > SPIKE // 2 // 1024
        if works:
            break
    return {**reset, "spike": again, "works": works}


def spike() -> None:
    """Memory that is touched and freed again: it leaves a mark, and nothing else."""
    block = bytearray(SPIKE)
    for at in range(0, SPIKE, 4096):
        block[at] = 1


def smaps_rollup(pid: int | str) -> dict[str, int]:
    return kib(PROC / str(pid) / "smaps_rollup", "Rss", "Pss", "Private_Dirty")


def variables(pid: int | str) -> list[str]:
    """Names only: the values hold credentials."""
    raw = (PROC / str(pid) / "environ").read_bytes()
    wanted = (b"_HANDLER", b"LAMBDA_TASK_ROOT", b"AWS_EXECUTION_ENV")
    return sorted(name.decode() for name in (pair.partition(b"=")[0] for pair in raw.split(b"\0")) if name in wanted)


def descriptors(pid: int | str) -> int:
    """How many sockets it has, by the links of its descriptors: how a connection is known to be the runtime's."""
    links = (PROC / str(pid) / "fd").iterdir()
    return sum(str(link.readlink()).startswith("socket:") for link in links)


def timestamps() -> dict[str, Any]:
    """SO_TIMESTAMPNS on TCP over loopback, as on the sidecar's own connection: does the kernel's time come along?"""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        client.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        accepted, _ = server.accept()
        with accepted:
            accepted.sendall(b"x")
            select.select([client], [], [], 2)
            _, extra, _, _ = client.recvmsg(1, 64)
    stamps = [struct.unpack_from("=qq", data) for level, kind, data in extra if kind == SO_TIMESTAMPNS]
    if not stamps:
        raise OSError(errno.ENODATA, "accepted, but no time stamp came with the data")
    seconds, nanoseconds = stamps[0]
    return {"ageUs": round((time.time() - seconds) * 1e6 - nanoseconds / 1e3, 1)}


def oom_score_adj(pid: int, change: int) -> dict[str, int]:
    """Raising needs no privilege, lowering below the start does (proc_pid_oom_score_adj(5)). On a throwaway process."""
    path = PROC / str(pid) / "oom_score_adj"
    before = int(path.read_text())
    path.write_text(str(before + change))
    return {"before": before, "after": int(path.read_text())}


def clock() -> dict[str, int]:
    return {"ticksPerSecond": os.sysconf("SC_CLK_TCK"), "pageSize": os.sysconf("SC_PAGE_SIZE")}


OWN: dict[str, Callable[[], Any]] = {
    "kernel": kernel,
    "libc": libc,
    "os-release": lambda: text("/etc/os-release"),
    "identity": identity,
    "mounts": lambda: text("/proc/mounts"),
    "proc options": proc_options,
    "processes": processes,
    "own cgroup": lambda: text("/proc/self/cgroup"),
    "cgroup controllers": lambda: text("/proc/cgroups"),
    "cgroup files": cgroup_files,
    "memory total": memory_total,
    "pressure": lambda: text("/proc/pressure/memory"),
    "clear_refs own": clear_refs_after_a_spike,
    "SO_TIMESTAMPNS": timestamps,
    "clock": clock,
}
"""In the runtime's process."""

OTHER: dict[str, Callable[[int], Any]] = {
    "clear_refs other": clear_refs,
    "status other": memory,
    "smaps_rollup other": smaps_rollup,
    "environ other": variables,
    "fd other": descriptors,
}
"""On another process of the same uid."""


def main() -> None:
    """The second process."""
    for line in sys.stdin:
        name, _, pid = line.strip().partition("\t")
        print(json.dumps(attempt(OTHER[name], int(pid))), flush=True)


if __name__ == "__main__":
    main()
