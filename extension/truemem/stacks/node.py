"""What the main thread of Node.js runs: V8's stack, read through /proc/PID/mem. Nothing is written or stopped.

While JavaScript waits for V8 or an addon, in C++, its frames lie still, and the isolate has the last one (c_entry_fp_):
that is where most memory is taken. The isolate is found from outside: main() has its address among its variables, and
the isolate has it once more, beside the number of the thread. The probe says no more than the version (heap.cjs).

The process runs meanwhile: the stack counts if it is the same before and after. What is no function, no script, and no
code that has this instruction is not believed. A call in optimized code has a line where TurboFan notes one for sure.
"""

from __future__ import annotations

import posix

from ..arenas import WORD, read_words
from ..support.files import READ_FLAGS, read
from ..support.named_tuple import NamedTuple
from ..support.numbers import whole
from . import v8
from .python import DIGITS, MOST_THREADS, Frame

TYPE_CHECKING = False
if TYPE_CHECKING:
    Entry = tuple[int, int, int, int, int]
    """Address of a frame and of the instruction at which it goes on; its slots for function, bytecode and offset."""

MAGIC = b"truemem-stacks-node-1"
MOST_STACK_BYTES, STACK_BYTES, MOST_FRAMES = 8 << 20, 32 * 1024, 300
MAIN_BYTES = 4096
"""Bytes of the stack, from its begin on, in which main() has its variables."""
MAIN_THREAD = 1
STAT_BYTES = 1024
MOST_NAME_CHARS, MOST_CONS = 300, 8
MOST_TABLE_BYTES, MOST_CODE_BYTES, BLOCK_BYTES = 1 << 20, 512 * 1024, 16 * 1024
MOST_KNOWN = 1000
TRIES = 3
TURBOFAN = 2
"""How much higher its kind is than that of Sparkplug's code; Maglev's is between them."""
ALIGNED = 32
"""Code begins at a multiple of so many bytes."""
INTERPRETED = bytes.fromhex("ffd14c8b65e0448b4ddc")
"""What the interpreter has around the place to which a bytecode's code returns, on x86-64: call *%rcx; mov
-0x20(%rbp),%r12; mov -0x24(%rbp),%r9d (Builtins::Generate_InterpreterEntryTrampoline)."""
ENTRY_FRAMES, MOST_MARKER = (1, 2), 64
NEXT_EXIT_FRAME = -64
"""Where the frame by which C++ has called JavaScript has the last exit frame before it, on x86-64."""
SLOTS, KIND_SLOT = (-16, -32, -40), -8
"""Where a frame has its function, bytecode and offset in it; and its context, or what kind of frame it is."""
INSTANCE_TYPE = 12
NOT_STRING, UNCACHED, ONE_BYTE, REPRESENTATION = 128, 16, 8, 7
SEQUENTIAL, CONS, EXTERNAL, THIN = 0, 1, 2, 5
SOURCE, SCRIPT_NAME, LINE_OFFSET, SCRIPT_ID = 1, 2, 3, 8
"""Words of a Script."""
STREAM, START = 4, 5
"""Words of a Code: its InstructionStream, and the address of its first instruction."""
ARRAY = 2
"""The first word of a FixedArray's elements."""
SCOPE_VARIABLES, INLINED_NAMES = 3, 75
"""Word of a ScopeInfo with the number of its variables, and how many it has at most in itself."""


CALL_BYTES = 10
"""Bytes of a call of an allocation: its size into a register, and the call. No other instruction that has a position of
its own is so short with the call after it."""
INLINED_FUNCTIONS = 1
"""Element of DeoptimizationData: of how many functions there are calls in the code."""
MOST_SAFEPOINT_BYTES = 16 * 1024
NOWHERE = Frame("", 0, "")
"""A place that is not known."""


class Function(NamedTuple):
    name: str
    file: str
    script: int
    """Address."""


class Code(NamedTuple):
    """Code that was compiled."""

    begin: int
    kind: int
    table: bytes
    deopt: int
    safepoints: bytes


