"""What a thread of CPython runs: its stack, read through /proc/PID/mem. Nothing is written, signalled or stopped.

The probe says where the state of the main thread lies, and the types by which code, strings and bytes are known
(truemem_heap). CPython's own walk, in a handler of faulthandler's, is not used: a function that might have lived was
ended by it, 3.11.7 by five signals with `all_threads`, 3.13.0 by some hundred without.

The process runs meanwhile: the stack is read twice, and from its root on the frames count that were there both times,
up to the first one that has gone on. What is no code, no string, no root or no thread of that number is not believed.
"""

from __future__ import annotations

import posix

from ..arenas import WORD, read_words
from ..support.named_tuple import NamedTuple
from ..support.numbers import whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal

    Entry = tuple[int, int, int]
    """Addresses of a frame, of its code, and of the instruction at which it is."""

MAGIC = b"truemem-stacks-1"
MOST_THREADS, MOST_FRAMES = 64, 300
MOST_NAME_CHARS = 200
MOST_TABLE_BYTES = 256 * 1024
MOST_CODES = 1000
"""Code that is kept once it was read."""
DIGITS = 20
TRIES = 3

CODE_WORDS = 18
"""Words at the beginning of a code object: all that is read of it but for its instructions."""
FRAME_WORDS = 10
ROOT_AT, ROOT_OF = 32, 4096
"""A thread's first frame lies so many bytes after the begin of a page: its stack begins with the head of a chunk
(Python/pystate.c, push_chunk). Where a walk ends elsewhere, frames have moved meanwhile."""
TAGS = 7
"""Low bits of a reference that are no part of the address."""
OF_C = 3
"""`owner` of a frame that stands for a call from C: it has no code of anybody's (FRAME_OWNED_BY_CSTACK)."""


class Layout(NamedTuple):
    """Offsets in bytes of one version, as gdb's `ptype /o` shows them on 64 bits."""

    thread: int
    """native_thread_id in PyThreadState."""
    path: tuple[int, ...]
    """The way from there to its frame: cframe->current_frame, or current_frame."""
    code: int
    previous: int
    instruction: int
    owner: int
    """f_code (f_executable), previous, prev_instr (instr_ptr), owner in _PyInterpreterFrame."""
    first: int
    begin: int
    """co_firstlineno, co_code_adaptive in PyCodeObject."""
    ascii: int
    """Where the characters of a string begin that are all ASCII."""
    other: int
    """The same, of another one."""


FILE, NAME, TABLE = 14, 16, 17
"""Words of co_filename, co_qualname, co_linetable in PyCodeObject."""
LAYOUTS = {
    b"3.11": Layout(160, (56, 8), 32, 48, 56, 69, 72, 184, 48, 72),
    b"3.12": Layout(144, (56, 0), 0, 8, 56, 70, 68, 192, 40, 56),
    b"3.13": Layout(160, (72,), 0, 8, 56, 70, 68, 200, 40, 56),
}


class Frame(NamedTuple):
    file: str
    line: int
    function: str


class Code(NamedTuple):
    """What does not change of a code object."""

    words: list[int]
    file: str
    name: str
    first: int
    table: bytes


