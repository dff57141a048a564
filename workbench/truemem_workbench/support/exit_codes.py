"""How the command ends: by a signal, without anybody who reads what it prints, by an error of its own.

Exit code 1 means that a limit was broken, so nothing else may end with it, as Python by itself would.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import click

from .terminal import tell
from .untrusted_text import visible

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
UNUSABLE = 2
PATIENCE_S = 10
"""For folders to go and queries to stop, after a signal. Python 3.11's pool of processes waits for ever for one that
the same signal has killed."""


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


def ended(run: Callable[[], int]) -> int:
    """The exit code of the process, once `run` is through: its own, or that of what cut it short."""
    signals = _Signals()
    try:
        code = run()
        sys.stdout.flush()
    except BaseException as error:  # not always Ended: DuckDB makes a RuntimeError of it, click an Abort
        code = 128 + signals.came if signals.came else _code(error)
    if code - 128 in ENDING:
        _tell(code - 128)
    return code


@contextmanager
def unheard_by_children() -> Iterator[None]:
    """Ctrl-C goes to every process of a terminal. Those that begin inside inherit that it is blocked, and are ended by
    their pool; another thread hears it in our place."""
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # with the first of them it would, and unblock the signal
    done = threading.Event()
    threading.Thread(target=done.wait, daemon=True).start()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        done.set()


class _Signals:
    """The first one raises Ended, so that temporary folders go, queries stop; the second ends the process at once."""

    def __init__(self) -> None:
        self.came = 0
        for number in ENDING:
            signal.signal(number, self._end)

    def _end(self, number: int, _: FrameType | None) -> None:
        self.came = number
        for each in ENDING:
            signal.signal(each, signal.SIG_DFL)
        watchdog = threading.Timer(PATIENCE_S, _give_up, (number,))
        watchdog.daemon = True
        watchdog.start()
        raise Ended(number)


def _give_up(number: int) -> None:
    _tell(number)
    os._exit(128 + number)


def _tell(number: int) -> None:
    click.echo(f"truemem: ended by {signal.Signals(number).name}", err=True)


def _code(error: BaseException) -> int:
    if isinstance(error, BrokenPipeError | SystemExit):  # click and rich make the one of the other
        _let_go()
        return 128 + signal.SIGPIPE
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return 128 + signal.SIGINT
    if isinstance(error, OSError):
        _flush()
        where = f": {error.filename}" if error.filename else ". Look at where its output goes, and at TMPDIR"
        tell("truemem", f"{error.strerror or error}{where}")
        return UNUSABLE
    for line in "".join(traceback.format_exception(error)).splitlines():
        click.echo(visible(line), err=True)
    click.echo("truemem: that was an error of its own, not of what you typed; the lines above tell where", err=True)
    return UNUSABLE


def _flush() -> None:
    try:
        sys.stdout.flush()
    except OSError:
        _let_go()


def _let_go() -> None:
    """Python writes the rest of the buffer at its end, and would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
