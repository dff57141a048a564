"""The steps: each a function that returns what it found, or raises OSError with the errno that we want to know.

Run as a program it is the second process: `STEP<tab>PID` a line on standard input, an outcome a line on the output.
Run with `ticker` it runs each millisecond, and notes each time that it could not for half a second.

The processes leave notes for each other in /tmp, one line each, KIND and its fields. `event REQUEST NS`: the extension
has an INVOKE. `next NS`: it asks for the next event. `gap BEFORE MONOTONIC WALL`: the ticker did not run for so long.
NS, BEFORE, MONOTONIC and WALL are nanoseconds, the first two of CLOCK_MONOTONIC.
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import platform
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
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


def memory_read(pid: int | str) -> dict[str, Any]:
    """Read a page of its heap through /proc/PID/mem, as the sidecar reads malloc's lists. Nothing of it is kept."""
    maps = (PROC / str(pid) / "maps").read_text().splitlines()
    heap = next((line for line in maps if line.endswith("[heap]")), None)
    if heap is None:
        raise OSError(errno.ENOENT, "it has no heap")
    began = time.perf_counter_ns()
    with (PROC / str(pid) / "mem").open("rb", buffering=0) as file:
        file.seek(int(heap.partition("-")[0], 16))
        count = len(file.read(PAGE))
    return {"bytes": count, "us": round((time.perf_counter_ns() - began) / 1000, 1)}


def ptrace_scope() -> int:
    """Yama's: 0, any process of the uid may read another's memory; 1, its ancestors alone (ptrace(2)). ENOENT: none."""
    return int(text("/proc/sys/kernel/yama/ptrace_scope"))


def dumpable() -> bool:
    """Does this process let others of its uid read its memory? Root owns its files if not (proc(5))."""
    return (PROC / "self" / "mem").stat().st_uid == os.getuid()


def allow_ptrace() -> None:
    """Let any process of the uid read this one's memory under a scope of 1 (PR_SET_PTRACER). EINVAL: no Yama."""
    import ctypes

    if ctypes.CDLL(None, use_errno=True).prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def kind_of_environment() -> dict[str, str]:
    """How it was begun (on-demand, provisioned-concurrency, snap-start), and on Managed Instances how many requests it
    serves at once: variables of Lambda. What is not set is left out."""
    names = ("AWS_EXECUTION_ENV", "AWS_LAMBDA_INITIALIZATION_TYPE", "AWS_LAMBDA_MAX_CONCURRENCY")
    return {name: os.environ[name] for name in names if name in os.environ}


def code_mounts() -> dict[str, str]:
    """File system below each folder of code: an image's are not those of a zip."""
    mounts = dict(line.split()[1:3] for line in text("/proc/mounts").splitlines() if len(line.split()) > 2)
    return {folder: mounts[folder] for folder in ("/", "/var/task", "/var/runtime", "/opt", "/tmp") if folder in mounts}


def adapter() -> dict[str, Any]:
    """AWS's Lambda Web Adapter: is it there as an extension, and which of its variables are set (names only)?"""
    return {
        "extension": Path("/opt/extensions/lambda-adapter").exists(),
        "variables": sorted(name for name in os.environ if name.startswith("AWS_LWA_")),
    }


def gpus() -> list[str]:
    """Name, total and used memory (MiB) of each GPU, by the driver's own program. ENODEV: there is none."""
    devices = sorted(path.name for path in Path("/dev").glob("nvidia*"))
    if not devices:
        raise OSError(errno.ENODEV, "no /dev/nvidia*")
    query = ["nvidia-smi", "--query-gpu=name,memory.total,memory.used", "--format=csv,noheader,nounits"]
    done = subprocess.run(query, capture_output=True, text=True, timeout=20, check=False)
    if done.returncode:
        raise OSError(errno.EIO, f"{', '.join(devices)}; nvidia-smi: {done.stdout or done.stderr}")
    return done.stdout.splitlines()


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
    "ptrace scope": ptrace_scope,
    "dumpable": dumpable,
    "kind of environment": kind_of_environment,
    "code mounts": code_mounts,
    "adapter": adapter,
    "gpus": gpus,
}
"""In the runtime's process."""

OTHER: dict[str, Callable[[int], Any]] = {
    "clear_refs other": clear_refs,
    "status other": memory,
    "smaps_rollup other": smaps_rollup,
    "environ other": variables,
    "fd other": descriptors,
    "mem other": memory_read,
}
"""On another process of the same uid."""


# --- files through the page cache, or mapped: what of it does Max Memory Used count? ----------------------------------

TMP = Path(os.environ.get("TMPDIR") or "/tmp")
BUFFER = 1 << 20
FILE = TMP / "truemem-probe.bin"
CODE = ("/var/lang", "/usr/lib64", "/usr/lib", "/usr/bin")
"""Folders of a zip function's read-only files: the runtime and the operating system."""
PAGE = 4096