class PythonStacks:
    """The stacks of one process."""

    is_evident = is_collector = False
    """Is there a stack only where that takes memory, of any thread; and was the last one of a thread that waits, while
    a collector takes memory for it?"""
    waits = False
    """Is what it runs a call into C++ that has not ended?"""

    def __init__(self, layout: Layout, state: int, kinds: tuple[int, int, int], root: str) -> None:
        """`state`: address of the main thread's state. `kinds`: of the types of code, strings and bytes. `root`: folder
        of the function's code."""
        self._layout, self._state = layout, state
        self.root = root
        self.threads: frozenset[int] = frozenset()
        """Those that take memory for the main one: none."""
        self._code_type, self._text_type, self._bytes_type = kinds
        self._codes: dict[int, Code] = {}

    def frames(self, path: str, thread: int) -> list[Frame]:
        """What the thread of this number runs, the innermost first; `path`: of the process's memory. Empty where it
        runs none of Python's code, and where that cannot be read."""
        try:
            memory = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
        except OSError:
            return []
        try:
            return [
                frame for frame in (self._frame(memory, *entry[1:]) for entry in self._stack(memory, thread)) if frame
            ]
        except (OSError, ValueError, OverflowError):
            return []
        finally:
            posix.close(memory)

    def _stack(self, memory: int, thread: int) -> list[Entry]:
        """Frames that were there when it was read twice. Raises OSError, ValueError."""
        state = next((each for each in self._states(memory) if self._number(memory, each) == thread), 0)
        if not state:
            return []
        before: list[Entry] = []
        for _ in range(TRIES):
            now = list(self._walk(memory, state))
            if not now or now[-1][0] % ROOT_OF != ROOT_AT:
                continue
            same = 0
            for one, other in zip(reversed(before), reversed(now), strict=False):
                if one[:2] != other[:2]:
                    break
                same += 1
                if one != other:
                    break
            if same:
                return now[len(now) - same :]
            before = now
        return []

    def _states(self, memory: int) -> Iterator[int]:
        """The states of all threads: those before the main one's are younger."""
        yield self._state
        for link in 0, WORD:
            state = self._state
            for _ in range(MOST_THREADS):
                state = read_words(memory, state + link, 1)[0]
                if not state:
                    break
                yield state

    def _number(self, memory: int, state: int) -> int:
        return read_words(memory, state + self._layout.thread, 1)[0]

    def _walk(self, memory: int, state: int) -> Iterator[Entry]:
        layout, at = self._layout, state
        for offset in layout.path:
            at = read_words(memory, at + offset, 1)[0]
        for _ in range(MOST_FRAMES):
            if not at:
                return
            words = read_words(memory, at, FRAME_WORDS)
            if words.cast("B")[layout.owner] != OF_C:
                yield at, words[layout.code // WORD] & ~TAGS, words[layout.instruction // WORD]
            at = words[layout.previous // WORD]

    def _frame(self, memory: int, address: int, instruction: int) -> Frame | None:
        """None where its line is not known. Raises OSError, ValueError."""
        words = read_words(memory, address, CODE_WORDS)
        known, immutable = self._codes.get(address), words[1:].tolist()
        if known is None or known.words != immutable:
            known = self._code(memory, words)
            if len(self._codes) >= MOST_CODES:
                self._codes.clear()
            self._codes[address] = known
        line = line_of(known.table, known.first, instruction - address - self._layout.begin)
        return Frame(known.file, line, known.name) if line else None

    def _code(self, memory: int, words: memoryview) -> Code:
        if words[1] != self._code_type:
            raise ValueError("this is no code")
        kind, size = read_words(memory, words[TABLE] + WORD, 2)
        if kind != self._bytes_type or size > MOST_TABLE_BYTES:
            raise ValueError("this is no table of lines")
        table = posix.pread(memory, size, words[TABLE] + 4 * WORD)
        first = int.from_bytes(words.cast("B")[self._layout.first : self._layout.first + 4], "little")
        file, name = self._text(memory, words[FILE]), self._text(memory, words[NAME])
        return Code(words[1:].tolist(), file, name, first, table)

    def _text(self, memory: int, address: int) -> str:
        kind, size, _, state = read_words(memory, address + WORD, 4)
        width = state >> 2 & 7
        if kind != self._text_type or width not in (1, 2, 4) or size > MOST_NAME_CHARS:
            raise ValueError("this is no short string")
        format_: Literal["B", "H", "I"] = "B" if width == 1 else "H" if width == 2 else "I"
        data = posix.pread(
            memory, width * size, address + (self._layout.ascii if state >> 6 & 1 else self._layout.other)
        )
        text = "".join(map(chr, memoryview(data).cast(format_)))
        if not text.isprintable():
            raise ValueError("this is no name")
        return text


def parse(page: bytes) -> PythonStacks | None:
    """What the probe says at the beginning of its page; None where it does not, or its version is not known."""
    magic, version, *numbers = (*page.partition(b"\n")[0].split(b" ", 6), b"")[:7]
    *known, root = *(whole(number, DIGITS) for number in numbers[:4]), b"".join(numbers[4:])
    if magic != MAGIC or version not in LAYOUTS or len(known) != 4 or not all(known) or not root:
        return None
    state, *kinds = (number or 0 for number in known)
    root_ = root.decode("utf-8", "replace").rstrip("/")
    return PythonStacks(LAYOUTS[version], state, (kinds[0], kinds[1], kinds[2]), root_)


def line_of(table: bytes, first: int, at: int) -> int:
    """The line of the instruction `at` so many bytes, of code that begins at line `first`; 0 where it has none. `table`
    is co_linetable of CPython 3.11 and later (Objects/locations.md): each entry begins with a byte above 127, which has
    a kind and how many instructions of two bytes it is for."""
    line, begin, place = first, 0, 0
    while place < len(table):
        kind, length = table[place] >> 3 & 15, 2 * ((table[place] & 7) + 1)
        place += 1
        if kind in (13, 14):  # no columns; all: the difference is a signed number, 6 bits in each byte
            value = shift = 0
            while place < len(table):
                value |= (table[place] & 63) << shift
                shift, place = shift + 6, place + 1
                if not table[place - 1] & 64:
                    break
            line += -(value >> 1) if value & 1 else value >> 1
        elif 10 <= kind <= 12:
            line += kind - 10
        if at < begin + length:
            return line if kind != 15 else 0
        begin += length
        while place < len(table) and table[place] < 128:
            place += 1
    return 0
