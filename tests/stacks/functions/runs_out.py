"""A function that takes memory without end in the way that `case` names; the line that does is marked with its name.
With `mib` it takes so much, and lives."""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any

HELD: list[object] = []


def lists() -> None:
    while True:
        HELD.append("x" * 5000 + str(len(HELD)))  # lists


def dicts() -> object:
    return {number: [number] * 50 for number in range(10**9)}  # dicts


def documents() -> None:
    text = "[" + ",".join(['{"a":[1,2,3]}'] * 500_000) + "]"
    while True:
        HELD.append(json.loads(text))  # documents


def one_call() -> object:
    return bytearray(4 * 2**30)  # one_call


def whole_file() -> object:
    with open("/dev/zero", "rb") as file:  # noqa: PTH123
        return file.read(4 * 2**30)  # whole_file


def generator() -> object:
    def numbers() -> Any:
        while True:
            yield os.urandom(50_000)  # generator

    return list(numbers())


def in_a_thread() -> None:
    def work() -> None:
        while True:
            HELD.append(bytearray(100_000))  # in_a_thread

    threading.Thread(target=work, daemon=True).start()
    time.sleep(60)


def in_a_child() -> None:
    pid = os.fork()
    if not pid:
        while True:
            HELD.append(bytearray(100_000))  # in_a_child
    os.waitpid(pid, 0)


def many_threads() -> None:
    for _ in range(100):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    lists()


def with_another_state() -> None:
    """The function writes into the page that says where its stacks are."""
    path = f"/tmp/.truemem-heap-{os.getpid()}"
    with open(path, "r+b") as file:  # noqa: PTH123
        magic, version, *rest, root = file.read(256).partition(b"\n")[0].split(b" ")
        file.seek(0)
        file.write(b" ".join([magic, version, b"%d" % id(HELD), *rest[1:], root]) + b"\n")
    lists()


def without_a_page() -> None:
    os.unlink(f"/tmp/.truemem-heap-{os.getpid()}")  # noqa: PTH108
    lists()


def in_another_program() -> None:
    os.execvp("tail", ["tail", "-n", "1", "/dev/zero"])  # a line without an end


def handler(event: dict[str, Any], _: object) -> str:
    if "mib" in event:
        HELD.append(bytearray(event["mib"] << 20))
        HELD.clear()
    if "case" in event:
        globals()[event["case"]]()
    return "lives"
