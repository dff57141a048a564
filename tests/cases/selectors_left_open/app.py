"""Runs a command and reads what it prints, by a selector that nothing closes."""

import selectors
import subprocess


def printed(command: list[str]) -> bytes:
    found = b""
    with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0) as process:
        selector = selectors.DefaultSelector()
        selector.register(process.stdout, selectors.EVENT_READ)
        while selector.select() and (part := process.stdout.read(4096)):
            found += part
    return found


def handler(event: object, context: object) -> int:
    return len(printed(["echo", "RUNNING"]))
