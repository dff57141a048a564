#!/bin/sh
""":"
# The shell starts Python from here, because the runtime's Python may not be in the PATH of extensions.
PATH="/var/lang/bin:$PATH" exec python3 "$0"

The probe's own extension: notes when each INVOKE comes, and prints lines of several levels if it is told to.

It has no Lambda library and no second thread, so that its arrival times are as near to the event as Python's can be.
"""

from __future__ import annotations

import json
import os
import re
import socket
import time
from pathlib import Path

TMP = Path(os.environ.get("TMPDIR") or "/tmp")
NOTES, LATE = TMP / "truemem-probe.notes", TMP / "truemem-probe.late"
LATE_S = 0.1
"""Longer than the runtime and the sidecar take to ask for their next event."""


def main() -> None:
    own = re.search(rb"Lambda-Extension-Identifier: *([^\r\n]+)", register(), re.IGNORECASE)
    header = f"Lambda-Extension-Identifier: {own[1].decode() if own else ''}"
    while True:
        if LATE.exists():
            time.sleep(LATE_S)
        note(f"next {time.monotonic_ns()}")
        came, answer = ask("GET", "/2020-01-01/extension/event/next", header)
        request = re.search(rb'"requestId": *"([^"]+)"', answer)
        if request is None:
            return  # SHUTDOWN
        note(f"event {request[1].decode()} {came}")
        if os.environ.get("PROBE_LINES"):
            print_lines()


def register() -> bytes:
    """Register under the name of the file. Returns the whole answer."""
    body = '{"events": ["INVOKE", "SHUTDOWN"]}'
    name = f"Lambda-Extension-Name: {Path(__file__).name}"
    return ask("POST", "/2020-01-01/extension/register", name, body)[1]


def ask(method: str, path: str, header: str, body: str = "") -> tuple[int, bytes]:
    """One request. Returns the time of the answer's first bytes (CLOCK_MONOTONIC, ns), and the answer."""
    host, _, port = os.environ["AWS_LAMBDA_RUNTIME_API"].partition(":")
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", header, f"Content-Length: {len(body)}"]
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(("\r\n".join(lines) + "\r\n\r\n" + body).encode())
        answer = connection.recv(65536)
        came = time.monotonic_ns()
        while more := connection.recv(65536):
            answer += more
    return came, answer


def note(line: str) -> None:
    with NOTES.open("ab", buffering=0) as file:
        file.write(f"{line}\n".encode())


def print_lines() -> None:
    """What a log filter may keep or drop: a plain line, and records of two levels."""
    who = f"truemem-probe {os.environ.get('AWS_LAMBDA_FUNCTION_NAME')} extension"
    print(f"{who} plain")
    for level in ("INFO", "ERROR"):
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
        print(json.dumps({"timestamp": stamp, "level": level, "message": f"{who} {level.lower()}"}), flush=True)


if __name__ == "__main__":
    main()
