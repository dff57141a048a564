"""What a thread of a JVM runs while memory grows: its stack, read through /proc/PID/mem. Nothing is written, asked or
stopped, and no flag is needed.

A thread that runs Java code has its place in registers, which cannot be read from outside. While it is in the JVM or in
native code, the JVM keeps where its Java frames begin (JavaFrameAnchor): only then there is a stack, and it counts only
where that is the reason why memory grows:

- It is in the JVM for an object: its innermost frame allocates, by its bytecode or by the stub that compiled code has
  called. A thread gets there once for each buffer of objects that it fills, or for each large one, so each line is seen
  as often as it takes memory. The same thread waits there while a collection copies what lives into new memory.
- It is in a native method, and has page faults there, while it allocates no object; or fills a direct buffer.

The process runs meanwhile: the stack is walked twice, and counts if it was the same, whole, from the anchor to the
frames that called Java. Whatever does not fit leaves no stack.
"""

from __future__ import annotations

import posix

from ..arenas import WORD, read_words
from ..support.files import READ_FLAGS, read
from ..support.named_tuple import NamedTuple
from .hotspot import base_of, layout
from .python import MOST_NAME_CHARS, MOST_THREADS, Frame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Entry = tuple[int, int, int, bool]
    """What an interpreted frame has: its address, its method, and the address of the bytecode (0 in a native method);
    a compiled one: its address, its blob of code, and the address of the instruction. Is it compiled?"""
    Call = tuple["Method", int]
    """A method, and the index of the bytecode at which it is."""

VERSIONS = range(11, 26)
LONGER_NUMBERS = 20
"""From this version on no byte of a compressed number is 0."""
LAST_DIGITS = 192
"""A byte below is the last one of a compressed number."""
ANCHOR = ("sp", "pc", "fp")
INTERPRETED_WORDS = 9
SENDER_SP, METHOD, BYTECODE, FRAME_POINTER, RETURN = 8, 6, 1, 9, 10
"""Words of an interpreted frame, which begins so many below its frame pointer (src/hotspot/cpu/x86/frame_x86.hpp)."""
WRAPPER = -6 * WORD
"""From the frame pointer of the stub that calls Java to its JavaCallWrapper."""
MOST_STACK_BYTES, MOST_FRAMES, MOST_SCOPES = 256 * 1024, 500, 64
MOST_TABLE_BYTES, MOST_METHODS, MOST_HEAPS, MOST_HOPS = 1 << 20, 1000, 16, 64
FREE_SEGMENT = 255
COMPILED, INTERPRETER = (b"nmethod", b"native nmethod"), b"Interpreter"
ALLOCATING_STUB = b"new"
"""In the names of stubs: _new_array_Java, new_instance Runtime1 stub, C2 Runtime multianewarray2."""
ALLOCATING_CODES = (187, 188, 189, 197)
"""new, newarray, anewarray, multianewarray."""
FILLS_MEMORY = "jdk.internal.misc.Unsafe.setMemory0"
"""A native method that takes memory for certain: for direct buffers."""
NATIVE, HAS_LINES = 0x100, 1
"""Flags of a method, and of its ConstMethod."""
IN_NATIVE, IN_VM, BLOCKED = (4, 5), (6, 7), (10, 11)
"""States of a thread, each with the way out of it."""
COLLECTORS = (b"VM Thread", b"GC Thread#")
"""Names of threads that collect garbage while all others wait."""
STILL = 24
"""A native method counts if it was seen so often in turn, with page faults in between."""
TRIES = 4
POLLS = 64
"""So often a thread is asked for its anchor, which it may have for some µs only."""
ENVIRON_BYTES = 1 << 17
LIBRARIES = (
    *("java/", "javax/", "jdk/", "sun/", "com/sun/", "com/amazonaws/", "software/amazon/", "kotlin/", "kotlinx/"),
    *("scala/", "groovy/", "org/apache/", "org/springframework/", "io/quarkus/", "io/micronaut/"),
)
FAMILY = 3
"""Classes whose packages have as many first parts as this in common with the handler's are the function's own."""


class Blob(NamedTuple):
    """A piece of generated code."""

    address: int
    name: bytes
    begin: int
    frame_bytes: int
    data: bytes


class Method(NamedTuple):
    head: bytes
    """Its ConstMethod: that changes with the class."""
    file: str
    function: str
    code: int
    """Address of its bytecodes."""
    size: int
    lines: bytes
    is_native: bool


