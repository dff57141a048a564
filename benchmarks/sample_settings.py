"""Measures what each setting of the sample function does to its memory: the table of sample_function/README.md.

Each row is a process of its own. It calls the handler with random models, uniformly, one row each.

Exit codes: 0 measured, 2 not measured.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import click

from benchmarks.publish import ROOT, machine, markdown, measuring, replace

SAMPLE = ROOT / "sample_function"

SETTINGS: tuple[dict[str, str], ...] = (
    {"LOAD_FROM": "bytes", "CACHE_SIZE": "16"},
    {"LOAD_FROM": "bytes", "CACHE_SIZE": "16", "MMAP_THRESHOLD": "32768"},
    {"LOAD_FROM": "bytes", "CACHE_SIZE": "8"},
    {"LOAD_FROM": "path", "CACHE_SIZE": "16"},
    {"LOAD_FROM": "path", "CACHE_SIZE": "8"},
    {"LOAD_FROM": "path", "CACHE_SIZE": "8", "POP_BEFORE_LOAD": "true"},
    {"LOAD_FROM": "path", "CACHE_SIZE": "8", "MMAP_THRESHOLD": "32768"},
    {"LOAD_FROM": "path", "CACHE_SIZE": "8", "POP_BEFORE_LOAD": "true", "MMAP_THRESHOLD": "32768"},
)

FIGURES = ("current", "mark", "in use", "mapped", "held")


class Change(NamedTuple):
    """One step between two settings, and the line of the sample that takes it."""

    words: str
    before: dict[str, str]
    after: dict[str, str]
    file: str
    name: str
    """The function or class in `file`."""


CHANGES = (
    Change("a cache of 8, not 16", SETTINGS[0], SETTINGS[2], "sessions.py", "session_cache"),
    Change("a file, not its bytes", SETTINGS[0], SETTINGS[3], "sessions.py", "open_session"),
    Change("the old session dropped first", SETTINGS[4], SETTINGS[5], "sessions.py", "PopBeforeLoad"),
    Change("blocks from 32 KiB mapped", SETTINGS[4], SETTINGS[6], "malloc.py", "set_mmap_threshold"),
    Change("the same, nothing else changed", SETTINGS[0], SETTINGS[1], "malloc.py", "set_mmap_threshold"),
    Change("all of them", SETTINGS[0], SETTINGS[7], "settings.py", "read_settings"),
)


class MallInfo(ctypes.Structure):
    """`struct mallinfo2` of glibc 2.33 and later (mallinfo(3)), bytes."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keep",
        )
    ]


class Context:
    """What Powertools wants of a Lambda context."""

    function_name = "onnx-incident"
    memory_limit_in_mb = 1024
    invoked_function_arn = "arn:aws:lambda:us-east-1:123456789012:function:onnx-incident"
    aws_request_id = "00000000-0000-0000-0000-000000000000"


def call_handler(calls: int) -> dict[str, float]:
    """In a process of its own, with the sample on PYTHONPATH: MiB after `calls` calls."""
    os.chdir(SAMPLE)
    import app

    chance = random.Random(2026)
    for _ in range(calls):
        app.handler({"model": chance.randrange(app.settings.model_count)}, Context())
    lines = Path("/proc/self/status").read_text().splitlines()
    status = {name: value.split()[0] for name, _, value in (line.partition(":") for line in lines) if value.split()}
    read = ctypes.CDLL(None).mallinfo2
    read.restype = MallInfo
    heap = read()
    return {
        "current": int(status["VmRSS"]) / 1024,
        "mark": int(status["VmHWM"]) / 1024,
        "in use": heap.uordblks / 2**20,
        "mapped": heap.hblkhd / 2**20,
        "held": heap.fordblks / 2**20,
    }


def measure(settings: dict[str, str], calls: int, models: str) -> dict[str, float]:
    """One row, MiB. Raises subprocess.CalledProcessError if the handler failed."""
    environment = {
        **os.environ,
        **settings,
        "PYTHONPATH": str(SAMPLE),
        "MODEL_DIR": models,
        "MODEL_BUCKET": "",
        "POWERTOOLS_LOG_LEVEL": "CRITICAL",
    }
    command = [sys.executable, "-m", "benchmarks.sample_settings", "--child", str(calls)]
    made = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    figures: dict[str, float] = json.loads(made.stdout.splitlines()[-1])
    return figures


def changes(rows: list[dict[str, Any]]) -> str:
    """What each change is worth, as a Markdown table: the figures before and after it, and its line of code."""

    def step(change: Change, figure: str) -> str:
        before, after = (
            next(row[figure] for row in rows if row["settings"] == settings)
            for settings in (change.before, change.after)
        )
        return f"{before:.0f} → {after:.0f}"

    cells = [
        [change.words, _link(change.file, change.name), *(step(change, figure) for figure in FIGURES)]
        for change in CHANGES
    ]
    return markdown(["change", "line", *FIGURES], cells, text_columns=2)


def _link(file: str, name: str) -> str:
    lines = (SAMPLE / file).read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if re.match(rf"(def|class) {name}\b", text))
    return f"[`{name}`]({file}#L{line})"


def named(settings: dict[str, str]) -> list[str]:
    """The setting's cells: how it loads, its cache, what else."""
    others = [f"`{name}={value}`" for name, value in settings.items() if name not in ("LOAD_FROM", "CACHE_SIZE")]
    return [f"`{settings['LOAD_FROM']}`", settings["CACHE_SIZE"], ", ".join(others)]


@click.command(help=__doc__)
@click.option("--calls", default=400, show_default=True)
@click.option("--child", type=int, hidden=True)
def main(calls: int, child: int | None) -> None:
    """See the module."""
    if child is not None:
        click.echo(json.dumps(call_handler(child)))
        return
    rows: list[dict[str, Any]] = []
    with measuring() as bar, tempfile.TemporaryDirectory(prefix="truemem-models-") as models:
        make = [sys.executable, str(SAMPLE / "models.py"), "make", models]
        subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
        advance = bar("settings", len(SETTINGS))
        for settings in SETTINGS:
            rows.append({"settings": settings, **measure(settings, calls, models)})
            advance()
    headings = ["`LOAD_FROM`", "`CACHE_SIZE`", "other", *FIGURES]
    cells = [[*named(row["settings"]), *(f"{row[figure]:.0f}" for figure in FIGURES)] for row in rows]
    made = markdown(headings, cells, text_columns=3)
    click.echo(made)
    replace(SAMPLE / "README.md", "settings", f"{calls} random calls, on {machine()}; MiB:\n\n{made}\n")
    replace(SAMPLE / "README.md", "changes", changes(rows))


if __name__ == "__main__":
    main()
