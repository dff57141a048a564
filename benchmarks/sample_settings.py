"""What each setting of the sample does to its memory: the table of sample_function/README.md.

Each row is a process of its own. It calls the handler with random models, uniformly, one row each.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

from benchmarks.kit.bench import Bench
from testing.pages import ROOT, Result, Table, machine, markdown

SAMPLE, README, CALLS = ROOT / "sample_function", "sample_function/README.md", 400
SMALL, DROPPED = {"MMAP_THRESHOLD": "32768"}, {"POP_BEFORE_LOAD": "true"}
ROWS: tuple[dict[str, str], ...] = (
    {"LOAD_FROM": "bytes", "CACHE_SIZE": "16"},
    {"LOAD_FROM": "bytes", "CACHE_SIZE": "16", **SMALL},
    {"LOAD_FROM": "bytes", "CACHE_SIZE": "8"},
    {"LOAD_FROM": "path", "CACHE_SIZE": "16"},
    {"LOAD_FROM": "path", "CACHE_SIZE": "8"},
    {"LOAD_FROM": "path", "CACHE_SIZE": "8", **DROPPED},
    {"LOAD_FROM": "path", "CACHE_SIZE": "8", **SMALL},
    {"LOAD_FROM": "path", "CACHE_SIZE": "8", **DROPPED, **SMALL},
)
FIGURES = ("current", "mark", "in use", "mapped", "held")
MALLINFO = ["arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keep"]
"""`struct mallinfo2` of glibc 2.33 and later (mallinfo(3)), bytes."""


class MallInfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in MALLINFO]


def call_handler(calls: int) -> None:
    """In a process of its own, with the sample on PYTHONPATH: prints MiB after `calls` calls."""
    os.chdir(SAMPLE)
    import app

    arn = "arn:aws:lambda:us-east-1:123456789012:function:onnx-incident"
    context = SimpleNamespace(
        function_name="onnx-incident", memory_limit_in_mb=1024, invoked_function_arn=arn, aws_request_id="0" * 32
    )
    chance = random.Random(2026)
    for _ in range(calls):
        app.handler({"model": chance.randrange(app.settings.model_count)}, context)
    lines = Path("/proc/self/status").read_text().splitlines()
    status = {name: value.split()[0] for name, _, value in (line.partition(":") for line in lines) if value.split()}
    read = ctypes.CDLL(None).mallinfo2
    read.restype = MallInfo
    heap = read()
    found = [int(status[name]) / 1024 for name in ("VmRSS", "VmHWM")]
    print(json.dumps(found + [size / 2**20 for size in (heap.uordblks, heap.hblkhd, heap.fordblks)]))


def measure(settings: dict[str, str], calls: int, models: str) -> list[float]:
    """FIGURES, MiB. Raises subprocess.CalledProcessError if the handler failed."""
    own = {"MODEL_DIR": models, "MODEL_BUCKET": "", "POWERTOOLS_LOG_LEVEL": "CRITICAL"}
    environment = {**os.environ, **settings, **own, "PYTHONPATH": f"{SAMPLE}:{ROOT}"}
    command = [sys.executable, "-c", f"from benchmarks.sample_settings import call_handler; call_handler({calls})"]
    made = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    figures: list[float] = json.loads(made.stdout.splitlines()[-1])
    return figures


def named(settings: dict[str, str]) -> list[str]:
    """The setting's cells: how it loads, its cache, what else."""
    others = [f"`{name}={value}`" for name, value in settings.items() if name not in ("LOAD_FROM", "CACHE_SIZE")]
    return [f"`{settings['LOAD_FROM']}`", settings["CACHE_SIZE"], ", ".join(others)]


def run(bench: Bench) -> Result:
    calls = bench.count(CALLS, 10)
    with tempfile.TemporaryDirectory(prefix="truemem-models-") as models:
        make = [sys.executable, str(SAMPLE / "models.py"), "make", models]
        subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
        found = [measure(settings, calls, models) for settings in bench.each("settings", ROWS)]
    headings = ("`LOAD_FROM`", "`CACHE_SIZE`", "other", *FIGURES)
    rows = [[*named(of), *(f"{mib:.0f}" for mib in figures)] for of, figures in zip(ROWS, found, strict=True)]
    made = f"{calls} random calls, on {machine()}; MiB:\n\n{markdown(headings, rows, 3)}\n"
    return Result([Table("Settings", headings, rows, "", 3)], docs={(README, "settings"): made})
