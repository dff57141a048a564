"""Leaks and caches to plant into planted_handlers. The line that keeps ends with the mark `leak`."""

from __future__ import annotations

import itertools
import random
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

HANDLERS = Path(__file__).with_name("planted_handlers")
PAYLOAD = 40_000
"""Bytes that a leak keeps of each invocation."""
ZLIB_KIB = 256 + 6
"""Of one that compresses: zconf.h has the formula for its tables, and its state is 6 KiB."""
SEED = 20_261_124
_SLOT = re.compile(r"^( *)(?:#|//) slot$", re.M)

_PYTHON = """
import asyncio, collections, ctypes, functools, itertools, logging, threading, zlib

_NUMBERS = itertools.count()


def _payload():
    return bytearray(b"\\1" * 40000)
"""
_NODE = """
import { EventEmitter } from "node:events";
let number_ = 0;
const payload_ = () => new Array(5000).fill(++number_);
"""


@dataclass(frozen=True)
class PlantKind:
    name: str
    module: str
    """Code at the module's begin."""
    lines: str
    """Code at the place of the leak."""
    kib: float | None = PAYLOAD / 1024
    """KiB that it keeps of each invocation, within some percent. None: the plain run's growth tells."""


LEAKS = {
    ".py": (
        PlantKind("module list", "_KEPT = []", "_KEPT.append(_payload())  # leak"),
        PlantKind("dict cache", "_CACHE = {}", "_CACHE[next(_NUMBERS)] = _payload()  # leak"),
        PlantKind(
            "lru_cache without bound",
            "@functools.lru_cache(maxsize=None)  # leak\ndef _lookup(number):\n    return _payload()",
            "_lookup(next(_NUMBERS))",
        ),
        PlantKind(
            "closure in a callback",
            "_CALLBACKS = []\n\n\ndef _on_saved(call):\n    _CALLBACKS.append(call)  # leak",
            "_data = _payload()\n_on_saved(lambda data=_data: data)",
        ),
        PlantKind(
            "logging handler",
            '_LOG = logging.getLogger("orders")',
            "_added = logging.NullHandler()\n_added.data = _payload()\n_LOG.addHandler(_added)  # leak",
        ),
        PlantKind(
            "asyncio task",
            "_LOOP = asyncio.new_event_loop()\n_TASKS = set()\n\n\nasync def _wait(data):\n"
            "    await asyncio.get_running_loop().create_future()\n    return data\n\n\nasync def _begin():\n"
            "    _TASKS.add(asyncio.create_task(_wait(_payload())))  # leak\n    await asyncio.sleep(0)",
            "_LOOP.run_until_complete(_begin())",
        ),
        PlantKind(
            "thread",
            "def _work(data, end):\n    end.wait()",
            "_end = threading.Event()\n"
            "_thread = threading.Thread(target=_work, args=(_payload(), _end), daemon=True)\n_thread.start()  # leak",
        ),
        PlantKind(
            "exception with its traceback",
            "_ERRORS = []\n\n\ndef _refuse(data):\n    raise ValueError(len(data))",
            "try:\n    _refuse(_payload())\nexcept ValueError as _error:\n    _ERRORS.append(_error)  # leak",
            kib=None,  # the frames of the traceback keep their variables as well
        ),
        PlantKind(
            "boto3 session",
            "import boto3\n\n_SESSIONS = []",
            '_SESSIONS.append(boto3.Session(region_name="eu-west-1"))  # leak',
            kib=None,
        ),
        PlantKind(
            "pandas frame",
            "import numpy, pandas\n\n_FRAMES = []",
            '_FRAMES.append(pandas.DataFrame({"a": numpy.ones(5000)}))  # leak',
        ),
        PlantKind(
            "ctypes malloc",
            "_LIBC = ctypes.CDLL(None)\n_LIBC.malloc.restype = ctypes.c_void_p",
            "_block = _LIBC.malloc(40000)  # leak\nctypes.memset(_block, 1, 40000)",
        ),
        PlantKind("C extension's buffer", "_STREAMS = []", "_STREAMS.append(zlib.compressobj())  # leak", ZLIB_KIB),
    ),
    ".mjs": (
        PlantKind("array", "const kept_ = [];", "kept_.push(payload_()); // leak"),
        PlantKind("map", "const map_ = new Map();", "map_.set(++number_, payload_()); // leak"),
        PlantKind(
            "closure",
            "const calls_ = [];",
            "const data_ = payload_();\ncalls_.push(() => data_); // leak",
        ),
        PlantKind(
            "event listener",
            "const emitter_ = new EventEmitter().setMaxListeners(0);",
            'const data_ = payload_();\nemitter_.on("saved", () => data_); // leak',
        ),
        PlantKind("timer", "", "const data_ = payload_();\nsetInterval(() => data_, 3_600_000).unref(); // leak"),
    ),
}
CACHES = {
    ".py": (
        PlantKind("none", "", "pass"),
        PlantKind("lru_cache with a bound",
             "@functools.lru_cache(maxsize=30)\ndef _lookup(number):\n    return _payload()",
             "_lookup(next(_NUMBERS))"),
        PlantKind("dict of 40 keys", "_CACHE = {}", "_CACHE.setdefault(next(_NUMBERS) % 40, _payload())"),
        PlantKind("deque with a bound", "_LAST = collections.deque(maxlen=25)", "_LAST.append(_payload())"),
        PlantKind("list that is emptied", "_BATCH = []",
             "_BATCH.append(_payload())\nif len(_BATCH) == 17:\n    _BATCH.clear()"),
    ),
    ".mjs": (
        PlantKind("none", "", ";"),
        PlantKind("map with a bound", "const map_ = new Map();",
             "map_.set(++number_, payload_());\nif (map_.size > 30) map_.delete(map_.keys().next().value);"),
        PlantKind("map of 40 keys", "const map_ = new Map();",
             "const key_ = ++number_ % 40;\nif (!map_.has(key_)) map_.set(key_, payload_());"),
        PlantKind("array that is emptied", "let batch_ = [];",
             "batch_.push(payload_());\nif (batch_.length === 17) batch_ = [];"),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Planted:
    handler: str
    """File name of the handler."""
    kind: PlantKind
    source: str

    @property
    def line(self) -> int:
        """The line that keeps; 0 if none does."""
        lines = enumerate(self.source.splitlines(), 1)
        return next((n for n, line in lines if line.endswith((" # leak", "// leak"))), 0)


def planted(kinds: dict[str, tuple[PlantKind, ...]], number: int) -> Iterator[Planted]:
    """So many handlers with one of these each, at a random place: the handlers in turn, and a language's kinds."""
    chance = random.Random(SEED)
    files = sorted(HANDLERS.iterdir())
    turns = {ending: itertools.cycle(of) for ending, of in kinds.items()}
    for path in itertools.islice(itertools.cycle(files), number):
        kind = next(turns[path.suffix])
        text = path.read_text()
        place = chance.choice(list(_SLOT.finditer(text)))
        body = textwrap.indent(kind.lines, place[1])
        begin = _PYTHON if path.suffix == ".py" else _NODE
        text = f"{begin}\n{kind.module}\n\n{text[: place.start()]}{body}{text[place.end() :]}"
        yield Planted(path.name, kind, text)


class Judged(Protocol):
    """What was said of one of them."""

    @property
    def planted(self) -> Planted: ...


Said = TypeVar("Said", bound=Judged)


def put(each: Planted, folder: Path) -> Path:
    """Write it into a folder, for a function that may run as another user."""
    path = folder / each.handler
    path.write_text(each.source)
    path.chmod(0o644)
    return path


def place_of(each: Planted, named: Sequence[tuple[str, int | None]]) -> int | None:
    """Place of the line that keeps among those that were named (file, line), from 1."""
    found = [(Path(file).name, line) for file, line in named]
    true = (each.handler, each.line)
    return found.index(true) + 1 if true in found else None


def by_kind(said: Sequence[Said]) -> dict[str, list[Said]]:
    groups: dict[str, list[Said]] = {}
    for each in said:
        groups.setdefault(each.planted.kind.name, []).append(each)
    return groups
