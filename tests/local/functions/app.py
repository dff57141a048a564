"""Functions for tests: each does what the event says."""

import os
import resource
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

MiB = 1024 * 1024
kept: list[bytearray] = []


def touched(mib: int) -> bytearray:
    return bytearray(b"\1" * MiB) * mib


def burnt(seconds: float) -> tuple[float, float]:
    """Use so much CPU time. Returns it as measured, and how long that took."""
    cpu, wall = time.process_time(), time.monotonic()
    while time.process_time() - cpu < seconds:
        pass
    return time.process_time() - cpu, time.monotonic() - wall


def handler(event: dict[str, Any], context: Any) -> object:
    match event:
        case {"touch": mib}:
            touched(mib)
        case {"keep": mib}:
            kept.append(touched(mib))
        case {"release": _}:
            kept.clear()
        case {"sleep": seconds}:
            time.sleep(seconds)
        case {"exit": code}:
            os._exit(code)
        case {"raise": text}:
            raise ValueError(text)
        case {"print": text}:
            print(text)
        case {"daemon": _}:
            # Out of our process group, our session and our sight.
            child = subprocess.Popen(["setsid", "sleep", "600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            return child.pid
        case {"burn": seconds}:
            return burnt(seconds)
        case {"now": _}:
            return time.time_ns()
        case {"pid": _}:
            return os.getpid()
        case {"environment": _}:
            return dict(os.environ)
    return {
        "event": event,
        "requestId": context.aws_request_id,
        "client": context.client_context.custom if context.client_context else None,
        "uid": os.getuid(),
        "cwd": str(Path.cwd()),
        "tenant": getattr(context, "tenant_id", None),
    }


def limits(_: object, __: object) -> tuple[int, int]:
    return resource.getrlimit(resource.RLIMIT_NOFILE)


def count(path: Path) -> None:
    number = 0
    with path.open("w") as file:
        while True:
            number += 1
            file.seek(0)
            file.write(str(number))
            file.flush()


def counting(event: dict[str, Any], _: Any) -> int:
    """Starts a thread that never stops counting, into a file; returns when it has counted beyond a number."""
    path = Path(event["path"])
    if not path.exists():
        path.touch()
        threading.Thread(target=count, args=(path,), daemon=True).start()
    while (number := int(path.read_text() or 0)) <= event.get("beyond", 0):
        time.sleep(0.001)
    return number


not_a_function = "but a name"
