"""Settles a JVM by its own attach protocol, and reads what is live in it: what jcmd does, without a JDK.

A file asks the JVM to listen, SIGQUIT has it look for that file; then it listens at /tmp/.java_pidPID, and runs the
diagnostic commands of jcmd (HotSpot: attachListener_posix.cpp, LinuxAttach's VirtualMachineImpl.java).
"""

from __future__ import annotations

import math
import os
import re
import signal
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ...local.configuration.function import Function

LISTENS_S = 5.0
ANSWERS_S = 30.0
LOOK_S = 0.01
PROTOCOL = "1"
COLLECTIONS = 4
"""In all, the histogram's own included. What a finalizer or a cleaner lets go of, the next collection frees; and the
serial collector moves all objects together in each fourth one alone (MarkSweepAlwaysCompactCount): with any other
number what it leaves would seem to come and go."""
IDLE_S, IDLE_PART, MOST_IDLE_S = 0.02, 0.05, 0.5
"""It is idle when it has used this part of so long at most. It is waited for so long at most: the compiler holds
memory while it works."""

SOFT, BUFFER = "java.lang.ref.SoftReference", "java.nio.DirectByteBuffer"
_TOTAL = re.compile(r"^Total\s+\d+\s+(\d+)", re.M)
_CLASS = re.compile(r"^\s*\d+:\s+(\d+)\s+(\d+)\s+(\S+)", re.M)
_CACHES = re.compile(r"^.*\.(?:common\.cache\.LocalCache|caffeine\.cache\.)", re.M)
_HEIR = re.compile(r"^[| ]*\|--([^/\s]+)", re.M)
_METASPACE = re.compile(r"Metaspace\s+used (\d+)K")
_CLASSES = re.compile(r"(\d+) loaders, (\d+) classes")
OPTIONS, TRACKING = "JAVA_TOOL_OPTIONS", "-XX:NativeMemoryTracking=summary"
"""A JVM reads the variable wherever it is started. With the option it says whose what it has of malloc is."""
OWN = ("Compiler", "Arena Chunk", "GC")
"""What it takes of malloc and gives back as it likes: a JVM 25 keeps 7 MiB of arenas for its compiler that is idle."""
DIRECT = "Other"
"""What comes of Unsafe.allocateMemory: direct buffers (JDK 11 and newer)."""
STACKS = "stacks"
_STACKS = re.compile(r"\(stack: reserved=\d+KB, committed=(\d+)KB")
_PART = re.compile(r"^- +(.+) \(reserved=.*\n((?: .*\n)*)", re.M)
_OF_MALLOC = re.compile(r"\((?:malloc|arena)=(\d+)KB")


def tracked(function: Function, environment: Mapping[str, str]) -> Function:
    """The function with native memory tracking, should it start a JVM: an option of its own in `environment` wins."""
    value = f"{TRACKING} {environment.get(OPTIONS, '')}".strip()
    return replace(function, variables={**function.variables, OPTIONS: value})


def collected(pid: int) -> str:
    """Collect the garbage of this JVM, which must run, and return the histogram of the classes that live. Raises
    OSError, ValueError if it does not answer."""
    for _ in range(COLLECTIONS - 1):
        run(pid, "GC.run")
    return run(pid, "GC.class_histogram")


def sizes(histogram: str) -> dict[str, tuple[int, int]]:
    """Objects and bytes of each class of a histogram, as the JVM writes it. Hidden ones of one name are one."""
    found: dict[str, tuple[int, int]] = {}
    for count, size, of in _CLASS.findall(histogram):
        name = of.partition("/0x")[0].partition("+0x")[0]
        before = found.get(name, (0, 0))
        found[name] = before[0] + int(count), before[1] + int(size)
    return found


