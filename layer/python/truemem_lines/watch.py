"""Watches growing containers while the user's code runs: by sys.monitoring, before Python 3.12 by sys.settrace."""

from __future__ import annotations

import _thread
import os
import sys
import threading
import time
from collections import Counter
from threading import get_ident

from .containers import OTHERS
from .users import MOST_FRAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Callable
    from typing import Any

    from .containers import Container
    from .users import Line, Stack, Users

GROWTHS_NEEDED, LEAST_GROWTH_SHARE = 2, 0.05
"""Invocations after which a container was longer, which are enough; and growth, as a share of the largest, that is not
reported: a library keeps as much."""
HOT = 100
"""Times that a line is seen in an invocation before it is left alone."""
MOST_TIMES_WITHOUT = 4
OTHERS_NS = 2_000
"""CPU of other threads during a line, from which on they may have added something. One that waits takes none."""
BEGINS = getattr(threading.Thread.start, "__code__", None)
THREADS = getattr(threading, "_active", None)
"""Each thread adds itself: the line that has begun it keeps it."""
OWN_REFERENCES = 3
"""To a container: by `each`, `measure`, and the call that counts them."""
LINE_NS, CONTAINER_NS, CALL_NS, CLOCKS_NS = 1_500, 150, 400, 2_500
"""CPU for each line of the user's that is seen, for each container that is compared then, for a library's call, and to
read what other threads take."""
OUR_FOLDER = os.path.dirname(__file__)  # noqa: PTH120 - no pathlib here
MONITORING: Any = getattr(sys, "monitoring", None)
"""From Python 3.12 on: only the user's code is slower. Before it, each call is seen."""
TOOL, TOOLS = 5, range(6)
"""Identifier of sys.monitoring that we take, of all. It is for optimizers, of which none is known to use it: who looks
for a free one finds those that are for tools."""


def tracing() -> str:
    """What already sees the function's lines: a debugger, a profiler or coverage uses it. Empty if nothing does."""
    if sys.gettrace() is not None:
        return "sys.settrace is in use"
    if sys.getprofile() is not None:
        return "sys.setprofile is in use"
    is_monitored = MONITORING is not None and any(MONITORING.get_tool(tool) is not None for tool in TOOLS)
    return "sys.monitoring is in use" if is_monitored else ""


