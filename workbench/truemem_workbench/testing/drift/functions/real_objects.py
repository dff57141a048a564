"""Programs that keep Python objects which are not needed any more."""

from __future__ import annotations

import asyncio
import functools
import logging
import random
import re
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from .real_requests import KIB, MIB, Program, body, handler_of, rows

_log = logging.getLogger("handled")
_log.propagate = False


class _OfRequest(logging.Formatter):
    """Writes what is known of the request beside each line."""

    def __init__(self, request: bytes) -> None:
        super().__init__("%(levelname)s %(message)s")
        self.request = request


def log_handlers(n: int, chance: random.Random) -> None:
    """Each invocation adds a handler with a formatter of its own, and every line goes to all of them."""
    handler = logging.NullHandler()
    handler.setFormatter(_OfRequest(body(chance, 12 * KIB)))
    _log.addHandler(handler)
    _log.warning("request %d: %s", n, "x" * 100)


_by_key: dict[int, bytes] = {}


def one_in_ten(n: int, chance: random.Random) -> None:
    """Keeps 80 KiB under a new key in one invocation of ten."""
    if chance.random() < 0.1:
        _by_key[n] = body(chance, 80 * KIB)


class _View:
    """Observes a subject that lives for ever, which keeps it alive."""

    def __init__(self, state: bytes) -> None:
        self.state = state

    def changed(self, what: int) -> None:
        """Called by the subject."""


_observers: list[Callable[[int], None]] = []


@functools.lru_cache(maxsize=24)
def _page(key: int) -> bytes:
    return body(random.Random(key), 200 * KIB)


def listeners(n: int, chance: random.Random) -> None:
    """A view of 10 KiB observes and is never told to stop. A full cache beside it moves much more."""
    _page(chance.randrange(60))
    _observers.append(_View(body(chance, 10 * KIB)).changed)
    for observer in _observers[-10:]:
        observer(n)


_callbacks: list[Callable[[], int]] = []


def closures(n: int, chance: random.Random) -> None:
    """A callback for later keeps the rows of its request. Beside it there is a temporary of up to 32 MiB."""
    found = rows(chance, 50)
    _callbacks.append(lambda: len(found) + n)
    b"".join([body(chance, 2 * MIB)] * 2)


_errors: list[Exception] = []


def _fails(request: bytes) -> None:
    parts = [request[at : at + KIB] for at in range(0, len(request) // 2, KIB)]
    raise ValueError(f"{len(parts)} parts")


def exceptions(n: int, chance: random.Random) -> None:
    """Three requests of ten fail. Their errors are kept to be counted; their tracebacks keep 60 KiB of locals."""
    if chance.random() < 0.3:
        try:
            _fails(body(chance, 40 * KIB))
        except ValueError as error:
            _errors.append(error)


_series: dict[tuple[str, tuple[str, ...]], list[float]] = {}


def metric_labels(n: int, chance: random.Random) -> None:
    """Histograms by label, as a metrics client keeps them. One of the labels is the user, of whom there are many."""
    users = [chance.randrange(10**9) for _ in range(chance.randrange(4, 13))]
    for user in [*users, *range(20)]:
        for name in ("request_seconds", "request_bytes"):
            found = _series.setdefault((name, (f"user-{user}", "GET", "/item")), [0.0] * 12)
            found[chance.randrange(12)] += chance.random()


class _Report:
    """A report on one request."""

    def __init__(self, request: bytes) -> None:
        self.request = request

    @functools.cache  # noqa: B019 - it is the leak
    def part(self, number: int) -> bytes:
        """One part of it. The cache keeps the whole report too: `self` is in the key."""
        return self.request[number * KIB : (number + 2) * KIB]


def method_cache(n: int, chance: random.Random) -> None:
    """Three parts of a report of 12 KiB are looked at, through a cache without bound on the method."""
    report = _Report(body(chance, 12 * KIB))
    for number in (0, 1, 0, 2):
        report.part(number)


_open: list[Iterator[bytes]] = []


def _lines(request: bytes) -> Iterator[bytes]:
    for at in range(0, len(request), 80):
        yield request[at : at + 80]


def generators(n: int, chance: random.Random) -> None:
    """A generator over 20 KiB is asked for its first line, and never closed."""
    lines = _lines(body(chance, 20 * KIB))
    next(lines)
    _open.append(lines)


_tasks: set[asyncio.Task[None]] = set()


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


async def _waits(request: bytes) -> None:
    await asyncio.Event().wait()


async def _serve(chance: random.Random) -> None:
    _tasks.add(asyncio.create_task(_waits(body(chance, 14 * KIB))))
    await asyncio.gather(*(asyncio.sleep(0, body(chance, 30 * KIB)) for _ in range(8)))


def tasks(n: int, chance: random.Random) -> None:
    """A task in the background holds 14 KiB and waits for what never comes."""
    _loop().run_until_complete(_serve(chance))


def _stays(request: bytes) -> None:
    threading.Event().wait()


def threads(n: int, chance: random.Random) -> None:
    """A thread that waits for ever with its request, in one invocation of five."""
    if n % 5 == 0:
        threading.Thread(target=_stays, args=(body(chance, 40 * KIB),), daemon=True).start()


_kept: list[bytes] = []


def garbage_and_leak(n: int, chance: random.Random) -> None:
    """Puts 10 KiB into a list of the module each time. Garbage in cycles hides it: the collector seldom runs."""
    _kept.append(body(chance, 10 * KIB))
    for _ in range(40):
        node: dict[str, Any] = {"load": body(chance, 4 * KIB)}
        node["self"] = node


_routes: dict[str, re.Pattern[str]] = {}


def patterns_kept(n: int, chance: random.Random) -> None:
    """A pattern by customer is compiled and kept, as are its words: they are interned."""
    for which in range(chance.randrange(2, 8)):
        words = [sys.intern(f"customer-{n}-{which}-{chance.randrange(10**6)}") for _ in range(6)]
        _routes[words[0]] = re.compile("|".join(words))


LEAKS: dict[str, Program] = {
    "log handlers": log_handlers,
    "dictionary, 1 of 10": one_in_ten,
    "event listeners": listeners,
    "closures": closures,
    "exceptions": exceptions,
    "metric labels": metric_labels,
    "method cache": method_cache,
    "generators": generators,
    "asyncio tasks": tasks,
    "threads": threads,
    "garbage and leak": garbage_and_leak,
    "patterns kept": patterns_kept,
}
CALM: dict[str, Program] = {}

handler = handler_of(LEAKS)