class JavaStacks:
    """The stacks of one JVM."""

    is_evident = True
    """There is a stack only where that takes memory (python.PythonStacks)."""
    waits = False
    threads: frozenset[int] = frozenset()

    def __init__(self, memory: int, base: int, own: OwnClasses) -> None:
        """`memory`: descriptor of the JVM's; `base`: address of libjvm.so. Raises OSError, ValueError, KeyError."""
        self._at = at = layout(memory, base)
        self.root, self._own = own.root, own
        self._version = read_words(memory, at["Abstract_VM_Version._vm_major_version"], 1)[0] & 0xFFFFFFFF
        if self._version not in VERSIONS:
            raise ValueError("this version is not known")
        self._call_stub = read_words(memory, at["StubRoutines._call_stub_return_address"], 1)[0]
        self._heaps = list(self._code_heaps(memory))
        self._osthread = at["JavaThread._osthread"] if "JavaThread._osthread" in at else at["Thread._osthread"]
        self.is_collector = False
        self._blobs: dict[int, Blob] = {}
        self._methods: dict[int, Method] = {}

    def frames(self, path: str, thread: int) -> list[Frame]:
        """What the thread of this number runs, the innermost first, where it takes memory by that; `path`: of the
        process's memory. Empty where that is not so, or cannot be read."""
        folder = f"{path[: -len('/mem')]}/task/{thread}"
        try:
            memory = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
        except OSError:
            return []
        try:
            threads = list(self._threads(memory))
            java = next((each for each in threads if self._number(memory, each) == thread), 0)
            self.is_collector = not java and read(f"{folder}/comm", 64).startswith(COLLECTORS)
            if not self.is_collector:
                return self._stack(memory, java, folder) if java else []
            waits = (self._stack(memory, each, "") for each in threads if self._state(memory, each) in BLOCKED)
            return next(filter(None, waits), [])
        except (OSError, ValueError, OverflowError, KeyError, IndexError):
            return []
        finally:
            posix.close(memory)

    def _stack(self, memory: int, java: int, folder: str) -> list[Frame]:
        """`folder`: in /proc, of a thread that runs; "" of one for which a collection runs. Raises OSError, ValueError,
        OverflowError, KeyError, IndexError."""
        self._blobs.clear()
        anchor = next(filter(None, (self._anchor(memory, java) for _ in range(POLLS))), None)
        if anchor is None or self._state(memory, java) not in IN_NATIVE + IN_VM + BLOCKED:
            return []
        try:
            before, stub = self._walk(memory, java, anchor)
            calls = [call for entry in before for call in self._calls(memory, entry)]
        except (ValueError, OverflowError, IndexError):
            return []
        if not calls:
            return []
        (method, index), is_compiled = calls[0], before[0][3]
        if method.is_native:
            takes = bool(folder) and (
                method.function == FILLS_MEMORY or self._still_faults(memory, java, anchor, folder)
            )
        elif is_compiled:
            takes = ALLOCATING_STUB in stub
        else:
            takes = _bytes(memory, method.code + index, 1)[0] in ALLOCATING_CODES
        if not takes:
            return []
        if self._anchor(memory, java) != anchor or self._walk(memory, java, anchor)[0] != before:
            return []
        frames = (Frame(each.file, self._line(each, at), each.function) for each, at in calls)
        return [frame for frame in frames if frame.line]

    def _still_faults(self, memory: int, java: int, anchor: Sequence[int], folder: str) -> bool:
        """Does it have page faults while it stays where it is, and allocates no object? Raises OSError, ValueError,
        IndexError."""
        for _ in range(TRIES):
            faults, heap = _faults(folder), self._allocated(memory, java)
            if any(self._anchor(memory, java) != anchor for _ in range(STILL)):
                return False
            if _faults(folder) > faults:
                return self._allocated(memory, java) == heap
        return False

    def _allocated(self, memory: int, java: int) -> tuple[int, ...]:
        """Changes with each object."""
        at = self._at
        top = read_words(memory, java + at["Thread._tlab"] + at["ThreadLocalAllocBuffer._top"], 1)[0]
        return top, read_words(memory, java + at["Thread._allocated_bytes"], 1)[0]

    # threads

    def _threads(self, memory: int) -> Iterator[int]:
        at = self._at
        if "ThreadsSMRSupport._java_thread_list" in at:
            known = read_words(memory, at["ThreadsSMRSupport._java_thread_list"], 1)[0]
            count = self._int(memory, known + at["ThreadsList._length"])
            first = read_words(memory, known + at["ThreadsList._threads"], 1)[0]
            yield from read_words(memory, first, min(count, MOST_THREADS)) if count else ()
            return
        java = read_words(memory, at["Threads._thread_list"], 1)[0]
        for _ in range(MOST_THREADS):
            if not java:
                return
            yield java
            java = read_words(memory, java + at["JavaThread._next"], 1)[0]

    def _number(self, memory: int, java: int) -> int:
        about = read_words(memory, java + self._osthread, 1)[0]
        return self._int(memory, about + self._at["OSThread._thread_id"]) if about else 0

    def _state(self, memory: int, java: int) -> int:
        return self._int(memory, java + self._at["JavaThread._thread_state"])

    def _anchor(self, memory: int, java: int) -> tuple[int, ...]:
        """Stack pointer, instruction and frame pointer of the innermost Java frame; empty without one."""
        words = read_words(memory, java + self._at["JavaThread._anchor"], 3)
        sp, pc, fp = (words[self._at[f"JavaFrameAnchor._last_Java_{each}"] // WORD] for each in ANCHOR)
        return (sp, pc, fp) if sp else ()

    def _int(self, memory: int, address: int) -> int:
        return int.from_bytes(_bytes(memory, address, 4), "little")

    # frames

    def _walk(self, memory: int, java: int, anchor: Sequence[int]) -> tuple[list[Entry], bytes]:
        """The Java frames, the innermost first, and the name of the stub that the innermost one has called. Raises
        OSError, ValueError, OverflowError, IndexError where they do not lead to the end."""
        top = read_words(memory, java + self._at["JavaThread._stack_base"], 1)[0]
        sp, pc, fp = anchor
        low = sp - WORD
        if not 0 < top - low <= MOST_STACK_BYTES or low % WORD:
            raise ValueError("this is no stack")
        words = read_words(memory, low, (top - low) // WORD)

        def word(address: int) -> int:
            if address < low or address % WORD:
                raise ValueError("this is not on the stack")
            return words[(address - low) // WORD]

        found: list[Entry] = []
        stub = b""
        pc = pc or word(sp - WORD)
        for _ in range(MOST_FRAMES):
            if pc == self._call_stub:
                at = self._at["JavaCallWrapper._anchor"]
                wrapper = word(fp + WRAPPER)
                before = sp
                sp, pc, fp = (word(wrapper + at + self._at[f"JavaFrameAnchor._last_Java_{each}"]) for each in ANCHOR)
                if not sp:
                    return found, stub
                pc = pc or word(sp - WORD)
                if sp <= before:
                    raise ValueError("frames do not follow each other")
                continue
            blob, before = self._blob(memory, pc), sp
            if blob.name == INTERPRETER:
                at = fp - INTERPRETED_WORDS * WORD
                found.append((fp, word(at + METHOD * WORD), word(at + BYTECODE * WORD), False))
                sp, fp, pc = (word(at + each * WORD) for each in (SENDER_SP, FRAME_POINTER, RETURN))
            else:
                if blob.frame_bytes < 2 * WORD:
                    raise ValueError("it has no frame")
                if blob.name in COMPILED:
                    found.append((sp, blob.address, self._resumed(word, blob, sp, pc), True))
                elif not found:
                    stub = blob.name
                sp += blob.frame_bytes
                fp, pc = word(sp - 2 * WORD), word(sp - WORD)
            if sp <= before:
                raise ValueError("frames do not follow each other")
        raise ValueError("there are too many frames")

    def _resumed(self, word: Callable[[int], int], blob: Blob, sp: int, pc: int) -> int:
        """The instruction at which the frame is: another one is on the stack where its code is given up."""
        at = self._at
        if "CompiledMethod._deopt_handler_begin" in at:
            handler = _number(blob.data, at["CompiledMethod._deopt_handler_begin"], WORD)
        else:
            handler = blob.address + _number(blob.data, at["nmethod._deopt_handler_offset"], 4)
        return word(sp + _number(blob.data, at["nmethod._orig_pc_offset"], 4)) if pc == handler else pc

    def _code_heaps(self, memory: int) -> Iterator[tuple[int, int, int, int]]:
        """Begin, end, segment map, and the size of a segment as a power of 2, of each part of the code cache."""
        at = self._at
        array = read_words(memory, at["CodeCache._heaps"], 1)[0]
        length = at["GrowableArrayBase._len"] if "GrowableArrayBase._len" in at else at["GenericGrowableArray._len"]
        count = self._int(memory, array + length)
        first = read_words(memory, array + at["GrowableArray<int>._data"], 1)[0]
        for heap in read_words(memory, first, min(count, MOST_HEAPS)):
            places = "CodeHeap._memory", "VirtualSpace._low_boundary", "VirtualSpace._high_boundary", "CodeHeap._segmap"
            held, low, high, segments = (at[each] for each in places)
            begin, end, first = (
                read_words(memory, heap + each, 1)[0] for each in (held + low, held + high, segments + low)
            )
            yield begin, end, first, self._int(memory, heap + at["CodeHeap._log2_segment_size"])

    def _blob(self, memory: int, pc: int) -> Blob:
        """The code with this instruction (CodeHeap::find_block_for in src/hotspot/share/memory/heap.cpp)."""
        if pc in self._blobs:
            return self._blobs[pc]
        at = self._at
        begin, _, segments, shift = next((heap for heap in self._heaps if heap[0] <= pc < heap[1]), (0, 0, 0, 0))
        if not begin:
            raise ValueError("this is no generated code")
        segment = (pc - begin) >> shift
        for _ in range(MOST_HOPS):
            back = _bytes(memory, segments + segment, 1)[0]
            if not back or back == FREE_SEGMENT:
                break
            segment -= back
        address = begin + (segment << shift) + at["HeapBlock"]
        used = _bytes(memory, address - at["HeapBlock"] + at["HeapBlock::Header._used"], 1)[0]
        if back or not used:
            raise ValueError("there is no code now")
        data = _bytes(memory, address, at["nmethod"])
        name = posix.pread(memory, 64, _number(data, at["CodeBlob._name"], WORD)).partition(b"\0")[0]
        if "CodeBlob._code_begin" in at:
            first = _number(data, at["CodeBlob._code_begin"], WORD)
        else:
            first = address + _number(data, at["CodeBlob._code_offset"], 4)
        frame_bytes = _number(data, at["CodeBlob._frame_size"], 4) * WORD
        self._blobs[pc] = blob = Blob(address, name, first, frame_bytes, data)
        return blob

    # methods

    def _calls(self, memory: int, entry: Entry) -> list[Call]:
        """Those of one frame: of compiled code all that were put into one, the innermost first. Raises OSError,
        ValueError, OverflowError, KeyError, IndexError."""
        _, place, at, is_compiled = entry
        if not is_compiled:
            method = self._method(memory, place)
            return [(method, 0 if method.is_native else at - method.code)]
        blob = next(each for each in self._blobs.values() if each.address == place)
        if blob.name != COMPILED[0]:
            return [(self._method(memory, self._field(blob, "_method")), 0)]
        metadata, scopes, places = self._debug_information(memory, blob)
        width, offset_at = self._at["PcDesc"], self._at["PcDesc._pc_offset"]
        scope = 0
        for row in range(0, len(places) - width + 1, width):
            if _number(places, row + offset_at, 4) == at - blob.begin:
                scope = _number(places, row + self._at["PcDesc._scope_decode_offset"], 4)
        found: list[Call] = []
        while scope and len(found) < MOST_SCOPES:
            scope, number, index = Numbers(scopes, scope, self._excluded).take(3)
            found.append((self._method(memory, _number(metadata, (number - 1) * WORD, WORD)), index - 1))
        if not found:
            raise ValueError("the instruction has no scope")
        return found

    @property
    def _excluded(self) -> int:
        return int(self._version >= LONGER_NUMBERS)

    def _field(self, blob: Blob, name: str) -> int:
        at = self._at
        offset = at[f"CompiledMethod.{name}"] if f"CompiledMethod.{name}" in at else at[f"nmethod.{name}"]
        return _number(blob.data, offset, WORD)

    def _debug_information(self, memory: int, blob: Blob) -> tuple[bytes, bytes, bytes]:
        """Addresses of methods, scopes, and the scope of each instruction (src/hotspot/share/code/nmethod.hpp)."""
        at, data = self._at, blob.data
        if "CodeBlob._mutable_data" in at:
            before, size = (_number(data, at[f"CodeBlob._{each}_size"], 4) for each in ("relocation", "mutable_data"))
            metadata = _number(data, at["CodeBlob._mutable_data"], WORD) + before
            kept = _number(data, at["nmethod._immutable_data"], WORD)
            names = "_scopes_pcs_offset", "_scopes_data_offset", "_immutable_data_size"
            places, scopes, end = (kept + _number(data, at["nmethod." + each], 4) for each in names)
            if not places <= scopes <= end:
                raise ValueError("this is no code of Java")
            return (
                _bytes(memory, metadata, size - before),
                _bytes(memory, scopes, end - scopes),
                _bytes(memory, places, scopes - places),
            )
        names = "_metadata_offset", "_scopes_pcs_offset", "_dependencies_offset"
        metadata, places, end = (blob.address + _number(data, at["nmethod." + each], 4) for each in names)
        scopes = self._field(blob, "_scopes_data_begin")
        if not metadata <= scopes <= places <= end:
            raise ValueError("this is no code of Java")
        return (
            _bytes(memory, metadata, scopes - metadata),
            _bytes(memory, scopes, places - scopes),
            _bytes(memory, places, end - places),
        )

    def _method(self, memory: int, address: int) -> Method:
        at = self._at
        place = read_words(memory, address + at["Method._constMethod"], 1)[0]
        size = at["ConstMethod"]
        head = _bytes(memory, place, size)
        known = self._methods.get(address)
        if known is not None and known.head == head and known.code == place + size:
            return known
        pool = _number(head, at["ConstMethod._constants"], WORD)
        holder = read_words(memory, pool + at["ConstantPool._pool_holder"], 1)[0]
        klass = self._text(memory, read_words(memory, holder + at["Klass._name"], 1)[0])
        name = self._symbol(memory, pool, _number(head, at["ConstMethod._name_index"], 2))
        if "ConstantPool._source_file_name_index" in at:
            source = _number(_bytes(memory, pool + at["ConstantPool._source_file_name_index"], 2), 0, 2)
        else:
            source = _number(_bytes(memory, holder + at["InstanceKlass._source_file_name_index"], 2), 0, 2)
        code_size = _number(head, at["ConstMethod._code_size"], 2)
        whole_size = _number(head, at["ConstMethod._constMethod_size"], 4) * WORD
        flags = head[at.get("ConstMethod._flags", at.get("ConstMethod._flags._flags", 0))]
        table = b""
        if flags & HAS_LINES and source:
            table = _bytes(memory, place + size + code_size, whole_size - size - code_size)
        folder = klass.rpartition("/")[0]
        file = f"{folder}/" * bool(folder) + (self._symbol(memory, pool, source) if source else "")
        is_native = bool(_bytes(memory, address + at["Method._access_flags"] + 1, 1)[0] << 8 & NATIVE)
        shown = self._own.folder + file if self._own.has(klass) else file
        method = Method(head, shown, f"{klass.replace('/', '.')}.{name}", place + size, code_size, table, is_native)
        if len(self._methods) >= MOST_METHODS:
            self._methods.clear()
        self._methods[address] = method
        return method

    def _symbol(self, memory: int, pool: int, index: int) -> str:
        return self._text(memory, read_words(memory, pool + self._at["ConstantPool"] + index * WORD, 1)[0] & ~1)

    def _text(self, memory: int, address: int) -> str:
        at = self._at
        size = _number(_bytes(memory, address + at["Symbol._length"], 2), 0, 2)
        if not 0 < size <= MOST_NAME_CHARS:
            raise ValueError("this is no name")
        text = _bytes(memory, address + at["Symbol._body"], size).decode()
        if not text.isprintable():
            raise ValueError("this is no name")
        return text

    def _line(self, method: Method, index: int) -> int:
        """0 where it has none, as that of a native method."""
        if method.is_native or not 0 <= index < method.size:
            return 0
        return line_of(method.lines, index, self._excluded)


class Numbers:
    """Compressed numbers, one after the other (src/hotspot/share/utilities/unsigned5.hpp)."""

    def __init__(self, data: bytes, at: int, excluded: int) -> None:
        """`excluded`: how many of the least values no byte has."""
        self._data, self._excluded = data, excluded
        self.at = at

    def take(self, count: int) -> list[int]:
        """So many. Raises IndexError, ValueError."""
        return [self._next() for _ in range(count)]

    def signed(self) -> int:
        """The next one, with its sign in the lowest bit. Raises IndexError, ValueError."""
        value = self._next()
        return -(value >> 1) - 1 if value & 1 else value >> 1

    def _next(self) -> int:
        value = 0
        for place in range(5):
            digit = self._data[self.at] - self._excluded
            self.at += 1
            if digit < 0:
                raise ValueError("this is no number")
            value += digit << 6 * place
            if digit < LAST_DIGITS - self._excluded:
                break
        return value & 0xFFFFFFFF


def line_of(table: bytes, index: int, excluded: int) -> int:
    """The line of the bytecode at this index; 0 where it has none. `table`: pairs of differences to the pair before, of
    index and line, 5 and 3 bits of a byte, or two numbers after 255 (src/hotspot/share/code/compressedStream.cpp)."""
    numbers = Numbers(table, 0, excluded)
    at = line = best = found = 0
    while numbers.at < len(table) and table[numbers.at]:
        byte = table[numbers.at]
        numbers.at += 1
        if byte == 255:
            try:
                at, line = at + numbers.signed(), line + numbers.signed()
            except (IndexError, ValueError):
                return 0
        else:
            at, line = at + (byte >> 3), line + (byte & 7)
        if at == index:
            return line
        if best <= at < index:
            best, found = at, line
    return found


class OwnClasses:
    """The function's own: of its handler's package, or files in its folder that no library has brought there."""

    def __init__(self, root: str, handler: str) -> None:
        """`root`: the folder; `handler`: class, and a method after `::`."""
        self.root, self.folder = root, root + "/"
        package = handler.partition("::")[0].split(".")[:-1][:FAMILY]
        self._family = "/".join([*package, ""])
        self._libraries: list[str] | None = None
        self._known: dict[str, bool] = {}

    def has(self, klass: str) -> bool:
        """`klass`: com/acme/Orders$Line."""
        name = klass.partition("$")[0]
        if name not in self._known:
            self._known[name] = not name.startswith(LIBRARIES) and self._is_own(name)
        return self._known[name]

    def _is_own(self, name: str) -> bool:
        if self._family and name.startswith(self._family):
            return True
        try:
            posix.stat(f"{self.folder}{name}.class")
        except (OSError, ValueError):
            return False
        if self._libraries is None:
            try:
                groups = posix.listdir(f"{self.folder}META-INF/maven")
            except OSError:
                groups = []
            self._libraries = [group.replace(".", "/") + "/" for group in groups]
        return not name.startswith(tuple(self._libraries))


def _number(data: bytes, at: int, size: int) -> int:
    """Unsigned. Raises ValueError."""
    if not 0 <= at <= len(data) - size:
        raise ValueError("it is cut off")
    return int.from_bytes(data[at : at + size], "little")


def _bytes(memory: int, address: int, size: int) -> bytes:
    """Raises OSError, OverflowError, ValueError."""
    if not 0 <= size <= MOST_TABLE_BYTES:
        raise ValueError("this is no table")
    data = posix.pread(memory, size, address)
    if len(data) < size:
        raise ValueError("memory ends")
    return data


def _faults(folder: str) -> int:
    """Page faults of the thread with this folder in /proc (minflt in proc_pid_stat(5)). Raises OSError, ValueError,
    IndexError."""
    return int(read(f"{folder}/stat", 512).rpartition(b")")[2].split(None, 8)[7])


def stacks_of(folder: str) -> JavaStacks | None:
    """The stacks of the process with this folder in /proc; None where it is no JVM, or one that is not known."""
    try:
        base = base_of(folder)
        if not base:
            return None
        variables = dict(each.partition(b"=")[::2] for each in read(f"{folder}/environ", ENVIRON_BYTES).split(b"\0"))
        root, handler = (variables.get(name, b"").decode() for name in (b"LAMBDA_TASK_ROOT", b"_HANDLER"))
        memory = posix.open(f"{folder}/mem", READ_FLAGS)
        try:
            return JavaStacks(memory, base, OwnClasses(root.rstrip("/"), handler))
        finally:
            posix.close(memory)
    except (OSError, ValueError, OverflowError, KeyError, IndexError, StopIteration):
        return None