class ContainerWatch:
    """Sees after which line of the user's code a container is longer."""

    def __init__(self, containers: list[Container], users: Users) -> None:
        self.containers = containers
        self._users = users
        self._codes = users.codes() if MONITORING is not None and containers else []
        self._known: dict[int, tuple[bool, types.CodeType]] = {}
        """Whether a code is the user's, by the code's id, because the hash of a code reads all of it."""
        self._is_on = False
        """Is our tool of sys.monitoring registered?"""
        self._last: dict[int, tuple[types.CodeType, int] | None] = {}
        """The line of the user's code that runs, by thread."""
        self._left_ns = 0
        self._times_without = 0
        """Invocations that had no CPU left for all of it."""
        self._step_ns = LINE_NS + CONTAINER_NS * len(containers)
        self._has_disabled = False
        """Are there events that are off because one invocation had no CPU left for them?"""
        self._hits: Counter[tuple[int, int]] = Counter()
        """How often each line, or end, was seen in this invocation. By the code's id."""
        self._main = 0
        self._others_ns = 0
        """CPU of other threads until this line began. 0 if there was none, below it if the line has begun one."""

    @property
    def is_wanted(self) -> bool:
        least = LEAST_GROWTH_SHARE * max((each.rate for each in self.containers), default=0.0)
        has_unseen = any(each.times < GROWTHS_NEEDED and each.rate >= least for each in self.containers)
        return has_unseen and self._times_without < MOST_TIMES_WITHOUT

    def forget_dropped(self) -> None:
        """Forget the containers that only we refer to: the function has put others in their place."""
        self.containers = [each for each in self.containers if sys.getrefcount(each.each) > OWN_REFERENCES]

    def start(self, most_ns: int) -> None:
        """Watch the next invocation, for so much CPU of ours."""
        self._times_without += self._left_ns < 0
        self._last.clear()
        self._hits.clear()
        self._left_ns = most_ns
        self._main = get_ident()
        for each in self.containers:
            each.begin()
        if MONITORING is None:
            sys.settrace(self._enter)
            return
        MONITORING.use_tool_id(TOOL, "truemem")
        self._is_on = True
        for event, seen in self._callbacks().items():
            MONITORING.register_callback(TOOL, event, seen)
        for code in self._codes:
            MONITORING.set_local_events(TOOL, code, sum(self._callbacks()))
        if self._has_disabled:
            MONITORING.restart_events()
            self._has_disabled = False

    def stop(self) -> None:
        """Watch no more. Without a call of `start` it does nothing."""
        if MONITORING is None:
            if sys.gettrace() == self._enter:
                sys.settrace(None)
            return
        if self._is_on:
            self._is_on = False
            for code in self._codes:
                MONITORING.set_local_events(TOOL, code, 0)
            for event in self._callbacks():
                MONITORING.register_callback(TOOL, event, None)
            MONITORING.free_tool_id(TOOL)

    def end(self) -> None:
        """The invocation that was watched is over."""
        self.stop()
        for each in self.containers:
            each.end()

    # By sys.monitoring

    def _callbacks(self) -> dict[int, Callable[..., Any]]:
        """Callbacks by their event. A function's first line is not always one: that of a lambda is none, from Python
        3.13 on."""
        events = MONITORING.events
        begins, ends = (events.PY_START, events.PY_RESUME), (events.PY_RETURN, events.PY_YIELD)
        return {events.LINE: self._line, **dict.fromkeys(begins, self._begin), **dict.fromkeys(ends, self._end)}

    def _begin(self, code: types.CodeType, offset: int) -> Any:
        try:
            frame = sys._getframe(1)
            self._stepped(frame, (code, frame.f_lineno))
            return self._unless_hot(code, -offset)
        except Exception as error:
            return self._failed(error)

    def _line(self, code: types.CodeType, line: int) -> Any:
        try:
            self._stepped(sys._getframe(1), (code, line))
            return self._unless_hot(code, line)
        except Exception as error:
            return self._failed(error)

    def _end(self, code: types.CodeType, offset: int, _value: object) -> Any:
        try:
            frame = sys._getframe(1)
            self._stepped(frame, self._above(frame))
            return self._unless_hot(code, -offset)
        except Exception as error:
            return self._failed(error)

    def _unless_hot(self, code: types.CodeType, place: int) -> Any:
        """What Python is told after an event: no more of them if there were many, or if there is no CPU left."""
        self._hits[id(code), place] += 1
        self._has_disabled |= self._left_ns < 0
        return MONITORING.DISABLE if self._hits[id(code), place] > HOT or self._left_ns < 0 else None

    # By sys.settrace

    def _enter(self, frame: types.FrameType, _event: str, _: Any) -> Any:
        """Python calls it for each new frame: the frames of libraries are not followed."""
        try:
            self._left_ns -= CALL_NS
            if self._left_ns < 0:
                self.stop()
                return None
            if frame.f_code is BEGINS:
                self._others_ns = -OTHERS_NS  # the line that runs may end this thread as well
            if not self._is_users(frame.f_code):
                return None
            self._hits[id(frame.f_code), 0] += 1
            if self._hits[id(frame.f_code), 0] > HOT:
                self._last[get_ident()] = None  # what gets longer in it is not the caller's
                return None
            self._stepped(frame, (frame.f_code, frame.f_lineno) if self._last.get(get_ident()) is not None else None)
            return self._step
        except Exception as error:
            return self._failed(error)

    def _step(self, frame: types.FrameType, event: str, _: Any) -> Any:
        try:
            self._stepped(frame, self._above(frame) if event == "return" else (frame.f_code, frame.f_lineno))
            if self._left_ns < 0:
                self.stop()  # not by None alone: Python calls it for each further line of this frame
            return self._step
        except Exception as error:
            return self._failed(error)

    # By both

    def _stepped(self, frame: types.FrameType, now: tuple[types.CodeType, int] | None) -> None:
        """A line begins, or a function ends: what got longer since, did so in the line before."""
        thread = get_ident()
        if thread in self._last or thread == self._main:
            last = self._last.get(thread)
        else:  # a thread that begins did not do it: the line that started it did
            last = self._last.get(self._main)
            frame = sys._current_frames().get(self._main, frame)
        self._last[thread] = now
        self._left_ns -= self._step_ns
        did_others = self._did_others()
        for each in self.containers:
            size = each.measure()
            if size != each.length:
                stack = self._stack(frame, last) if last is not None else ()
                each.changed(size, (OTHERS,) if did_others and each.each is not THREADS else stack)

    def _did_others(self) -> bool:
        """Have other threads run since the line before? What they added may be seen after a line of this one."""
        before, self._others_ns = self._others_ns, 0
        if _thread._count():
            self._others_ns = time.process_time_ns() - time.thread_time_ns()
            self._left_ns -= CLOCKS_NS
        return abs(self._others_ns - before) >= OTHERS_NS

    def _stack(self, frame: types.FrameType | None, last: tuple[types.CodeType, int]) -> Stack:
        """The user's frames, from that of the line that has run."""
        code, line = last
        above: list[Line] = []
        begun = False
        while frame is not None and len(above) < MOST_FRAMES:
            if begun and self._is_users(frame.f_code):
                above.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
            begun = begun or frame.f_code is code
            frame = frame.f_back
        return ((code.co_filename, line, code.co_name), *above)

    def _above(self, frame: types.FrameType) -> tuple[types.CodeType, int] | None:
        """The line of the user's code that called."""
        above = frame.f_back
        while above is not None and not self._is_users(above.f_code):
            above = above.f_back
        return (above.f_code, above.f_lineno) if above is not None else None

    def _is_users(self, code: types.CodeType) -> bool:
        known = self._known.get(id(code))
        if known is None:
            known = self._known[id(code)] = self._users.has(code.co_filename), code
        return known[0]

    def _failed(self, error: Exception) -> None:
        """Our own error ends the watch. One of the function's, from a signal that came just now, is the function's."""
        self._left_ns = -1
        if MONITORING is None:
            self.stop()
        place = error.__traceback__
        while place is not None and place.tb_next is not None:
            place = place.tb_next
        if place is not None and not place.tb_frame.f_code.co_filename.startswith(OUR_FOLDER):
            raise error
