"""Programs that keep no more than they need: caches with a bound, and work whose memory is given back."""

from __future__ import annotations

import asyncio
import functools
import io
import json
import random
import re
import threading
from typing import Any

from .real_requests import KIB, MIB, Program, body, handler_of, rows, size


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


LEAKS: dict[str, Program] = {}
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

handler = handler_of(CALM)
