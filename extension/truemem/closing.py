"""Closes windows: at an event, or before it at rest; gives each to its record, and takes it back where it was early."""

from __future__ import annotations

import time

from .out_of_memory import ending_of
from .record import InvocationRecord
from .window import peak

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .history import History
    from .oom_kills import OomKills
    from .out_of_memory import Ending
    from .publisher import Publisher
    from .recorder import Cut, Recorder
    from .running_clock import RunningClock
    from .runtime_watch import RuntimeWatch
    from .surroundings import Surroundings
    from .telemetry import Event
    from .window import Peak, Window

MS = 1_000_000


class Closing:
    """Of one environment's windows."""

    def __init__(
        self,
        recorder: Recorder,
        publisher: Publisher,
        watch: RuntimeWatch,
        surroundings: Surroundings,
        clock: RunningClock,
        history: History,
        kills: OomKills,
    ) -> None:
        self._recorder = recorder
        self._publisher = publisher
        self._watch = watch
        self._surroundings = surroundings
        self._clock = clock
        self._history = history
        self._kills = kills
        self._at_rest = False
        """The last window was closed with the function at rest: the one that is open is the next invocation's."""
        self._disproven = False
        """It was not at rest, as is known by now."""
        self._begun = False
        """An invocation has."""

    def cut(self) -> Cut | None:
        """An event has come: read and reset now, or None where the last window was closed at rest already."""
        return None if self._at_rest and self.confirm() else self._recorder.cut()

    def close(self, closed_by: str, window: Window, died: str = "") -> None:
        """The open record, if any, gets its window and what the environment holds at this moment. `died`: why the
        environment ends with it, `failure` or `timeout`. An init phase that dies has no record: the log tells of it."""
        self._recorder.settle(window)
        record = self._publisher.current()
        if record is not None:
            self._measure(record, window, closed_by, died)
            self._publisher.keep(record)
            return
        last = self._publisher.last()
        if self._at_rest and last is not None and last.provisional:
            self._follow(last, window, closed_by, died)
        if died and not self._begun:
            init = InvocationRecord("", 0, 0)
            self._measure(init, window, closed_by, died)
            self._publisher.tell_of_init(init)

    def _measure(self, record: InvocationRecord, window: Window, closed_by: str, died: str) -> None:
        record.closed, record.closed_by, record.closed_at_ms = True, closed_by, self._clock.running_ms
        record.window = window
        record.peak = peak(window)
        self._mark(record.peak)
        record.high_water_mark = self._history.high_water_mark
        record.ending = self._ending(window, died)
        self._surroundings.describe(record)
        record.kernel_kills = self._killed(window)

    def _ending(self, window: Window, died: str) -> Ending | None:
        if not died:
            return None
        self._surroundings.look()
        held_kib, extensions = self._surroundings.held_kib, self._surroundings.extensions
        return ending_of(died, window, held_kib, self._recorder.holder, extensions)

    def _killed(self, window: Window) -> int:
        """By the kernel in that window, for want of memory."""
        if not window.someone_ended:
            return 0
        killed = self._kills.more()
        self._history.kills = self._kills.seen
        return killed

    def begin(self, record: InvocationRecord, init: Window | None) -> None:
        """The next invocation begins. `init` is the window of the init phase, before the first."""
        self._at_rest, self._begun = False, True
        if init is not None:
            record.init_peak = peak(init)
            self._mark(record.init_peak)
        self._publisher.open(record)

    def rest(
        self,
        done: Event | None,
        event_has_come: Callable[[], bool],
        let_go: Callable[[float], None],
        not_before_ns: int,
    ) -> bool:
        """Close the window at rest, if it is one; False if not. `done` is the platform's word for it, else the
        connections are looked at. `let_go` is told how long the runtime has been back, at most, in ms. An event that
        has come came not before `not_before_ns` (epoch ns)."""
        cut = self._recorder.cut()
        # If an event has come meanwhile, the runtime may have been released with it.
        at_rest = not event_has_come()
        if done is None and not (at_rest and cut.at_rest() and self._watch.unmoved()):
            self._recorder.absorb(cut)
            return False
        record = self._publisher.current()
        if done is not None:
            let_go(max(0.0, (time.time_ns() - (done.time_ns or cut.done_ns)) / MS))
        else:
            let_go(self._watch.back_for_ms())
            if record is not None:
                record.provisional = True
                self._watch.rest()
        window = self._recorder.close(cut, None, not_before_ns, at_rest)
        self.close("runtime-done" if done is not None else "idle", window)
        self._at_rest = True
        return True

    def confirm(self) -> bool:
        """Was it a rest at which the last window was closed? Nothing has been sent since then, so it was."""
        record = self._publisher.last()
        if record is not None and record.provisional:
            unmoved = self._watch.unmoved()
            self._disproven = unmoved is False
            record.provisional = not unmoved
            return not record.provisional
        return True

    def _follow(self, record: InvocationRecord, window: Window, closed_by: str, died: str) -> None:
        """The rest that its window was closed at may have been none, then what came after it belongs to it. Where a
        short invocation has followed at once, the connections do not tell: platform.runtimeDone will."""
        self._mark(peak(window))
        # Unless it is the environment's end, a kill may be the next invocation's, whose window tells of it.
        record.after = window, closed_by, self._ending(window, died), self._killed(window) if died else 0
        if self._disproven:
            record.decide(rested=False)

    def _mark(self, reached: Peak | None) -> None:
        if reached is not None:
            self._history.high_water_mark = max(self._history.high_water_mark, reached.estimate)
