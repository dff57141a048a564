"""Stands for a runtime and its function: does what it is told on stdin, and answers on stdout.

A line is `hold KIB MS` (touch that much, keep it so long, free it) or `fork COUNT` (so many children, at once, which
touch a little and end). The answer repeats the line. Like a runtime it keeps a connection to the API, on which nothing
is said.
"""

from __future__ import annotations

import mmap
import os
import socket
import sys
import time


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


host, _, port = os.environ["AWS_LAMBDA_RUNTIME_API"].rpartition(":")
connection = socket.create_connection((host, int(port)))
print("ready", flush=True)
for line in sys.stdin:
    what, first, *rest = line.split()
    if what == "hold":
        hold(int(first), float(rest[0]))
    else:
        fork(int(first))
    sys.stdout.write(line)
    sys.stdout.flush()
