"""Sees after which line of the user's code a container is longer. Runs in the function's own process."""

import os
import re
import sys
import threading
import tracemalloc
from collections import Counter
from types import CodeType, FrameType
from typing import Any

from truemem_workbench.explain.objects import Line, below, defined_at, length, named, newest, owner

GROWTHS_NEEDED = 3  # times that a container was seen to grow, after which it is not watched any more
MOST_WATCHED = 20  # invocations that are watched after a look: what only some invocations keep needs more than one
ROOT = os.path.join(os.environ.get("LAMBDA_TASK_ROOT", ""), "")  # noqa: PTH118
FOREIGN = re.compile(os.environ.get("TRUEMEM_EXPLAIN_FOREIGN", "(?!)"))
"""What follows ROOT in the files of libraries (attribution.Users)."""
OF_ALL_THREADS = hasattr(threading, "settrace_all_threads")
"""From Python 3.12 on. Before, a thread that is there already cannot be watched."""


_me = threading.get_ident
_known: dict[str, bool] = {}


def is_users(file: str) -> bool:
    """Is it the user's code, and no library's?"""
    known = _known.get(file)
    if known is None:
        known = _known[file] = file.startswith(ROOT) and not FOREIGN.match(file, len(ROOT))
    return known


class GrowingContainer:
    """What is known of one growing container."""

    def __init__(self, container: Any, ignored: set[int]) -> None:
        self.owner = owner([container], ignored)
        self.defined_at = defined_at(container)
        sample = newest(container)
        self.items = [named(type(each)) for each in sample]
        stacks = [tracemalloc.get_object_traceback(each) for item in sample for each in below(item, ignored)]
        self.allocated_at = [
            [[frame.filename, frame.lineno] for frame in stack] for stack in dict.fromkeys(filter(None, stacks))
        ]
        self.grew_at: Counter[Line] = Counter()
        self.others_ran = False
        """Threads that are not watched were there when it grew: perhaps one of them has made it longer."""


class ContainerWatch:
    """Watches growing containers while the user's handler runs."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, GrowingContainer]] = []
        self._left = 0
        self._lengths: list[int] = []
        self._last: dict[int, Line | None] = {}
        """The line of the user's code that runs, by thread."""
        self._others: list[threading.Thread] = []
        """Threads that are not watched."""
        self._before: Any = None
        """What new threads were traced by before."""
        self.refused = False
        """The function traces itself."""
        self._users: dict[CodeType, bool] = {}

    def containers(self, growing: list[Any], ignored: set[int]) -> None:
        """Watch these in the next invocations. `ignored` are ids of the tracer's own objects, no owners."""
        known = {id(each): seen for each, seen in self.seen}
        ignored = {
            id(growing),
            id(self.seen),
            id(vars(self)),
            id(known),
            *map(id, growing),
            *map(id, self.seen),
            *ignored,
        }
        self.seen = [(each, known.get(id(each)) or GrowingContainer(each, ignored - {id(each)})) for each in growing]
        self._left = MOST_WATCHED

    @property
    def wanted(self) -> bool:
        return self._left > 0 and any(seen.grew_at.total() < GROWTHS_NEEDED for _, seen in self.seen)

    @property
    def lines(self) -> int:
        """Containers of which a line was seen."""
        return sum(bool(seen.grew_at) for _, seen in self.seen)

    def start(self) -> None:
        """Watch an invocation. Where the function traces itself it is left alone."""
        self._left -= 1
        self.refused = sys.gettrace() is not None
        if self.refused:
            return
        self._last.clear()
        self._lengths = [length(each) for each, _ in self.seen]
        self._others = [] if OF_ALL_THREADS else [each for each in threading.enumerate() if each.ident != _me()]
        trace = threading.settrace_all_threads if OF_ALL_THREADS else threading.settrace  # type: ignore[attr-defined]
        self._before = threading.gettrace()
        trace(self._enter)
        sys.settrace(self._enter)

    def stop(self) -> None:
        """Watch no more. Without a call of `start` it does nothing."""
        if sys.gettrace() == self._enter:
            sys.settrace(None)
        if threading.gettrace() == self._enter:
            if OF_ALL_THREADS:
                threading.settrace_all_threads(None)  # type: ignore[attr-defined]
            threading.settrace(self._before)

    def _enter(self, frame: FrameType, event: str, _: Any) -> Any:
        """Python calls it for each new frame: the frames of libraries are not followed."""
        code = frame.f_code
        known = self._users.get(code)
        if known is None:
            known = self._users[code] = is_users(code.co_filename)
        if not known:
            return None
        self._step(frame, event, None)
        return self._step

    def _step(self, frame: FrameType, event: str, _: Any) -> Any:
        thread = _me()
        last = self._last.get(thread)
        for place, (each, seen) in enumerate(self.seen):
            now = length(each)
            if now < self._lengths[place]:
                self._lengths[place] = now
            elif now > self._lengths[place] and last is not None:  # a thread that has just begun did not do it
                seen.grew_at[last] += 1
                seen.others_ran |= any(each.is_alive() for each in self._others)
                self._lengths[place] = now
        if event == "call" and last is None:  # the begin of a thread is no line that ran
            return self._step
        if event != "return":
            self._last[thread] = (frame.f_code.co_filename, frame.f_lineno)
            return self._step
        above = frame.f_back
        while above is not None and not self._users.get(above.f_code):
            above = above.f_back
        self._last[thread] = (above.f_code.co_filename, above.f_lineno) if above is not None else None
        return self._step
