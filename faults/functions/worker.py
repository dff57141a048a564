"""Stands for a runtime and its function: does what it is told on stdin, and answers on stdout.

A line is `hold KIB MS` (touch that much, keep it so long, free it) or `fork COUNT` (so many children, at once, which
touch a little and end). The answer repeats the line. Like a runtime it keeps a connection to the API, on which nothing
is said.

`worker.py runtime` takes such lines as events from the Runtime API instead, and answers each with its line and how many
connections have broken so far: it asks again where one does. `worker.py stand-in ADDRESS` tells the sidecar what the
wrapper of exact mode does: the sidecar then connects to ADDRESS for each connection that it gets. Another program
speaks for the runtime. It answers with the sidecar's port first.
"""

from __future__ import annotations

import http.client
import mmap
import os
import socket
import sys
import time
from pathlib import Path
from typing import NoReturn


def hold(kib: int, ms: float) -> None:
    """Touch each page of `kib` KiB."""
    if kib:
        block = mmap.mmap(-1, kib << 10, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for at in range(0, kib << 10, 4096):
            block[at] = 1
    if ms:
        time.sleep(ms / 1000)
    if kib:
        block.close()


def fork(count: int) -> None:
    """Children that live for a few milliseconds."""
    children = []
    for number in range(count):
        child = os.fork()
        if not child:
            hold(256, number % 5)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def do(line: str) -> None:
    """One line's work."""
    what, first, *rest = line.split()
    if what == "hold":
        hold(int(first), float(rest[0]))
    else:
        fork(int(first))


def door(api: str, upstream: str) -> int:
    """The port at which the sidecar of that API listens for the runtime, told where that wants to go; 0 without one
    (layer/exact.c)."""
    start = f"@truemem/exact/{api}/"
    for name in Path("/proc/net/unix").read_text().split():
        if name.startswith(start):
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as letters:
                letters.sendto(upstream.encode(), "\0" + name[1:])
            return int(name[len(start) :])
    return 0


class Api:
    """The runtime's connection. It is opened again if it breaks."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._address = host, int(port)
        self._connection = http.client.HTTPConnection(*self._address)
        self.broken = 0

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[str, bytes]:
        """Request id and body of what is answered."""
        while True:
            try:
                self._connection.request(method, f"/2018-06-01/runtime/invocation/{path}", body)
                response = self._connection.getresponse()
                return response.headers.get("Lambda-Runtime-Aws-Request-Id", ""), response.read()
            except (OSError, http.client.HTTPException):
                self.broken += 1
                self._connection.close()
                self._connection = http.client.HTTPConnection(*self._address)
                time.sleep(0.01)


def run(api: Api) -> NoReturn:
    """Be a runtime."""
    while True:
        name, event = api.ask("GET", "next")
        do(event.decode())
        api.ask("POST", f"{name}/response", event + b" %d" % api.broken)


address = os.environ["AWS_LAMBDA_RUNTIME_API"]
mode = sys.argv[1] if len(sys.argv) > 1 else ""
if mode == "runtime":
    print("ready", flush=True)
    run(Api(address))
if mode == "stand-in":
    print(door(address, sys.argv[2]), flush=True)
else:
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)))
    print("ready", flush=True)
for line in sys.stdin:
    do(line)
    sys.stdout.write(line)
    sys.stdout.flush()
