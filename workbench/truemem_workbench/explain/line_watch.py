"""Sees after which line of the user's code a container is longer. Runs in the function's own process."""

import os
import sys
import threading
import tracemalloc
from collections import Counter
from types import CodeType, FrameType
from typing import Any

from truemem_workbench.explain.objects import length
from truemem_workbench.explain.owners import Line, below, defined_at, newest, owner

ENOUGH = 3
"""Times that a container was seen to grow, after which it is not watched any more."""
MOST = 20
"""Invocations that are watched after a look: what only some invocations keep needs more than one."""
ROOT = os.path.join(os.environ.get("LAMBDA_TASK_ROOT", ""), "")  # noqa: PTH118
FOREIGN = ("site-packages", "dist-packages")


class Seen:
    """What is known of one growing container."""

    def __init__(self, container: Any, ignored: set[int]) -> None:
        self.owner = owner([container], ignored)
        self.defined_at = defined_at(container)
        sample = newest(container)
        self.items = [f"{type(each).__module__}.{type(each).__qualname__}" for each in sample]
        stacks = [tracemalloc.get_object_traceback(each) for item in sample for each in below(item, ignored)]
        self.allocated_at = [
            [[frame.filename, frame.lineno] for frame in stack] for stack in dict.fromkeys(filter(None, stacks))
        ]
        self.grew_at: Counter[Line] = Counter()


class Watch:
    """Watches growing containers while the user's handler runs."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, Seen]] = []
        self._left = 0
        self._lengths: list[int] = []
        self._last: dict[int, Line | None] = {}
        """By thread: the line of the user's code that runs."""
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
        self.seen = [(each, known.get(id(each)) or Seen(each, ignored - {id(each)})) for each in growing]
        self._left = MOST

    @property
    def wanted(self) -> bool:
        return self._left > 0 and any(seen.grew_at.total() < ENOUGH for _, seen in self.seen)

    def start(self) -> None:
        self._left -= 1
        self._last.clear()
        self._lengths = [length(each) for each, _ in self.seen]
        threading.settrace(self._enter)
        sys.settrace(self._enter)

    def stop(self) -> None:
        """Watch no more. Without a call of `start` it does nothing."""
        if sys.gettrace() == self._enter:
            sys.settrace(None)
            threading.settrace(None)

    def _enter(self, frame: FrameType, event: str, _: Any) -> Any:
        """Python calls it for each new frame: the frames of libraries are not followed."""
        code = frame.f_code
        known = self._users.get(code)
        if known is None:
            name = code.co_filename
            known = name.startswith(ROOT) and not any(folder in name for folder in FOREIGN)
            self._users[code] = known
        if not known:
            return None
        self._step(frame, event, None)
        return self._step

    def _step(self, frame: FrameType, event: str, _: Any) -> Any:
        thread = threading.get_ident()
        last = self._last.get(thread)
        for place, (each, seen) in enumerate(self.seen):
            now = length(each)
            if now < self._lengths[place]:
                self._lengths[place] = now
            elif now > self._lengths[place] and last is not None:  # a thread that has just begun did not do it
                seen.grew_at[last] += 1
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
