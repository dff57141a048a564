"""Where a JVM keeps what a stack is made of: offsets and addresses, by the tables that libjvm.so has for debuggers.

Every HotSpot exports them (gHotSpotVMStructs, gHotSpotVMTypes: src/hotspot/share/runtime/vmStructs.cpp), so that no
version's layout has to be known here. They are read in the memory of the process.
"""

from __future__ import annotations

import posix

from ..arenas import WORD, read_words
from ..support.files import READ_FLAGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LIBRARY = b"/libjvm.so"
MOST_MAPS_BYTES = 4 << 20
ELF_64, X86_64 = b"\x7fELF\x02\x01", 62
HEADER_BYTES, SEGMENT_WORDS, SYMBOL_BYTES = 64, 7, 24
LOAD, DYNAMIC = 1, 2
"""Kinds of segments (elf(5))."""
NAMES, SYMBOLS = 5, 6
"""DT_STRTAB, DT_SYMTAB."""
MOST_SEGMENTS, MOST_DYNAMIC, MOST_SYMBOLS, MOST_ROWS, MOST_STRIDE = 64, 100, 20_000, 20_000, 16
MOST_NAME_BYTES = 256
CHUNK = 1 << 15
PREFIX = b"gHotSpotVM"
TYPES = frozenset(
    b"Abstract_VM_Version CodeBlob CodeCache CodeHeap CompiledMethod ConstMethod ConstantPool GenericGrowableArray "
    b"GrowableArray<int> GrowableArrayBase HeapBlock HeapBlock::Header InstanceKlass JavaCallWrapper JavaFrameAnchor "
    b"JavaThread Klass Method OSThread PcDesc StubRoutines Symbol Thread ThreadLocalAllocBuffer Threads ThreadsList "
    b"ThreadsSMRSupport VirtualSpace nmethod".split()
)


def base_of(folder: str) -> int:
    """Address of libjvm.so in the process with this folder in /proc; 0 where it is no JVM. Raises OSError."""
    before = b""
    descriptor = posix.open(f"{folder}/maps", READ_FLAGS)
    try:
        for _ in range(MOST_MAPS_BYTES // CHUNK):
            data = posix.read(descriptor, CHUNK)
            if not data:
                return 0
            text = before + data
            at = text.find(LIBRARY + b"\n")
            if at >= 0:  # the first one is its beginning
                return int(text[text.rfind(b"\n", 0, at) + 1 : at].partition(b"-")[0], 16)
            before = text[-MOST_NAME_BYTES:]
        return 0
    finally:
        posix.close(descriptor)


def layout(memory: int, base: int) -> dict[str, int]:
    """`Type.field`: its offset in bytes, or its address if it is static; `Type`: its size. Raises OSError, ValueError,
    KeyError where there are no such tables."""
    symbols = {name: read_words(memory, address, 1)[0] for name, address in _exported(memory, base)}
    strings = _Strings(memory)
    found = {}
    for row in _rows(memory, symbols, b"Type"):
        kind = strings.at(row[symbols[b"gHotSpotVMTypeEntryTypeNameOffset"] // WORD])
        if kind in TYPES:
            found[kind.decode()] = row[symbols[b"gHotSpotVMTypeEntrySizeOffset"] // WORD]
    kind_at, name_at, offset_at, address_at = (
        symbols[PREFIX + b"StructEntry%sOffset" % each] // WORD
        for each in (b"TypeName", b"FieldName", b"Offset", b"Address")
    )
    for row in _rows(memory, symbols, b"Struct"):
        kind = strings.at(row[kind_at])
        if kind in TYPES:
            found[f"{kind.decode()}.{strings.at(row[name_at]).decode('latin-1')}"] = row[address_at] or row[offset_at]
    return found


def _rows(memory: int, symbols: Mapping[bytes, int], table: bytes) -> Iterator[memoryview]:
    """The rows of gHotSpotVMStructs or gHotSpotVMTypes, as words: the last one has no name."""
    width = symbols[PREFIX + table + b"EntryArrayStride"] // WORD
    begin = symbols[PREFIX + table + b"s"]
    name_at = symbols[PREFIX + table + b"EntryTypeNameOffset"] // WORD
    if not 0 < width <= MOST_STRIDE or name_at >= width:
        raise ValueError("this is no table of HotSpot's")
    count = CHUNK // WORD // width
    for first in range(0, MOST_ROWS, count):
        words = read_words(memory, begin + first * width * WORD, count * width)
        for at in range(0, count * width, width):
            if not words[at + name_at]:
                return
            yield words[at : at + width]


def _exported(memory: int, base: int) -> Iterator[tuple[bytes, int]]:
    """Names that the library at this address exports for debuggers, with their addresses."""
    header = posix.pread(memory, HEADER_BYTES, base)
    if header[:6] != ELF_64 or int.from_bytes(header[18:20], "little") != X86_64:
        raise ValueError("this is no library for x86-64")
    count = min(int.from_bytes(header[56:58], "little"), MOST_SEGMENTS)
    segments = read_words(memory, base + int.from_bytes(header[32:40], "little"), count * SEGMENT_WORDS)
    heads = [segments[at : at + SEGMENT_WORDS] for at in range(0, count * SEGMENT_WORDS, SEGMENT_WORDS)]
    offset = base - next(head[2] for head in heads if head[0] & 0xFFFFFFFF == LOAD)
    dynamic = next(offset + head[2] for head in heads if head[0] & 0xFFFFFFFF == DYNAMIC)
    words = read_words(memory, dynamic, 2 * MOST_DYNAMIC).tolist()
    places = dict(zip(words[::2], words[1::2], strict=True))
    # glibc's loader has made them addresses, musl's has not
    names, table = (place if place >= base else place + offset for place in (places[NAMES], places[SYMBOLS]))
    size = min(names - table, MOST_SYMBOLS * SYMBOL_BYTES) // SYMBOL_BYTES * SYMBOL_BYTES  # one follows the other
    symbols = read_words(memory, table, max(size, 0) // WORD)
    strings = _Strings(memory)
    for at in range(0, len(symbols), SYMBOL_BYTES // WORD):
        name = strings.at(names + (symbols[at] & 0xFFFFFFFF))
        if name.startswith(PREFIX):
            yield name, offset + symbols[at + 1]


class _Strings:
    """Strings that end with NUL, of the library's constants: they lie close together."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._chunks: dict[int, bytes] = {}
        self._known: dict[int, bytes] = {}

    def at(self, address: int) -> bytes:
        """Empty where it has no end. Raises OSError, OverflowError."""
        if address not in self._known:
            begin = address // CHUNK * CHUNK
            if begin not in self._chunks:
                self._chunks[begin] = posix.pread(self._memory, CHUNK, begin)
            place = address - begin
            text, end, _ = self._chunks[begin][place : place + MOST_NAME_BYTES].partition(b"\0")
            if not end:
                text = posix.pread(self._memory, MOST_NAME_BYTES, address).partition(b"\0")[0]
            self._known[address] = text
        return self._known[address]
