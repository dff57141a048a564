"""Does `truemem bisect` name the version that brought a known leak, and the one that repaired it?

Releases of packages of PyPI and npm whose leaks were reported by others, and repositories of 30 commits that are made
here, a quarter of them broken. `first` was known before the first run, by change logs, issues and plain loops. What is
named and the version before run in such a loop again, without any part of the product. Half an hour, with network.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.kit.bench import Bench
from testing import installs
from testing.pages import Result, Table

TITLE = "Which version brought the leak"
MOST_S = 3600
LEAST_KIB, TIMES = 1.0, 10
"""A plain loop agrees if the version with the leak keeps so much of a call, and so many times what the other does."""
NOTES = """\
Named: the answer; in a repository all that may be it, where broken commits hide it. Tried: versions that were measured
or skipped, of all. Gate, loop: KiB of each invocation in the version before, and in the one that is named, by the gate
and by a plain loop (RSS; of Node.js the heap after a collection). boto3's cache ends after a hundred sessions, so the
gate goes by `--max-current`, without the line, and the loop by calls 41 to 100. The promise: all are right, and the
loop says the same."""

UJSON = """\
import ujson
TEXT = "[" + ",".join(["1" + "0" * 100] * 50) + "]"
def handler(event, context):
    try:
        return len(ujson.loads(TEXT))
    except ValueError:
        return 0
"""
ORJSON = """\
import orjson
class Order: ...
def unknown(value):
    try:
        raise KeyError("order")
    except KeyError as error:
        raise TypeError("no order") from error
def handler(event, context):
    for _ in range(20):
        try:
            orjson.dumps({"order": Order()}, default=unknown)
        except TypeError:
            pass
"""
BOTO3 = """\
import boto3
def handler(event, context):
    client = boto3.Session(region_name="eu-west-1").client("s3")
    return client.generate_presigned_url("get_object", Params={"Bucket": "bucket", "Key": "key"})
"""
DEBUG = """\
const debug = require("debug");
exports.handler = async () => { for (let i = 0; i < 20; i++) debug(`orders:${i % 5}`)("seen"); };
"""
LRU_CACHE = """\
const found = require("lru-cache");
const LRU = found.LRUCache || found;
const cache = new LRU({ maxSize: 100, sizeCalculation: () => 1 });
let number = 0;
exports.handler = async () => { for (let i = 0; i < 50; i++) cache.set(`order ${number++}`, { number }); };
"""


@dataclass(frozen=True)
class Case:
    """A package with a leak that is known."""

    package: str
    code: str
    good: str
    bad: str
    first: str
    """The first version with the leak, or, where `good` is the newer one, without it."""
    source: str
    options: Sequence[str] = ()
    python: str = "3.11"
    calls: tuple[int, int] = (300, 1500)
    """Calls of the plain loop before it looks, and until it looks again."""

    @property
    def is_node(self) -> bool:
        return "exports" in self.code


CASES = {
    "ujson, brought": Case(
        "ujson", UJSON, "5.1", "5.11", "5.4.0", "plain loops", python="3.10"
    ),
    "ujson, repaired": Case("ujson", UJSON, "5.13", "5.10", "5.12.0", "plain loops", python="3.10"),
    "orjson, repaired": Case("orjson", ORJSON, "3.9", "3.9.0", "3.9.1", "its change log, 3.9.1"),
    "boto3, brought": Case(
        "boto3", BOTO3, "1.24", "1.25", "1.25.0", "[boto3, issue 3614](https://github.com/boto/boto3/issues/3614)",
        ("--memory", "2048", "--max-current", "130", "--invocations", "128", "--no-explain"), calls=(40, 60),
    ),
    "debug, brought": Case(
        "debug", DEBUG, "2.6", "4.1", "3.0.0", "[debug, issue 678](https://github.com/debug-js/debug/issues/678)"
    ),
    "debug, repaired": Case("debug", DEBUG, "4.4", "4.0", "4.3.0", "plain loops"),
    "lru-cache, repaired": Case(
        "lru-cache", LRU_CACHE, "7.18", "7.8.0", "7.8.1",
        "[node-lru-cache, issue 227](https://github.com/isaacs/node-lru-cache/issues/227)",
    ),
}  # fmt: skip
REPOSITORIES = {f"30 commits, {seed}": seed for seed in (1, 2)}

KEYS = {"AWS_ACCESS_KEY_ID": "invented", "AWS_SECRET_ACCESS_KEY": "invented"}
"""Credentials of no account: what is signed is not sent."""
PYTHON_LOOP = """
import gc, sys
import app
def kib():
    gc.collect()
    return int(open("/proc/self/statm").read().split()[1]) * 4
