"""The signals that end a command, as an exception: so that folders, processes and queries are cleaned up."""

from __future__ import annotations

import signal
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ended(BaseException):
    """Ctrl-C, SIGTERM or SIGHUP."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def raise_on_signals() -> None:
    """The first signal raises Ended; later ones do nothing, for the end takes its two seconds."""

    def end(number: int, _: FrameType | None) -> None:
        for each in ENDING:
            signal.signal(each, signal.SIG_IGN)
        raise Ended(number)

    for number in ENDING:
        signal.signal(number, end)
