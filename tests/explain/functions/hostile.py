"""Leaks beside objects whose own code must not run. The line that keeps is marked with its handler's name."""

from __future__ import annotations

import sys
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

ran: list[str] = []
POOL = ThreadPoolExecutor(2)
SEEN: list[bytearray] = []
KEPT: list[Any] = []
KEYED: dict[Any, Any] = {}
count = 0


def noted(name: str) -> Any:
    """A method that says that it ran, and raises."""

    def method(self: object, *_: object) -> Any:
        ran.append(name)
        raise RuntimeError(name)

    return method


def payload() -> bytearray:
    global count  # noqa: PLW0603
    count += 1
    if ran:
        raise AssertionError(f"the tracer ran {ran}")
    return bytearray(8000)


class Attributes(dict[str, Any]):
    """As addict and munch are: to read an attribute makes one."""

    def __getattr__(self, name: str) -> Any:
        ran.append(name)
        self[name] = Attributes()
        return self[name]


class Sequence(list[Any]):
    __len__ = __iter__ = __getitem__ = noted("a list's method")


class Proxy:
    def __init__(self, data: Any) -> None:
        object.__setattr__(self, "data", data)

    __class__ = property(noted("__class__"))
    __getattribute__ = noted("__getattribute__")
    __repr__ = noted("__repr__")


class Key:
    def __init__(self) -> None:
        self.number = count

    def __hash__(self) -> int:
        return self.number

    __repr__ = noted("__repr__")


class Odd(type):
    __eq__ = noted("a metaclass's __eq__")
    __hash__ = None  # type: ignore[assignment]
    __module__ = property(noted("a metaclass's __module__"))


class Strange(metaclass=Odd):
    pass


CONF = Attributes()
SEQUENCE = Sequence()
strange = Strange()


def attributes(event: Any, context: object) -> None:
    data = payload()
    CONF[f"k{count}"] = data  # attributes


def sequence(event: Any, context: object) -> None:
    data = payload()
    list.append(SEQUENCE, data)  # sequence


def proxies(event: Any, context: object) -> None:
    data = payload()
    KEPT.append((Proxy(data), strange))  # proxies


def keys(event: Any, context: object) -> None:
    data, key = payload(), Key()
    KEYED[key] = data  # keys
    key.number = -1


def remember(data: bytearray) -> None:
    SEEN.append(data)


def work() -> int:
    remember(bytearray(8000))  # pool
    return count


def pool(event: Any, context: object) -> int:
    """Keeps in a thread that is there before the handler is watched."""
    answer = POOL.submit(work)
    return answer.result()


def own(frame: object, event: str, argument: object) -> None:
    """A trace function of the function's own."""


def traces(event: Any, context: object) -> None:
    global count  # noqa: PLW0603
    if count and sys.gettrace() is not own:
        raise AssertionError("the trace function is gone")
    sys.settrace(own)
    threading.settrace(own)
    count += 1
    KEPT.append(bytearray(8000))  # traces


def stops(event: Any, context: object) -> None:
    """Ends the tracer's own means."""
    KEPT.append(payload())  # stops
    if count == 50:
        tracemalloc.stop()
