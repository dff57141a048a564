"""Programs of Python objects, as real functions have them: `LEAKS` keep what is not needed any more, `CALM` do not.

Each gets requests of many sizes, made from the number of the event alone.
"""

from __future__ import annotations

import asyncio
import functools
import io
import itertools
import json
import logging
import math
import os
import random
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

KIB = 1024
MIB = 2**20
SIGMA = 0.7
"""Of the logarithm of a body's size: one of ten is more than twice the mean."""
Program = Callable[[int, random.Random], None]
"""Gets the number of the invocation, from 0, and the chance that belongs to it."""


def body(chance: random.Random, mean: float, largest: float = 8) -> bytes:
    """Make a body. Its size is log-normal with this mean, in bytes, and at most `largest` times the mean."""
    return chance.randbytes(size(chance, mean, largest))


def size(chance: random.Random, mean: float, largest: float = 8) -> int:
    """The size of such a body."""
    return 1 + int(min(chance.lognormvariate(math.log(mean) - SIGMA**2 / 2, SIGMA), largest * mean))


def rows(chance: random.Random, mean: float) -> list[dict[str, Any]]:
    """Make rows as a parsed request has them, some 350 bytes each: so many in the mean."""
    count = size(chance, mean)
    text = json.dumps([{"id": number, "name": f"row {number}", "price": chance.random()} for number in range(count)])
    made: list[dict[str, Any]] = json.loads(text)
    return made


def handler_of(*programs: Mapping[str, Program]) -> Callable[[dict[str, Any], object], None]:
    """Make a handler. Each invocation answers a request, then does what the program of `BEHAVIOUR` does, by its number
    in this process, from 0: an event that comes again must not turn back the clock of a cache."""
    program = {name: program for each in programs for name, program in each.items()}
    numbers = itertools.count()

    def handler(event: dict[str, Any], context: object) -> None:
        number = next(numbers)
        chance = random.Random(number)
        rows(chance, 200)
        program[os.environ["BEHAVIOUR"]](number, chance)

    return handler


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


@functools.lru_cache(maxsize=64)
def _entry(key: int) -> bytes:
    return body(random.Random(key), 64 * KIB)


def bounded_cache(n: int, chance: random.Random) -> None:
    """Room for 64 of 300 items, 64 KiB each in the mean."""
    _entry(chance.randrange(300))


_until: dict[int, tuple[int, bytes]] = {}


def ttl_cache(n: int, chance: random.Random) -> None:
    """Entries of 20 KiB that are valid for 150 invocations. The expired ones go at each tenth."""
    for _ in range(chance.randrange(4)):
        _until[chance.randrange(10**9)] = n + 150, body(chance, 20 * KIB)
    if n % 10 == 0:
        for key in [key for key, (until, _) in _until.items() if until < n]:
            del _until[key]


_full: dict[int, bytes] = {}


def cleared_cache(n: int, chance: random.Random) -> None:
    """A cache without order: it is cleared when it has 700 entries, of 16 KiB."""
    for _ in range(chance.randrange(1, 5)):
        _full[chance.randrange(10**9)] = body(chance, 16 * KIB)
    if len(_full) > 700:
        _full.clear()


@functools.lru_cache(maxsize=4096)
def _item(key: int) -> bytes:
    return body(random.Random(key), 3.5 * KIB)


_ZIPF = [1 / rank for rank in range(1, 5001)]


def zipf_cache(n: int, chance: random.Random) -> None:
    """Room for 4096 of 5000 items of 3.5 KiB, a few of which are wanted often: it fills slowly."""
    for key in chance.choices(range(5000), _ZIPF, k=8):
        _item(key)


def patterns(n: int, chance: random.Random) -> None:
    """Two new patterns each time: `re` keeps 512, so it is full after 256 invocations."""
    for which in "ab":
        re.compile(rf"(?P<{which}{n}>[a-z]+\d{{1,3}}|{n}-(?:x|y|z)+)+")


def garbage_cycles(n: int, chance: random.Random) -> None:
    """Objects in cycles wait for Python's garbage collector."""
    for _ in range(chance.randrange(40)):
        node: dict[str, Any] = {"load": body(chance, 6 * KIB)}
        node["self"] = node


def big_temporary(n: int, chance: random.Random) -> None:
    """A file is unpacked and looked at: 1 MiB in the mean, and one of thirty is of 20 to 80 MiB."""
    packed = body(chance, 256 * KIB)
    whole = packed * (4 if chance.random() > 1 / 30 else chance.randrange(80, 320) * MIB // 4 // len(packed))
    whole.count(b"x")


def json_sizes(n: int, chance: random.Random) -> None:
    """Requests of a few rows to 10,000 are parsed, sorted, and written."""
    found = rows(chance, min(chance.lognormvariate(6, 1.2), 1250))
    json.dumps(sorted(found, key=lambda row: float(row["price"])), indent=1)


_records: list[str] = []


def log_buffer(n: int, chance: random.Random) -> None:
    """Records wait until there are 60 requests of them, and are sent together."""
    _records.extend(f"{n} {chance.randbytes(40).hex()}" for _ in range(size(chance, 200)))
    if n % 60 == 59:
        "\n".join(_records).encode()
        _records.clear()


def _parts(request: bytes, count: int) -> None:
    sorted(request[at : at + 100] for at in range(0, len(request), max(1, len(request) // count)))


def threads_end(n: int, chance: random.Random) -> None:
    """One to six threads for each request, which end with it."""
    made = [
        threading.Thread(target=_parts, args=(body(chance, 100 * KIB), chance.randrange(10, 5000)))
        for _ in range(chance.randrange(1, 7))
    ]
    for thread in made:
        thread.start()
    for thread in made:
        thread.join()


async def _fetch(chance: random.Random) -> int:
    got = body(chance, 40 * KIB)
    await asyncio.sleep(0)
    return len(got)


async def _gather(chance: random.Random) -> None:
    await asyncio.gather(*(_fetch(chance) for _ in range(chance.randrange(1, 40))))


def asyncio_done(n: int, chance: random.Random) -> None:
    """A loop for each request, with up to 39 tasks that are all done at its end."""
    asyncio.run(_gather(chance))


def strings(n: int, chance: random.Random) -> None:
    """A page is built from its parts: by adding, in a stream, and by replacing."""
    added = ""
    stream = io.StringIO()
    for number in range(size(chance, 1500)):
        added += f"<tr><td>{number}</td><td>{chance.random()}</td></tr>\n"
        stream.write(f"{number};")
    f"{added}\n{stream.getvalue()}".replace("<td>", "<th>").encode()


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
CALM: dict[str, Program] = {
    "bounded cache": bounded_cache,
    "TTL cache": ttl_cache,
    "cleared cache": cleared_cache,
    "Zipf cache": zipf_cache,
    "patterns": patterns,
    "garbage cycles": garbage_cycles,
    "big temporary": big_temporary,
    "json sizes": json_sizes,
    "log buffer": log_buffer,
    "threads, ended": threads_end,
    "asyncio, done": asyncio_done,
    "strings": strings,
}

handler = handler_of(LEAKS, CALM)
