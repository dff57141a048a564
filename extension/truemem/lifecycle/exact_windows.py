"""Closes the windows that exact mode has measured while the runtime's bytes passed."""

from __future__ import annotations

from ..measure.race import NEVER, Boundary
from ..records.pending_record import NEXT_REQUEST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..measure.readings import Readings
    from ..measure.recorder import Recorder
    from ..measure.window import Window
    from ..platform.exact_mode import ExactMode, Invocation, Moment
    from ..records.publisher import Publisher
    from .window_closer import WindowCloser

AHEAD = 2
"""One event is on its way at a time: another moment after its first bytes says that it was cut off."""
UNKNOWN = 16
"""Invocations that may have ended before the sidecar was told of them."""


class ExactWindows:
    """The windows of one environment that are measured while the runtime's bytes pass."""

    def __init__(
        self,
        exact: ExactMode,
        recorder: Recorder,
        publisher: Publisher,
        closer: WindowCloser,
        drain: Callable[[Readings], None],
    ) -> None:
        """`drain` reads the processes that readings have left out."""
        self._exact = exact
        self._recorder = recorder
        self._publisher = publisher
        self._closer = closer
        self._drain = drain
        self._began = False
        """An INVOKE has come."""
        self._init: Window | None = None
        """The window of the init phase, once it is closed and until the first record has it."""
        self._finished: dict[str, tuple[Window, Invocation]] = {}
        """Invocations whose end has passed here before their INVOKE, by request id."""

    @property
    def due(self) -> bool:
        """Is there a window to close?"""
        return self._exact.due(AHEAD)

    @property
    def measured_next(self) -> bool:
        """Has the next invocation begun, perhaps? What is read now may be of its window."""
        return bool(self._exact.moments)

    @property
    def covers_event(self) -> bool:
        """Has the window of the last invocation been closed where its bytes pass, and will the next one be?"""
        if not self._exact.engaged:
            return False
        record = self._publisher.current()
        ended = [invocation.request_id for moment in self._exact.moments for invocation in moment.ended]
        return record is None or record.request_id in ended

    def close(self) -> bool:
        """Close the windows that are due; True if a record was closed with one."""
        moments: list[Moment] = []
        while (moment := self._exact.take(AHEAD)) is not None:
            moments.append(moment)
        if not moments:
            return False
        # Processes that no answer has waited for are read once, now: for all readings that left them out.
        if not self.measured_next:  # else they may have been read for the next one, and reset
            self._drain(moments[-1].measured)
        for before, after in zip(moments[-2::-1], moments[:0:-1], strict=True):
            before.measured.read_later(after.measured)
        closed = False
        for moment in moments:
            closed |= self._close_one(moment)
        return closed

    def _close_one(self, moment: Moment) -> bool:
        if moment.is_sample:
            self._recorder.add_readings(moment.measured)
            return False
        window = self._recorder.close(moment.measured, NEVER)
        self._recorder.adopt_new_processes(window)
        if self._init is None and not self._began:
            self._init = window
        closed = False
        for invocation in moment.ended:
            closed |= self._end(window, invocation)
        record = self._publisher.current()
        if moment.begun is not None and record is not None and record.request_id != moment.begun.request_id:
            self._closer.close(record, window, "next-invoke")  # its end was not seen
        return closed

    def begin(self, request_id: str) -> None:
        """Its INVOKE has come, and its record is open. It may have ended here already."""
        self._began = True
        if request_id in self._finished:
            self._end(*self._finished.pop(request_id))

    def take_init(self) -> Window | None:
        """The window of the init phase, if it was closed here: once."""
        init, self._init = self._init, None
        return init

    def _end(self, window: Window, invocation: Invocation) -> bool:
        """The window of an invocation is closed; False if its INVOKE has not come yet."""
        record = self._publisher.current()
        if record is None or record.request_id != invocation.request_id:
            self._finished[invocation.request_id] = window, invocation
            if len(self._finished) > UNKNOWN:
                del self._finished[next(iter(self._finished))]
            return False
        record.answered(invocation)
        if invocation.unsure:
            window.opening = window.end = Boundary()
        self._closer.close(record, window, NEXT_REQUEST)
        return True
