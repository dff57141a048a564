"""The probe: records what the environment allows, one outcome per step. Standard library only.

Event `{"do": ...}`: `environment` runs every step; `code`, `write` and `read` move `"mib"` (default 200) MiB of files
through the page cache with a small buffer, and `map` maps them, so that REPORT shows what the mark counts. `order`
notes when the handler began, `arrivals` compares that with the extension. `freeze` and `thaw` look at the time between
them. `nothing` does nothing.

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
from typing import Any

import steps

BORN = time.time()
"""Start of this process. Two answers with the same value are of the same environment."""


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer one question. A refused step does not raise: the refusal is the answer."""
    began = time.monotonic_ns()
    do = event.get("do", "environment")
    if do == "order":
        steps.STARTED[context.aws_request_id] = began
        return {"do": do}
    limit = int(event.get("mib", 200)) << 20
    works: dict[str, Callable[[], dict[str, Any]]] = {
        "environment": environment,
        "code": lambda: {"bytes": steps.read_folders(steps.CODE, limit)},
        "map": lambda: mapped(limit),
        "write": lambda: {"bytes": steps.write_file(limit)},
        "read": lambda: {"bytes": steps.read_file(steps.FILE, limit)},
        "arrivals": lambda: {"leadsUs": steps.attempt(steps.arrivals)},
        "freeze": lambda: {"ready": steps.attempt(steps.before_the_freeze)},
        "thaw": lambda: {"idle": steps.attempt(steps.after_the_freeze)},
        "nothing": dict,
    }
    work = works.get(do)
    if work is None:
        raise ValueError(f'event {event!r}: "do" is one of order, {", ".join(works)}')
    answer = work()
    return {
        "do": do,
        "requestId": context.aws_request_id,
        "logStream": context.log_stream_name,
        "born": BORN,
        "rss": steps.attempt(lambda: steps.memory("self")),
        "meminfo": steps.attempt(lambda: steps.meminfo("MemTotal", "MemFree", "MemAvailable", "Cached", "Shmem")),
        **answer,
    }


def mapped(limit: int) -> dict[str, Any]:
    """Map files, and look at this process while it has them."""
    files = steps.Mapped(steps.CODE, limit)
    try:
        return {"bytes": files.bytes, "rss": steps.attempt(lambda: steps.memory("self"))}
    finally:
        files.close()


def environment() -> dict[str, Any]:
    """Every step: in this process, and from and on a child of the same uid."""
    found = {name: steps.attempt(step) for name, step in steps.OWN.items()}
    with Child() as child:
        # As the sidecar does to the runtime: one process of this uid to another.
        steps.spike()  # for the reset to forget
        found |= {name: child.attempt(name, os.getpid()) for name in steps.OTHER}
        found |= {f"{name} by its parent": steps.attempt(step, child.pid) for name, step in steps.OTHER.items()}
        allowed = steps.attempt(steps.allow_ptrace)
        found["mem other once allowed"] = child.attempt("mem other", os.getpid()) if allowed["ok"] else allowed
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