def settled_kib(pid: int, histogram: str = "") -> dict[str, float]:
    """Collect the garbage of this JVM, which must run, wait until it is idle, and return what it keeps: `heap`, live
    objects, KiB (`Total` of GC.class_histogram), `metaspace`, KiB, the numbers of `classes` and of `soft` references (0
    before JDK 10 and 9), of direct `buffers` and of classes of `caches` that may have a bound; with TRACKING also its
    `own` use of malloc, what is `direct` there, and its threads' `stacks` as far as they were touched, KiB.
    `histogram`: what `collected` returned, if that was done. Raises OSError, ValueError if it does not answer."""
    histogram = histogram or collected(pid)
    total = _TOTAL.search(histogram)
    of_classes = run(pid, "VM.metaspace")
    metaspace = _METASPACE.search(run(pid, "GC.heap_info") + of_classes)  # JDK 25 says it in the second
    if total is None or metaspace is None:
        raise ValueError("the JVM's answer is not understood")
    classes = _CLASSES.search(of_classes)
    soft = {SOFT}
    with suppress(ValueError):
        soft |= {*_HEIR.findall(run(pid, f"VM.class_hierarchy -s {SOFT}").partition(SOFT)[2])}
    wait_until_idle(pid)
    native = run(pid, "VM.native_memory")
    parts, stacks = _PART.findall(native), _STACKS.search(native)
    of_malloc = {name: float(sum(map(int, _OF_MALLOC.findall(sizes)))) for name, sizes in parts}
    live = {name: float(count) for count, _, name in _CLASS.findall(histogram)}
    return {
        "heap": int(total[1]) / 1024,
        "metaspace": float(metaspace[1]),
        "classes": float(classes[2] if classes else 0),
        "soft": sum(live.get(name, 0.0) for name in soft),
        "buffers": live.get(BUFFER, 0.0),
        "caches": float(len(_CACHES.findall(histogram))),
        **({"own": sum(of_malloc.get(name, 0.0) for name in OWN)} if of_malloc else {}),
        **({"direct": of_malloc[DIRECT]} if DIRECT in of_malloc else {}),
        **({STACKS: float(stacks[1])} if stacks else {}),
    }


def wait_until_idle(pid: int) -> None:
    """Wait until hardly any of this process's threads run, for MOST_IDLE_S at most."""
    until, before = time.monotonic() + MOST_IDLE_S, -math.inf
    while time.monotonic() < until:
        now = 0
        for each in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):  # it has ended
                now += int((each / "schedstat").read_text().split()[0])
        if now - before < IDLE_PART * IDLE_S * 1e9:
            return
        before = now
        time.sleep(IDLE_S)


def run(pid: int, command: str) -> str:
    """The answer to a diagnostic command. Raises OSError, ValueError."""
    path = _listening(pid)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
        made.settimeout(ANSWERS_S)
        made.connect(str(path))
        made.sendall("".join(f"{word}\0" for word in (PROTOCOL, "jcmd", command, "", "")).encode())
        answer = b"".join(iter(lambda: made.recv(65536), b"")).decode(errors="replace")
    code, _, text = answer.partition("\n")
    if code != "0":
        raise ValueError(f"{command}: {text[:200]}")
    return text


def _listening(pid: int) -> Path:
    """The socket at which the JVM listens. Raises OSError if it does not."""
    root = Path(f"/proc/{pid}/root")
    inner = pid_inside(pid)
    path = root / "tmp" / f".java_pid{inner}"
    if path.is_socket():
        return path
    about = Path(f"/proc/{pid}").stat()
    asked = Path(f"/proc/{pid}/cwd/.attach_pid{inner}")
    try:
        asked.touch()
    except OSError:
        asked = root / "tmp" / asked.name
        asked.touch()
    try:
        with suppress(PermissionError):
            os.chown(asked, about.st_uid, about.st_gid)
        os.kill(pid, signal.SIGQUIT)
        until = time.monotonic() + LISTENS_S
        while not path.is_socket():
            if time.monotonic() > until:
                raise TimeoutError("the JVM does not listen")
            time.sleep(LOOK_S)
    finally:
        with suppress(OSError):
            asked.unlink()
    return path


def pid_inside(pid: int) -> int:
    """Its pid as it sees it itself."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("NSpid:"):
            return int(line.split()[-1])
    return pid


def is_hotspot(pid: int) -> bool:
    """Has the process mapped HotSpot, and lets itself be attached to? Others would end at SIGQUIT, or never answer."""
    process = Path(f"/proc/{pid}")
    with suppress(OSError):
        options = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        is_closed = b"+DisableAttachMechanism" in options
        maps = (process / "maps").read_text(encoding="utf-8", errors="replace")
        return "/libjvm.so" in maps and not is_closed
    return False