class NodeStacks:
    """The stack of one process's main thread."""

    is_evident = is_collector = False
    waits = True
    """What it runs waits for the end of a call into C++."""

    def __init__(self, layout: v8.Layout, root: str, threads: frozenset[int]) -> None:
        """`root`: folder of the function's code. `threads`: numbers of those that are V8's, the main one too."""
        self._layout, self.root, self.threads = layout, root, threads
        self._isolate = self._top = 0
        self._functions: dict[int, tuple[list[int], Function | None]] = {}
        """By address, with its words."""
        self._interrupts: set[int] = set()
        """Addresses."""
        self._codes: dict[int, tuple[int, list[int], Code]] = {}
        """By address of an instruction: of the Code, with its words."""
        self._lines: dict[tuple[int, int], int] = {}
        """By a script's number and a character in it."""

    def frames(self, path: str, thread: int) -> list[Frame]:
        """What the thread of this number runs, the innermost first; `path`: of the process's memory. A line is 0 where
        it is not known; NOWHERE stands for what is not known at all, as where JavaScript has not left for C++. Empty
        where that cannot be read."""
        if path.split("/")[-2] != str(thread):
            return []  # only the main thread's isolate is known
        try:
            memory = posix.open(path, READ_FLAGS)
        except OSError:
            return []
        try:
            if not self._isolate:
                self._find(memory, path.removesuffix("mem") + "stat")
            return self._frames(memory)
        except (OSError, ValueError, IndexError, OverflowError):
            return []
        finally:
            posix.close(memory)

    def _find(self, memory: int, stat: str) -> None:
        """Find the isolate. Raises OSError, ValueError, IndexError."""
        self._top = int(read(stat, STAT_BYTES).rpartition(b")")[2].split()[25])  # startstack (proc_pid_stat(5))
        words = read_words(memory, (self._top - MAIN_BYTES) & -WORD, MAIN_BYTES // WORD)
        for word in dict.fromkeys(reversed(words)):
            if not word or word % WORD or self._in_stack(word):
                continue
            try:
                own, *after = read_words(memory, word + self._layout.isolate, 3)
            except (OSError, ValueError):
                continue
            if own == word and MAIN_THREAD in after:
                for begin, count in self._layout.interrupts:
                    self._interrupts.update(read_words(memory, word + begin, count))
                self._isolate = word
                return

    def _in_stack(self, address: int) -> bool:
        return self._top - MOST_STACK_BYTES < address < self._top

    def _frames(self, memory: int) -> list[Frame]:
        if not self._isolate or read_words(memory, self._isolate + self._layout.isolate, 1)[0] != self._isolate:
            return []
        before: list[Entry] = []
        for _ in range(TRIES):
            now = self._stack(memory)
            if now and now == before:
                named = [frame for entry in now for frame in self._named(memory, *entry[1:])]
                return named if self._stack(memory) == now else [NOWHERE]
            before = now
        return [NOWHERE]

    def _stack(self, memory: int) -> list[Entry]:
        """The frames of functions, the innermost first. Empty where JavaScript itself runs, or none. Raises OSError,
        ValueError, IndexError."""
        layout = self._layout
        frame = read_words(memory, self._isolate + layout.exit_frame, 1)[0]
        called = read_words(memory, self._isolate + layout.called, 1)[0]
        if not self._in_stack(frame) or frame % WORD or called in self._interrupts:
            return []
        begin = frame + NEXT_EXIT_FRAME
        words = read_words(memory, begin, min(STACK_BYTES, self._top - begin) // WORD)
        entries: list[Entry] = []
        instruction = 0
        for _ in range(MOST_FRAMES):
            at = (frame - begin) // WORD
            if at + 1 >= len(words):
                break
            kind, after = words[at + KIND_SLOT // WORD], words[at]
            if kind & v8.HEAP_OBJECT:
                function, bytecode, offset = (words[at + slot // WORD] for slot in SLOTS)
                entries.append((frame, instruction, function, bytecode, offset))
            elif kind >> 1 > MOST_MARKER:
                return []
            instruction = words[at + 1]
            if not kind & v8.HEAP_OBJECT and kind >> 1 in ENTRY_FRAMES:
                after, instruction = words[at + NEXT_EXIT_FRAME // WORD], 0
                if not after:
                    break
            if after <= frame or after % WORD or not self._in_stack(after):
                return []
            frame = after
        return entries

    def _named(self, memory: int, instruction: int, function: int, bytecode: int, offset: int) -> list[Frame]:
        """The functions of one frame: several where calls are inlined, none where it is V8's own. Raises OSError,
        ValueError, IndexError."""
        layout = self._layout
        first, last = layout.functions
        if not instruction or not first <= self._type(memory, function) <= last:
            return []
        shared = self._function(memory, read_words(memory, function - 1 + layout.shared, 1)[0])
        if shared is None:
            return []
        if posix.pread(memory, len(INTERPRETED), instruction - 2) == INTERPRETED:
            if offset & 0xFFFFFFFF:
                raise ValueError("this is no offset")
            return [self._of_bytecode(memory, shared, bytecode, (offset >> 32) - layout.bytecode + 1)]
        code = self._code(memory, instruction)
        if code is None:
            return [Frame(shared.file, 0, shared.name)]
        at = instruction - 1 - code.begin
        if code.kind == layout.baseline:
            size = read_words(memory, bytecode - 1 + WORD, 1)[0] >> 32
            bytecodes = posix.pread(memory, min(size, MOST_TABLE_BYTES), bytecode - 1 + layout.bytecode)
            return [self._of_bytecode(memory, shared, bytecode, v8.bytecode_at(code.table, bytecodes, layout, at))]
        return self._optimized(memory, shared, code, at)

    def _of_bytecode(self, memory: int, shared: Function, bytecode: int, at: int) -> Frame:
        layout = self._layout
        if self._type(memory, bytecode) != layout.bytecode_type:
            raise ValueError("this is no bytecode")
        size = read_words(memory, bytecode - 1 + WORD, 1)[0] >> 32
        if not 0 <= at < size:
            return Frame(shared.file, 0, shared.name)
        table = self._bytes(memory, read_words(memory, bytecode - 1 + layout.bytecode_table, 1)[0])
        return self._at(memory, shared, v8.position(table, at)[0])

    def _optimized(self, memory: int, shared: Function, code: Code, at: int) -> list[Frame]:
        """The calls that are inlined at this byte of the code, the innermost first. Its line is known where TurboFan
        notes one for sure: at calls that have a state, and close before an allocation. Maglev notes for `map.set` the
        begin of the loop, so its lines are not believed."""
        layout = self._layout
        said, begin = v8.position(code.table, at)
        of_call = at + 1 - begin <= CALL_BYTES or v8.can_deoptimize(code.safepoints, at + 1)
        if not of_call or code.kind != layout.baseline + TURBOFAN:
            inlines = self._element(memory, code.deopt, INLINED_FUNCTIONS)
            return [NOWHERE if inlines else Frame(shared.file, 0, shared.name)]
        frames = []
        while call := said >> v8.INLINED_AT:
            positions = self._element(memory, code.deopt, layout.inlined)
            outer, which = read_words(memory, positions - 1 + WORD * ARRAY + 16 * (call - 1), 2)
            inner: Function | None = shared
            if which & 1 << 31 == 0:
                literals = self._element(memory, code.deopt, layout.literals)
                inner = self._function(memory, self._element(memory, literals, which & 0xFFFFFFFF))
            if inner is None or outer >> v8.INLINED_AT >= call:
                raise ValueError("there is no such call")
            frames.append(self._at(memory, inner, said))
            said = outer
        return [*frames, self._at(memory, shared, said)]

    def _at(self, memory: int, shared: Function, said: int) -> Frame:
        """The line of a position, which counts the script's characters."""
        at = v8.script_offset(said)
        script = read_words(memory, shared.script, SCRIPT_ID + 1)
        key = script[SCRIPT_ID], at
        if at >= 0 and key not in self._lines:
            if len(self._lines) >= MOST_KNOWN:
                self._lines.clear()
            self._lines[key] = 1 + (script[LINE_OFFSET] >> 32) + self._lines_before(memory, script[SOURCE], at)
        return Frame(shared.file, self._lines[key] if at >= 0 else 0, shared.name)

    def _lines_before(self, memory: int, source: int, at: int) -> int:
        """How many lines end before this character."""
        address, length, width = self._characters(memory, source)
        if at > length:
            raise ValueError("the script has no such character")
        lines, after_return = 0, False
        for begin in range(0, at, BLOCK_BYTES):
            text = self._decoded(memory, address + begin * width, min(BLOCK_BYTES, at - begin), width)
            lines += text.count("\n") + text.count("\r") - text.count("\r\n") - (after_return and text[0] == "\n")
            if width > 1:
                lines += text.count("\u2028") + text.count("\u2029")
            after_return = text[-1] == "\r"
        return lines

    def _function(self, memory: int, address: int) -> Function | None:
        """None of V8's own, which have no script."""
        layout = self._layout
        if self._type(memory, address) != layout.shared_type:
            raise ValueError("this is no function")
        words = read_words(memory, address - 1, layout.script // WORD + 1).tolist()
        known = self._functions.get(address)
        if known is None or known[0] != words:
            if len(self._functions) >= MOST_KNOWN:
                self._functions.clear()
            found, script = None, words[-1]
            if script & v8.HEAP_OBJECT and self._type(memory, script) == layout.script_type:
                file = self._text(memory, read_words(memory, script - 1, SCRIPT_NAME + 1)[SCRIPT_NAME])
                name = self._name(memory, words[layout.name // WORD])
                found = Function(name, file.removeprefix("file://"), script - 1)
            known = self._functions[address] = words, found
        return known[1]

    def _name(self, memory: int, said: int) -> str:
        """The name of a function: a string, or in a ScopeInfo, after its variables. There it stands for itself or, as
        the third word, as what it is called where it was made."""
        kind = self._type(memory, said)
        if kind < NOT_STRING:
            return self._text(memory, said) or v8.ANONYMOUS
        if kind != self._layout.scope_type:
            raise ValueError("this is no name")
        variables = read_words(memory, said - 1 + SCOPE_VARIABLES * WORD, 1)[0] >> 32
        skipped = 2 * variables if variables < INLINED_NAMES else variables + 1
        at = self._layout.variables + skipped
        for word in read_words(memory, said - 1 + at * WORD, 4):
            if word & v8.HEAP_OBJECT and self._type(memory, word) < NOT_STRING:
                text = self._text(memory, word)
                if text:
                    return text
        return v8.ANONYMOUS

    def _code(self, memory: int, instruction: int) -> Code | None:
        """The code that has this instruction; None where none was compiled that has."""
        layout = self._layout
        count = layout.size // WORD + 1
        if instruction in self._codes:
            address, words, code = self._codes[instruction]
            if read_words(memory, address, count).tolist() == words:
                return code
        for back in range(0, MOST_CODE_BYTES, BLOCK_BYTES):
            begin = (instruction & -ALIGNED) - back - BLOCK_BYTES + ALIGNED
            try:
                block = read_words(memory, begin - layout.header, BLOCK_BYTES // WORD)
            except (OSError, ValueError):
                return None
            for at in range(len(block) - ALIGNED // WORD, -1, -ALIGNED // WORD):
                kind, address = block[at], block[at + 1]
                if kind & 3 == address & 3 == v8.HEAP_OBJECT and self._is_type(memory, address, layout.code_type):
                    words = read_words(memory, address - 1, count).tolist()
                    start = begin + at * WORD
                    if words[START] == start and words[STREAM] == start - layout.header + 1:
                        return self._compiled(memory, instruction, address - 1, words)
        return None

    def _compiled(self, memory: int, instruction: int, address: int, words: list[int]) -> Code | None:
        layout = self._layout
        flags, size = (words[at // WORD] >> 8 * (at % WORD) & 0xFFFFFFFF for at in (layout.flags, layout.size))
        if not 0 < instruction - words[START] <= size:
            return None
        table = self._bytes(memory, words[layout.code_table // WORD])
        kind, safepoints = flags & v8.KIND, b""
        if kind == layout.baseline + TURBOFAN:
            safepoints = posix.pread(memory, MOST_SAFEPOINT_BYTES, words[START] + size + layout.safepoints)
        code = Code(words[START], kind, table, words[layout.deopt // WORD], safepoints)
        if len(self._codes) >= MOST_KNOWN:
            self._codes.clear()
        self._codes[instruction] = address, words, code
        return code

    def _element(self, memory: int, array: int, which: int) -> int:
        """Element of a FixedArray."""
        length = read_words(memory, array - 1 + WORD, 1)[0] >> 32
        if not 0 <= which < length:
            raise ValueError("there is no such element")
        return read_words(memory, array - 1 + WORD * (ARRAY + which), 1)[0]

    def _bytes(self, memory: int, array: int) -> bytes:
        """The bytes of a ByteArray. Nothing of what is none."""
        if self._type(memory, array) not in self._layout.byte_types:
            return b""
        size = read_words(memory, array - 1 + WORD, 1)[0] >> 32
        if size > MOST_TABLE_BYTES:
            raise ValueError("this is no table")
        return posix.pread(memory, size, array - 1 + WORD * ARRAY)

    def _type(self, memory: int, address: int) -> int:
        """The number of an object's type. Raises OSError, ValueError."""
        if address & 3 != v8.HEAP_OBJECT:
            raise ValueError("this is no object")
        kind = read_words(memory, address - 1, 1)[0]
        if kind & 3 != v8.HEAP_OBJECT:
            raise ValueError("this has no type")
        return read_words(memory, kind - 1 + INSTANCE_TYPE // WORD * WORD, 1)[0] >> 32 & 0xFFFF

    def _is_type(self, memory: int, address: int, kind: int) -> bool:
        try:
            return self._type(memory, address) == kind
        except (OSError, ValueError):
            return False

    def _text(self, memory: int, address: int, depth: int = 0) -> str:
        """A short string."""
        kind = self._type(memory, address)
        if kind < NOT_STRING and kind & REPRESENTATION == CONS and depth < MOST_CONS:
            first, second = read_words(memory, address - 1 + 2 * WORD, 2)
            text = self._text(memory, first, depth + 1) + self._text(memory, second, depth + 1)
        else:
            begin, length, width = self._characters(memory, address)
            text = self._decoded(memory, begin, length, width) if length <= MOST_NAME_CHARS else "\0"
        if len(text) > MOST_NAME_CHARS or not text.isprintable():
            raise ValueError("this is no name")
        return text

    def _characters(self, memory: int, address: int) -> tuple[int, int, int]:
        """Where a string has its characters, how many, and the bytes of each."""
        for _ in range(2):
            kind = self._type(memory, address)
            words = read_words(memory, address - 1, 4)
            if kind >= NOT_STRING:
                break
            width = 1 if kind & ONE_BYTE else 2
            if kind & REPRESENTATION == SEQUENTIAL:
                return address - 1 + 2 * WORD, words[1] >> 32, width
            if kind & REPRESENTATION == EXTERNAL and not kind & UNCACHED:
                return words[3], words[1] >> 32, width
            if kind & REPRESENTATION != THIN:
                break
            address = words[2]
        raise ValueError("this is no string that lies in one place")

    def _decoded(self, memory: int, begin: int, length: int, width: int) -> str:
        data = posix.pread(memory, length * width, begin)
        if len(data) < length * width:
            raise ValueError("memory ends")
        return data.decode("latin-1") if width == 1 else data.decode("utf-16-le", "replace")


def parse(page: bytes) -> NodeStacks | None:
    """What the probe says at the beginning of its page; None where it does not, or its version is not known."""
    magic, version, listed, root = (*page.partition(b"\n")[0].split(b" ", 3), b"", b"", b"")[:4]
    threads = [whole(thread, DIGITS) for thread in listed.split(b",")]
    if magic != MAGIC or version not in v8.LAYOUTS or not root or not all(threads) or len(threads) > MOST_THREADS:
        return None
    root_ = root.decode("utf-8", "replace").rstrip("/")
    return NodeStacks(v8.LAYOUTS[version], root_, frozenset(thread or 0 for thread in threads))
