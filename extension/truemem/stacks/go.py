"""What a program in Go runs: it says so itself, where our library for Go is in it (libraries/go/truemem/heap.go).

The library waits at a FIFO. One byte asks it for the stack of the goroutine that alone can run, at several moments with
page faults between them, and a later look reads the answer: a page that is written with one call, with its number at
both ends. We wait for nothing. There is no stack without the library, and where several goroutines can run.
"""

from __future__ import annotations

import posix
import time

from ..support.files import read_private
from ..support.named_tuple import NamedTuple
from ..support.numbers import whole
from .python import DIGITS, Frame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MAGIC = b"truemem-stacks-go-1"
ANSWER_BYTES, MOST_NAME_CHARS = 4096, 300
OWN = "own:"
"""Stands for the folder of the function's own code, which may have been anywhere when it was built."""
ASK_FLAGS = posix.O_WRONLY | posix.O_NONBLOCK | posix.O_NOFOLLOW | posix.O_CLOEXEC
KIND, FIFO, OF_OTHERS = 0o170000, 0o010000, 0o077


class Answer(NamedTuple):
    number: int
    at_ms: int
    """Since 1970."""
    allocations: int
    """At how many of the moments was it in Go's allocator?"""
    frames: Sequence[Frame]
    """The innermost first; empty where that is not certain. Own files begin with OWN and a slash."""


class GoStacks:
    """The answers of one process."""

    root = OWN

    def __init__(self, answers: str, question: str) -> None:
        """Paths of the page and of the FIFO."""
        self._answers, self._question = answers, question
        self._number = 0
        self._asked_ms = (0, 0)
        """When the last two looks asked, ms since 1970: the earlier one first."""

    def answer(self) -> Answer | None:
        """The answer to what one of the last two looks asked; None where there is no new one. Asks again."""
        answer = parse(read_private(self._answers, ANSWER_BYTES) or b"")
        before, self._number = self._number, answer.number if answer is not None else self._number
        since_ms, self._asked_ms = self._asked_ms, (self._asked_ms[1], time.time_ns() // 1_000_000)
        _ask(self._question)
        if answer is None or answer.number == before or not 0 < (since_ms[0] or since_ms[1]) <= answer.at_ms:
            return None
        return answer


def _ask(path: str) -> None:
    """Write one byte into the process's FIFO, if it is one, of the same user, not full, and has a reader."""
    try:
        descriptor = posix.open(path, ASK_FLAGS)
    except OSError:
        return
    try:
        about = posix.fstat(descriptor)
        if about.st_mode & KIND == FIFO and not about.st_mode & OF_OTHERS and about.st_uid == posix.geteuid():
            posix.write(descriptor, b"?")
    except OSError:
        pass
    finally:
        posix.close(descriptor)


def parse(page: bytes) -> Answer | None:
    """The answer in this page; None where there is no whole one."""
    text, _, rest = page.partition(b"\0")
    lines = text.split(b"\n")
    magic, *said = lines[0].split(b" ")
    numbers = [whole(each, DIGITS) for each in said]
    if magic != MAGIC or len(numbers) != 3 or len(lines) < 3 or lines[-1] or rest.strip(b"\0"):
        return None
    number, at_ms, allocations = numbers
    frames = [_frame(line) for line in lines[1:-2]]
    if not number or at_ms is None or allocations is None or whole(lines[-2], DIGITS) != number or None in frames:
        return None
    return Answer(number, at_ms, allocations, [frame for frame in frames if frame])


def _frame(text: bytes) -> Frame | None:
    """`+ LINE FUNCTION FILE`, with `-` where it is of a library; line 0: one of the function's."""
    mark, line, function, file = (*text.decode("utf-8", "replace").split(" ", 3), "", "", "")[:4]
    number = whole(line.encode(), DIGITS)
    if mark not in ("+", "-") or number is None or not file or len(file) + len(function) > MOST_NAME_CHARS:
        return None
    if not (file + function).isprintable():
        return None
    return Frame(f"{OWN}/{file}" if mark == "+" else file, number, function)


def stacks_of(tmp: str, pid: int) -> GoStacks | None:
    """The stacks of the process with this number, if the library is in it; `tmp`: the folder of its pages."""
    answers = f"{tmp}/.truemem-running-{pid}"
    return GoStacks(answers, f"{tmp}/.truemem-ask-{pid}") if read_private(answers, ANSWER_BYTES) else None
