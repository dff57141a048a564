"""Runs calls in a few threads, and does not wait for ever."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

K = TypeVar("K")
T = TypeVar("T")

WORKERS = 8
"""Below 10, the concurrent invocations that a new account has."""


def side_by_side(calls: Mapping[K, Callable[[], T]], limit_s: float = 600) -> dict[K, T | Exception]:
    """Return what each call returned or raised; TimeoutError for those not done after so many seconds.

    The threads end with the program: Ctrl-C need not wait for a request.
    """
    todo: queue.SimpleQueue[K] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[K, T | Exception]] = queue.SimpleQueue()
    for key in calls:
        todo.put(key)

    def work() -> None:
        while True:
            try:
                key = todo.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((key, calls[key]()))
            except Exception as error:
                done.put((key, error))

    for _ in range(min(WORKERS, len(calls))):
        threading.Thread(target=work, daemon=True).start()
    results: dict[K, T | Exception] = {}
    end = time.monotonic() + limit_s
    while len(results) < len(calls):
        try:
            key, result = done.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            break
        results[key] = result
    return {key: results.get(key, TimeoutError(f"not done after {limit_s:g} s")) for key in calls}
