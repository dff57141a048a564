"""Ends the command with the right exit code: after a signal, a reader that has gone, or an error of its own.

Exit code 1 means a broken limit, so nothing else may end with it. Python alone would do so.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

import click

from .bad_input import BadFunction, BadInput
from .near import meant
from .terminal import notify
from .untrusted_text import visible

ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name))
"""Windows has the first two."""
SIGPIPE = 13
UNUSABLE_CODE = 2
NOTHING = "it was ended before it had an answer: nothing is known"
ENDS_BISECTION = 128
"""`git bisect run` ends at that, and does not take it for an answer."""
CLEANUP_S = 10
"""Time after a signal to remove folders and end processes. Python 3.11's process pool can wait for ever for a process
that the same signal has killed."""


class Ended(BaseException):
    """Raised at Ctrl-C, SIGTERM, SIGHUP or SIGQUIT."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def raise_on_signals() -> None:
    """Make the first signal raise Ended. Later signals do nothing, because the shutdown takes up to two seconds."""

    def end(number: int, _: FrameType | None) -> None:
        for each in ENDING:
            signal.signal(each, signal.SIG_IGN)
        raise Ended(number)

    for number in ENDING:
        signal.signal(number, end)


def exit_with(context: click.Context, name: str, work: Callable[[], int], undecided: int = UNUSABLE_CODE) -> NoReturn:
    """End the command `name` with the exit code that `work` returns; UNUSABLE_CODE if it raises BadInput, and after a
    signal 128 and its number: what `work` has begun is ended before. `undecided`: in place of UNUSABLE_CODE, also after
    an error of its own; but a BadInput that is not the function's ends it with ENDS_BISECTION then."""
    raise_on_signals()
    try:
        code = work()
    except BadInput as problem:
        notify(name, problem)
        code = UNUSABLE_CODE
        if undecided != UNUSABLE_CODE and not isinstance(problem, BadFunction):
            code = ENDS_BISECTION
    except Ended as ended:
        notify(name, NOTHING)
        code = 128 + ended.number
    except Exception as error:
        if undecided == UNUSABLE_CODE:
            raise
        code = _code(error)
    context.exit(undecided if code == UNUSABLE_CODE else code)


def ended(command: click.Command, name: str) -> int:
    """Run the command and return the exit code: its own, or that of the signal or error that ended it."""
    signals = _Signals()
    try:
        code = run(command, name)
        sys.stdout.flush()
    except BaseException as error:  # not always Ended: click makes an Abort of it
        code = 128 + signals.number if signals.number else _code(error)
    if code - 128 in ENDING:
        _print_ending(code - 128)
    return code


def run(command: click.Command, name: str) -> int:
    """Run the command with the arguments of this process. Returns its exit code, also where it refuses its input."""
    try:
        code = command.main(prog_name=name, standalone_mode=False)
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else name
        message = _message(error)
        notify(path, f"{message}{'' if message.endswith('?') else '.'} Try {path} --help")
        return error.exit_code
    except BadInput as error:
        notify(name, error)
        return UNUSABLE_CODE
    return code if isinstance(code, int) else 0


_NO_CHOICE = re.compile(r"'([^']*)' is not one of ")
_NOT_IN_RANGE = re.compile(r"(\S+) is not in the range ")


def _message(error: click.UsageError) -> str:
    """What was wrong, and what may have been meant. Without its full stop."""
    if isinstance(error, click.NoSuchOption):
        return f"No such option '{error.option_name}'.{meant(error.option_name, error.possibilities or ())}".rstrip(".")
    message = error.format_message().rstrip(".")
    parameter = error.param if isinstance(error, click.BadParameter) else None
    kind = parameter.type if parameter is not None else None
    if parameter and isinstance(kind, click.IntRange | click.FloatRange) and (said := _NOT_IN_RANGE.search(message)):
        return f"{max(parameter.opts, key=len)} {said[1].removesuffix('.0')}: it must be {_limits(kind)}"
    if isinstance(kind, click.Choice) and (said := _NO_CHOICE.search(message)):
        near = meant(said[1], map(str, kind.choices))
        return f"{message}.{near}" if near else message
    return message


def _limits(kind: click.IntRange | click.FloatRange) -> str:
    """The range in words, as in `above 0, at most 1800`."""
    least = "" if kind.min is None else f"above {kind.min:,}" if kind.min_open else f"{kind.min:,} or more"
    return ", ".join(filter(None, [least, "" if kind.max is None else f"at most {kind.max:,}"]))


@contextmanager
def no_ctrl_c_in_children() -> Iterator[None]:
    """Block Ctrl-C for child processes that start inside. A terminal sends it to all; here their pool ends them.

    Another thread receives it in place of this one.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    done = threading.Event()
    threading.Thread(target=done.wait, daemon=True).start()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        done.set()


class _Signals:
    """Handles signals. The first raises Ended, so that the command can clean up; the second ends it at once."""

    def __init__(self) -> None:
        self.number = 0
        for number in ENDING:
            signal.signal(number, self._end)

    def _end(self, number: int, _: FrameType | None) -> None:
        self.number = number
        for each in ENDING:
            signal.signal(each, signal.SIG_DFL)
        watchdog = threading.Timer(CLEANUP_S, _give_up, (number,))
        watchdog.daemon = True
        watchdog.start()
        raise Ended(number)


def _give_up(number: int) -> None:
    _print_ending(number)
    os._exit(128 + number)


def _print_ending(number: int) -> None:
    click.echo(f"truemem: ended by {signal.Signals(number).name}", err=True)


def _code(error: BaseException) -> int:
    if isinstance(error, SystemExit) and not error.code:  # click ends the shell's completion so
        return 0
    if isinstance(error, BrokenPipeError | SystemExit):  # click and rich make the one of the other
        discard_output()
        return 128 + SIGPIPE
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return 128 + signal.SIGINT
    if isinstance(error, OSError):
        _flush()
        where = f": {error.filename}" if error.filename else ". Look at where its output goes, and at TMPDIR"
        notify("truemem", f"{error.strerror or error}{where}")
        return UNUSABLE_CODE
    for line in "".join(traceback.format_exception(error)).splitlines():
        click.echo(visible(line), err=True)
    click.echo("truemem: this is an error of truemem, not of your input; the lines above say where", err=True)
    return UNUSABLE_CODE


def _flush() -> None:
    try:
        sys.stdout.flush()
    except OSError:
        discard_output()


def discard_output() -> None:
    """Redirect standard output to /dev/null. Python writes the rest of its buffer at exit, and would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