for _ in range(int(sys.argv[1])): app.handler({}, None)
before = kib()
for _ in range(int(sys.argv[2])): app.handler({}, None)
print((kib() - before) / int(sys.argv[2]))
"""
NODE_LOOP = """
const { handler } = require("./index.cjs");
const kib = () => { gc(); gc(); return process.memoryUsage().heapUsed / 1024; };
(async () => {
  for (let i = 0; i < Number(process.argv[1]); i++) await handler();
  const before = kib();
  for (let i = 0; i < Number(process.argv[2]); i++) await handler();
  console.log((kib() - before) / Number(process.argv[2]));
})();
"""


def bisected(folder: Path, *arguments: str) -> tuple[Mapping[str, Any], float]:
    """The document that `truemem bisect` prints in this folder, and its seconds."""
    command = [sys.executable, "-m", "truemem_workbench.commands", "bisect", *arguments, "--json"]
    began = time.monotonic()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=MOST_S)
    assert done.stdout.startswith("{"), done.stderr[-400:]
    document: Mapping[str, Any] = json.loads(done.stdout)
    return document, time.monotonic() - began


def interpreter(case: Case) -> str:
    return str(installs.python(case.python))


def looped(case: Case, folder: Path, version: str) -> float:
    """KiB that a plain loop keeps of each call with this version."""
    calls = [str(each) for each in case.calls]
    with tempfile.TemporaryDirectory() as place:
        if case.is_node:
            install = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", place]
            subprocess.run([*install, f"{case.package}@{version}"], check=True, capture_output=True)
            Path(place, "index.cjs").write_text(case.code)
            command, variables = ["node", "--expose-gc", "-e", NODE_LOOP, *calls], dict(os.environ)
            cwd = place
        else:
            python = interpreter(case)
            install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--target", place]
            subprocess.run([*install, f"{case.package}=={version}"], check=True, capture_output=True)
            variables = {**os.environ, **KEYS, "PYTHONPATH": f"{folder}:{place}"}
            command, cwd = [python, "-c", PYTHON_LOOP, *calls], str(folder)
        done = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, check=True)
    return float(done.stdout)


def rates(document: Mapping[str, Any]) -> str:
    """What the gate says of the version before, and of the one that is named."""
    told = [document[each] for each in ("before", "first") if each in document]
    return " / ".join(
        f"{each['perInvocationKiB']:,.1f}" if "perInvocationKiB" in each else each["cause"] for each in told
    )


def line(document: Mapping[str, Any]) -> str:
    found = document.get("line")
    return f"`{found['file']}:{found['line']}`" if found else ""


def released(case: Case) -> tuple[list[str], bool]:
    """The row of a package, and whether it is right."""
    with tempfile.TemporaryDirectory(prefix="truemem-bisect-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        handler = "index.cjs" if case.is_node else "app.py"
        (folder / handler).write_text(case.code)
        own = [] if case.is_node else ["--python", interpreter(case)]
        asked = ["--package", case.package, "--good", case.good, "--bad", case.bad]
        document, seconds = bisected(folder, f"{handler}:handler", *asked, *own, *case.options)
        named = document.get("first", {}).get("version", "")
        before = document.get("before", {}).get("version", "")
        loop = [looped(case, folder, each) for each in (before, named)] if named and before else []
    is_repair = document["asked"] == "first good"
    leaking, other = (loop if is_repair else loop[::-1]) or (0.0, 0.0)
    agrees = leaking >= max(LEAST_KIB, TIMES * other)
    tried = f"{len(document['tried'])} of {document['versions']}"
    row = [
        f"{case.good} to {case.bad}", case.source, named or "none", tried, rates(document),
        " / ".join(f"{max(0.0, each):,.1f}" for each in loop), line(document), f"{seconds:.0f}",
    ]  # fmt: skip
    return row, named == case.first and agrees


def committed(seed: int) -> tuple[list[str], bool]:
    """The row of a repository, and whether it is right."""
    chance = random.Random(seed)
    first = chance.randrange(5, 30)
    broken = {*chance.sample([each for each in range(2, 30) if each != first], 7)}
    with tempfile.TemporaryDirectory(prefix="truemem-bisect-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)

        def git(*words: str) -> str:
            who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.com"]
            return subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, text=True, check=True).stdout

        git("init", "--quiet")
        for number in range(1, 31):
            body = ["    import not_there"] * (number in broken) + ["    kept.append(bytes(8192))"] * (number >= first)
            text = "\n".join(["kept = []", "def handler(event, context):", *body, f"    return {number}", ""])
            (folder / "app.py").write_text(text)
            git("add", "--all")
            git("commit", "--quiet", "--message", f"change {number}")
        document, seconds = bisected(folder, "app.py:handler", "--good", "HEAD~29", "--bad", "HEAD")
        numbers = {sha: 30 - place for place, sha in enumerate(git("log", "--format=%H").split())}
    named = sorted(numbers[each] for each in document.get("candidates", ()))
    begins = max(each for each in range(1, first) if each not in broken) + 1
    row = [
        "1 to 30", f"made so: {first}; broken {', '.join(map(str, sorted(broken)))}", ", ".join(map(str, named)),
        f"{len(document['tried'])} of 30", rates(document), "", line(document), f"{seconds:.0f}",
    ]  # fmt: skip
    return row, named == [*range(begins, first + 1)]


def run(bench: Bench) -> Result:
    rows, broken = [], []
    for name in bench.each("histories", bench.chosen([*CASES, *REPOSITORIES])):
        row, is_right = released(CASES[name]) if name in CASES else committed(REPOSITORIES[name])
        bench.echo(f"{name}: {row}")
        rows.append([name, *row])
        if not is_right:
            broken.append(f"{name}: named {row[2]}")
    headings = ("", "good to bad", "known from", "named", "tried", "gate", "loop", "line", "s")
    return Result([Table("", headings, rows, NOTES, 4)], broken)
