"""Functions whose processes run out of memory. With GREEDY the init phase takes memory until it is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

MIB = 1 << 20
DAEMON = """
import os, mmap, signal, sys
signal.sigwait([signal.SIGUSR1])
chunk = bytes(1 << 20)
held = []
while True:
    held.append(mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    held[-1].write(chunk)
"""
daemons: list[int] = []


def start() -> None:
    """Start the daemon. Its parent ends at once. SIGUSR1 stays pending until the daemon waits for it."""
    read, write = os.pipe()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    between = os.fork()
    if not between:
        made = os.posix_spawn(sys.executable, [sys.executable, "-IS", "-c", DAEMON], {}, setsid=True)
        os.write(write, str(made).encode())
        os._exit(0)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
    os.waitpid(between, 0)
    daemons.append(int(os.read(read, 20)))


def grow() -> None:
    """Wait for its death: its memory is then gone, also if it was not waited for."""
    os.kill(daemons[-1], signal.SIGUSR1)
    while is_alive(daemons[-1]):
        time.sleep(0.005)


def is_alive(pid: int) -> bool:
    """True if it is alive. A zombie is not."""
    try:
        return "\nVmRSS:" in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def daemon(event: dict[str, Any], _: object) -> dict[str, Any]:
    """A daemon that is independent of the function. {"do": "start" | "grow" | "run" | "idle"}: `grow` makes it take
    memory until the kernel kills it."""
    match event["do"]:
        case "start":
            start()
        case "grow":
            grow()
        case "run":
            subprocess.run([sys.executable, "-IS", "-c", ""], check=True)
    return {}


def of_cgroup(*names: str) -> str:
    """The first of these files of our memory cgroup."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        folder = "/sys/fs/cgroup/memory" if "memory" in controllers.split(",") else "/sys/fs/cgroup"
        for name in names:
            if (file := Path(f"{folder}{path}/{name}")).exists():
                return file.read_text()
    raise OSError("no memory cgroup")


def held() -> int:
    """What the cgroup holds, bytes."""
    return int(of_cgroup("memory.usage_in_bytes", "memory.current"))


def kills() -> int:
    """The kernel's count."""
    return int(of_cgroup("memory.oom_control", "memory.events").partition("oom_kill ")[2].split()[0])


GREEDY_CHILD = "import time; time.sleep(0.02); held = b'x' * (400 << 20)"
children: list[subprocess.Popen[bytes]] = []


def leaves(event: dict[str, Any], _: object) -> dict[str, Any]:
    """{"do": "leave"} starts a child that takes memory until the kernel kills it, and does not wait for it. Says how
    many kills there were when it began, and when it ended."""
    before = kills()
    if event["do"] == "leave":
        children.append(subprocess.Popen([sys.executable, "-ISc", GREEDY_CHILD]))
    elif event["do"] == "run":
        subprocess.run(["true"], check=True)
    return {"before": before, "after": kills()}


def family(event: dict[str, Any], _: object) -> None:
    """Several processes, which wait until their time is over. {"mib": N, "children": M, "until": MiB}: touches N MiB
    and forks M children, which share them. Then it touches more, on its own, until its cgroup holds `until`."""
    kept = [bytes(64) * (event.get("mib", 0) * MIB // 64)]
    for _child in range(event.get("children", 0)):
        if os.fork() == 0:
            signal.pause()
            os._exit(0)
    while held() < event.get("until", 0) * MIB:
        kept.append(bytes(range(256)) * (MIB // 1024))
    if "mib" in event:
        time.sleep(900)


def handler(event: dict[str, Any], _: object) -> dict[str, Any]:
    """Never reached with GREEDY."""
    return event


greedy: list[bytes] = []
while "GREEDY" in os.environ:
    greedy.append(b"x" * (2 << 20))
    time.sleep(0.005)
