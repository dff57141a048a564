"""A function that has started a daemon, which is independent of it.

Event: {"do": "start" | "grow" | "run" | "idle"}. `grow` makes the daemon take memory until the kernel kills it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

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


def handler(event: dict[str, Any], _: object) -> dict[str, Any]:
    """See the module."""
    match event["do"]:
        case "start":
            start()
        case "grow":
            grow()
        case "run":
            subprocess.run([sys.executable, "-IS", "-c", ""], check=True)
    return {}
