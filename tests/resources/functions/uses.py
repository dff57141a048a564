"""A function that leaks what is not memory, or only uses it: files, sockets, threads, processes, /tmp."""

from __future__ import annotations

import itertools
import os
import resource
import socket
import subprocess
import tempfile
import threading
from typing import Any

KEPT: list[Any] = []
POOL = 20
MANY = 10_000
BURST = 150
CALLS = itertools.count(1)


def _file() -> None:
    KEPT.append(os.open(os.devnull, os.O_RDONLY))


def _socket() -> None:
    KEPT.append(socket.socket())


def _thread() -> None:
    threading.stack_size(64 * 1024)
    threading.Thread(target=threading.Event().wait, daemon=True).start()


def _process() -> None:
    KEPT.append(subprocess.Popen(["sleep", "300"], stdin=subprocess.DEVNULL))


def _zombie() -> None:
    if not os.fork():
        os._exit(0)


def _many() -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    while len(KEPT) < min(MANY, most - 100):
        _file()


def _fill(kib: int) -> None:
    descriptor, _ = tempfile.mkstemp()
    os.write(descriptor, bytes(1024 * kib))
    os.close(descriptor)


def handler(event: dict[str, Any], context: object) -> dict[str, int]:
    """`do`: what. `every`: only at each of so many calls."""
    calls = next(CALLS)
    do, every = event.get("do", "nothing"), event.get("every", 1)
    if calls % every == 0:
        if do == "pool":
            if len(KEPT) < POOL:
                _socket()
        elif do == "burst":
            for descriptor in [os.open(os.devnull, os.O_RDONLY) for _ in range(BURST)]:
                os.close(descriptor)
        elif do == "burst of threads":
            threads = [threading.Thread(target=int) for _ in range(20)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        elif do == "burst of files":
            with tempfile.TemporaryFile() as scratch:
                scratch.write(bytes(event.get("kib", 1024) * 1024))
        elif do == "tmp":
            _fill(event.get("kib", 1024))
        elif do != "nothing":
            {
                "file": _file,
                "socket": _socket,
                "thread": _thread,
                "process": _process,
                "zombie": _zombie,
                "many": _many,
            }[do]()
    return {"calls": calls, "threads": threading.active_count()}
