"""Looks after some invocations whether the sidecar asks for a profile, and loads the code of that only then.

truemem_heap loads this file alone, from beside itself, where TRUEMEM_LINES is set (docs/heap.md).
"""

from __future__ import annotations

import functools
import gc
import os
import posix
import sys
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LOOK_EVERY = 8
"""Invocations after which it looks for a request, and knows the CPU of one invocation: that takes 5 µs."""
MOST_COMPARED = 64
"""Invocations whose CPU is known when a profile begins, at most."""
ASK_SIZE = 200


class ProfileRequests:
    """Looks after each LOOK_EVERY-th invocation whether there is one."""

    def __init__(self, folder: str, read: Callable[[], Any] | None, small: Callable[[], int] | None) -> None:
        self._folder = folder
        self._ask = f"{folder}/.truemem-lines-{posix.getpid()}"
        self._read = read
        self._small = small
        self._profile: Any = None
        self._is_over = False
        self._looks = False
        """True if it looks after this invocation: always while there is a profile."""
        self._waited = 0
        """Invocations since the last look."""
        self._spent_ns: list[int] = []
        self._began_ns = self._ended_ns = 0

    def before(self) -> None:
        """The answer is there, and not yet sent."""
        if self._looks:
            self._ended_ns = time.process_time_ns()

    def after(self) -> None:
        """The answer was sent: the caller does not wait any more. Never raises."""
        if self._is_over:
            return
        if self._looks:
            self._waited = 0
            try:
                self._step(self._ended_ns - self._began_ns)
            except Exception:
                self.stop()
        self._waited += 1
        self._looks = self._profile is not None or self._waited == LOOK_EVERY
        if self._looks:
            self._began_ns = time.process_time_ns()

    def around(self, post: Callable[..., Any]) -> Callable[..., Any]:
        """The client's `post`, which sends the answer."""

        @functools.wraps(post)
        def posting(*arguments: Any, **named: Any) -> Any:
            self.before()
            sent = post(*arguments, **named)
            self.after()
            return sent

        return posting

    def stop(self) -> None:
        """End it for good. Never raises."""
        profile, self._profile, self._is_over = self._profile, None, True
        with suppress(Exception):
            if profile is not None:
                profile.stop()

    def _step(self, cpu_ns: int) -> None:
        if posix.access(self._ask, posix.F_OK):
            if self._profile is None:
                self._begin()
            elif not self._profile.after(cpu_ns):
                self.stop()
                if gc.isenabled():
                    gc.collect()  # our modules refer to each other: they would stay for long
        elif self._profile is not None:
            self.stop()  # the sidecar has withdrawn it
        if self._profile is None:
            self._spent_ns.append(cpu_ns)
            del self._spent_ns[:-MOST_COMPARED]

    def _begin(self) -> None:
        descriptor = posix.open(self._ask, posix.O_RDONLY | posix.O_NOFOLLOW | posix.O_NONBLOCK | posix.O_CLOEXEC)
        try:
            asked = posix.read(descriptor, ASK_SIZE).decode("ascii")
        finally:
            posix.close(descriptor)
        if not asked.endswith("\n"):
            return  # it is being written
        self._profile = _package_of_lines().begin(
            self._folder, asked, self._spent_ns, self._in_use if self._read else None, self._small
        )
        if self._profile.is_over:
            self.stop()

    def _in_use(self) -> int:
        """Bytes that malloc has given out."""
        heap = self._read()  # type: ignore[misc]
        return int(heap.uordblks + heap.hblkhd)


def _package_of_lines() -> Any:
    """truemem_lines, this file's folder. sys.path and sys.modules are afterwards as they were."""
    from importlib.machinery import SourceFileLoader
    from importlib.util import module_from_spec, spec_from_file_location

    name = "truemem_lines"
    folder = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    path = f"{folder}/__init__.py"
    spec = spec_from_file_location(name, path, loader=SourceFileLoader(name, path), submodule_search_locations=[folder])
    module = module_from_spec(spec)  # type: ignore[arg-type]
    sys.modules[name] = module  # its modules import one another
    try:
        spec.loader.exec_module(module)  # type: ignore[union-attr]
    finally:
        for each in [each for each in sys.modules if each.partition(".")[0] == name]:
            del sys.modules[each]
    return module
