"""The probe: records what the environment allows, one outcome per step. Standard library only.

Event `{"do": ...}`: `environment` runs every step; `code`, `write` and `read` move `"mib"` (default 200) MiB of files
through the page cache with a small buffer, so that REPORT shows whether cached pages count; `nothing` does nothing.

An outcome is `{"ok": true, "value": ...}` or `{"ok": false, "errno": "EACCES", "error": ...}`; sizes are KiB.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import steps

BUFFER = 1 << 20
FILE = Path(os.environ.get("TMPDIR") or "/tmp") / "truemem-probe.bin"
CODE = ("/var/lang", "/usr/lib64", "/usr/lib", "/usr/bin")
"""Folders of a zip function's read-only files: the runtime and the operating system."""

BORN = time.time()
"""Start of this process. Two answers with the same value are of the same environment."""


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer one question. A refused step does not raise: the refusal is the answer."""
    do = event.get("do", "environment")
    limit = int(event.get("mib", 200)) << 20
    works: dict[str, Callable[[], dict[str, Any]]] = {
        "environment": environment,
        "code": lambda: {"bytes": read_folders(CODE, limit)},
        "write": lambda: {"bytes": write_file(limit)},
        "read": lambda: {"bytes": read_file(FILE, limit)},
        "nothing": dict,
    }
    work = works.get(do)
    if work is None:
        raise ValueError(f'event {event!r}: "do" is one of environment, code, write, read, nothing')
    answer = work()
    return {
        "do": do,
        "requestId": context.aws_request_id,
        "logStream": context.log_stream_name,
        "born": BORN,
        "memoryMiB": int(os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"]),
        "rss": steps.attempt(lambda: steps.memory("self")),
        "meminfo": steps.attempt(lambda: steps.meminfo("MemTotal", "MemFree", "MemAvailable", "Cached", "Shmem")),
        **answer,
    }


def environment() -> dict[str, Any]:
    """Every step: in this process, and from and on a child of the same uid."""
    found = {name: steps.attempt(step) for name, step in steps.OWN.items()}
    with Child() as child:
        # As the sidecar does to the runtime: one process of this uid to another.
        steps.spike()  # for the reset to forget
        found |= {name: child.attempt(name, os.getpid()) for name in steps.OTHER}
        found |= {f"{name} by its parent": steps.attempt(step, child.pid) for name, step in steps.OTHER.items()}
        found["oom_score_adj raise"] = steps.attempt(steps.oom_score_adj, child.pid, +100)
        found["oom_score_adj lower"] = steps.attempt(steps.oom_score_adj, child.pid, -1100)
    return {"steps": found}


class Child:
    """A second process. It reads a step's name and a pid per line, and answers with its outcome."""

    def __enter__(self) -> Child:
        self._process = subprocess.Popen(
            [sys.executable, steps.__file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = self._process.pid
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()  # its loop ends
        self._process.stdout.close()
        self._process.wait(10)

    def attempt(self, name: str, pid: int) -> dict[str, Any]:
        """The outcome of the step as the child sees it."""
        return steps.attempt(self._ask, name, pid, unwrap=True)

    def _ask(self, name: str, pid: int) -> Any:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(f"{name}\t{pid}\n")
        self._process.stdin.flush()
        ready, _, _ = select.select([self._process.stdout], [], [], 10)
        line = self._process.stdout.readline() if ready else ""
        if not line:
            raise OSError(0, "the child does not answer")
        return json.loads(line)


def write_file(size: int) -> int:
    """Bytes written to /tmp."""
    block = os.urandom(BUFFER)
    with FILE.open("wb", buffering=0) as file:
        for _ in range(size // BUFFER):
            file.write(block)
    return size // BUFFER * BUFFER


def read_file(path: Path, limit: int) -> int:
    """Bytes read, at most `limit`, into one small buffer: RSS does not grow."""
    done, buffer = 0, memoryview(bytearray(BUFFER))
    with path.open("rb", buffering=0) as file:
        while done < limit and (count := file.readinto(buffer[: limit - done])):
            done += count
    return done


def read_folders(folders: tuple[str, ...], limit: int) -> int:
    """Bytes read of what is below `folders`, at most `limit`."""
    done = 0
    for folder in folders:
        for parent, _, names in os.walk(folder):
            for name in names:
                path = Path(parent, name)
                if path.is_file() and not path.is_symlink() and done < limit:
                    try:
                        done += read_file(path, limit - done)
                    except OSError:
                        continue  # not ours to read
    return done
