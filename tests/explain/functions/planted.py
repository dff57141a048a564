"""Leaks of one kind each. The line that keeps is marked with its handler's name."""

from __future__ import annotations

import asyncio
import collections
import ctypes
import functools
import json
import logging
import os
import threading
import time
from typing import Any

from order_book import Store, parse  # type: ignore[import-not-found]

ORDERS: list[Any] = []
RAW: dict[int, bytearray] = {}
STATE: dict[str, dict[int, Any]] = {"orders": {}}
TASKS: list[Any] = []
ERRORS: list[Exception] = []
PRICES: list[float] = []
BOUNDED: collections.OrderedDict[int, Any] = collections.OrderedDict()
LOOP = asyncio.new_event_loop()
log = logging.getLogger("orders")
store = Store()
LIBC = ctypes.CDLL(None)
LIBC.malloc.restype = ctypes.c_void_p
head: Any = None
count = 0


def body() -> str:
    global count  # noqa: PLW0603
    count += 1
    return json.dumps({"order": count, "note": "x" * 8000})


def module_list(event: Any, context: object) -> None:
    order = parse(body())
    order["known"] = True
    ORDERS.append(order)  # module_list


def prices(event: Any, context: object) -> None:
    """400 floats of 24 bytes, each in a place of 32, and the list's 8 bytes for each, of which an eighth is room."""
    PRICES.extend(float(number) + 0.5 for number in range(400))  # prices


def dict_cache(event: Any, context: object) -> None:
    order = parse(body())
    orders = STATE["orders"]
    orders[order["order"]] = order  # dict_cache


def untracked(event: Any, context: object) -> None:
    """A dict of numbers and bytes alone, which the garbage collector does not know."""
    order = json.loads(body())
    RAW[order["order"]] = bytearray(8000)  # untracked


def instance(event: Any, context: object) -> None:
    store.put(count, parse(body()))


@functools.cache  # cached
def price(number: int) -> Any:
    return parse(body())


def cached(event: Any, context: object) -> None:
    price(count)


def handlers(event: Any, context: object) -> None:
    added = logging.StreamHandler()
    added.buffer = bytearray(8000)  # type: ignore[attr-defined]
    log.addHandler(added)  # handlers


def threads(event: Any, context: object) -> None:
    data, end = bytearray(8000), threading.Event()
    thread = threading.Thread(target=lambda: (end.wait(), data), daemon=True)
    thread.start()  # threads


async def wait(data: bytearray) -> bytearray:
    await asyncio.get_running_loop().create_future()
    return data


async def begin() -> None:
    task = asyncio.create_task(wait(bytearray(8000)))
    TASKS.append(task)  # tasks
    await asyncio.sleep(0)


def tasks(event: Any, context: object) -> None:
    LOOP.run_until_complete(begin())


def refuse(data: bytearray) -> None:
    raise ValueError("no such order")


def errors(event: Any, context: object) -> None:
    try:
        refuse(bytearray(8000))
    except ValueError as error:
        ERRORS.append(error)  # errors


def callbacks(event: Any, context: object) -> None:
    data = bytearray(8000)
    store.on("saved", lambda: data)


class Link:
    def __init__(self, after: Any) -> None:
        self.after = after
        self.data = bytearray(8000)  # linked


def linked(event: Any, context: object) -> None:
    global head  # noqa: PLW0603
    head = Link(head)


def native(event: Any, context: object) -> None:
    block = LIBC.malloc(8000)  # native
    ctypes.memset(block, 1, 8000)


def native_ends(event: Any, context: object) -> None:
    """Leaks, and its process ends before the last look."""
    global count  # noqa: PLW0603
    native(event, context)
    count += 1
    if count % 100 == 99:
        os._exit(1)


def bounded(event: Any, context: object) -> None:
    """Keeps 50 orders, and is no leak."""
    order = parse(body())
    BOUNDED[order["order"]] = order
    if len(BOUNDED) > 50:
        BOUNDED.popitem(last=False)


def ends(event: Any, context: object) -> None:
    """Leaks, and its process ends now and then."""
    module_list(event, context)
    if count % 150 == 149:
        os._exit(1)


def raises(event: Any, context: object) -> None:
    module_list(event, context)
    raise ValueError("no such order")


def forks(event: Any, context: object) -> None:
    """Leaks, and has a child process each time."""
    module_list(event, context)
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def hangs(event: Any, context: object) -> None:
    """Leaks, and then does not answer."""
    module_list(event, context)
    if count > 70:
        time.sleep(3600)