def write_file(size: int) -> int:
    """Write a file to /tmp. Returns its bytes."""
    block = os.urandom(BUFFER)
    with FILE.open("wb", buffering=0) as file:
        for _ in range(size // BUFFER):
            file.write(block)
    return size // BUFFER * BUFFER


def read_file(path: Path, limit: int) -> int:
    """Bytes read, at most `limit`, into one small buffer: RSS does not grow."""
    done, buffer = 0, memoryview(bytearray(BUFFER))
    with path.open("rb", buffering=0) as file:
        while done < limit and (count := file.readinto(buffer[: limit - done])):
            done += count
    return done


def read_folders(folders: tuple[str, ...], limit: int) -> int:
    """Bytes read of what is below `folders`, at most `limit`."""
    done = 0
    for path in _files(folders):
        if done >= limit:
            break
        try:
            done += read_file(path, limit - done)
        except OSError:
            continue  # not ours to read
    return done


class Mapped:
    """Files below `folders`, mapped and touched page by page, at most `limit` bytes. RSS has them until the end."""

    def __init__(self, folders: tuple[str, ...], limit: int) -> None:
        self.bytes = 0
        self._maps: list[mmap.mmap] = []
        for path in _files(folders):
            if self.bytes >= limit:
                break
            try:
                self._map(path, limit - self.bytes)
            except (OSError, ValueError):
                continue  # not ours to read, or empty

    def _map(self, path: Path, limit: int) -> None:
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), min(path.stat().st_size, limit), prot=mmap.PROT_READ)
        for at in range(0, len(mapped), PAGE):
            mapped[at]
        self._maps.append(mapped)
        self.bytes += len(mapped)

    def close(self) -> None:
        for mapped in self._maps:
            mapped.close()


def _files(folders: tuple[str, ...]) -> Iterator[Path]:
    for folder in folders:
        for parent, _, names in os.walk(folder):
            paths = (Path(parent, name) for name in sorted(names))
            yield from (path for path in paths if path.is_file() and not path.is_symlink())


# --- who has the event first, and when does everything stop between two invocations? ----------------------------------

NOTES = TMP / "truemem-probe.notes"
LATE = TMP / "truemem-probe.late"
"""While this file is there, the extension is the last that asks for the next event."""


def note(*fields: object) -> None:
    """Append a line. One small write, so that lines of two processes do not mix."""
    with NOTES.open("ab", buffering=0) as file:
        file.write((" ".join(map(str, fields)) + "\n").encode())


def noted(kind: str) -> list[list[str]]:
    """The fields of all lines of a kind, oldest first. Raises FileNotFoundError if there is no note yet."""
    lines = (line.split() for line in NOTES.read_text().splitlines())
    return [fields for first, *fields in lines if first == kind]


GAP_NS = 500_000_000
LIFE_S = 60
"""After that the ticker ends by itself."""

STARTED: dict[str, int] = {}
"""When the handler began with each `order` event: CLOCK_MONOTONIC, ns."""
_idle: dict[str, Any] = {}


def arrivals() -> list[float]:
    """For each `order` event by how much the extension had it before the handler began. Below 0: it came later. µs."""
    events = {request: int(came) for request, came in noted("event")}
    return [round((began - events[request]) / 1e3, 1) for request, began in STARTED.items() if request in events]


def before_the_freeze() -> None:
    """Start the ticker. From the next event on, the extension is the last to ask for its next one. Raises OSError."""
    ticker = subprocess.Popen([sys.executable, __file__, "ticker"], stdout=subprocess.PIPE)
    assert ticker.stdout
    ticker.stdout.readline()
    LATE.touch()
    _idle.update(ticker=ticker, monotonic=time.monotonic_ns(), wall=time.time_ns())


def after_the_freeze() -> dict[str, Any]:
    """What both clocks say about the time between, and when the ticker stopped. Milliseconds. Raises OSError."""
    monotonic, wall = time.monotonic_ns(), time.time_ns()
    ticker = _idle.pop("ticker", None)
    if ticker is None:
        raise OSError(0, "this process was not there before the freeze")
    LATE.unlink(missing_ok=True)
    time.sleep(0.05)  # the ticker notes its gap
    ticker.kill()
    ticker.stdout.close()
    ticker.wait(10)
    found: dict[str, Any] = {"monotonicMs": _ms(monotonic - _idle["monotonic"]), "wallMs": _ms(wall - _idle["wall"])}
    asked = [int(at) for (at,) in noted("next") if _idle["monotonic"] < int(at) < monotonic]
    gaps = [tuple(map(int, gap)) for gap in noted("gap")]
    gaps = [gap for gap in gaps if gap[0] >= _idle["monotonic"]]
    if gaps:
        before, length, wall_length = gaps[-1]
        found["stopped"] = {"monotonicMs": _ms(length), "wallMs": _ms(wall_length)}
        if asked:
            # The last tick may be a millisecond before the freeze, so before the request as well.
            found["stopped"]["afterLastNextMs"] = max(0.0, _ms(before - max(asked)))
    return found


def _ms(nanoseconds: int) -> float:
    return round(nanoseconds / 1e6, 2)


def tick() -> None:
    last, wall = time.monotonic_ns(), time.time_ns()
    end = last + LIFE_S * 1_000_000_000
    print(flush=True)  # it runs
    while last < end:
        time.sleep(0.001)
        now, wall_now = time.monotonic_ns(), time.time_ns()
        if max(now - last, wall_now - wall) > GAP_NS:
            note("gap", last, now - last, wall_now - wall)
        last, wall = now, wall_now


def main() -> None:
    """The second process."""
    for line in sys.stdin:
        name, _, pid = line.strip().partition("\t")
        print(json.dumps(attempt(OTHER[name], int(pid))), flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["ticker"]:
        tick()
    else:
        main()
