"""What the executable can do without: names that nothing has, and functions that nothing calls any more.

The first are taken out of the image while it is made (unused.c). The second stay in the program that makes the image,
and are zeros in the file that the image goes into: all that starts the interpreter, and the methods of those names.
"""

from __future__ import annotations

import ast
import re
import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from .errors import BuildError
from .image import ELF_HEADER, PF_X, loaded, writable

ONLY_BEFORE = ("initialise", "write_image", "PyMarshal_ReadObjectFromString")
"""Functions that are not called in an image: main() does not (main.c), and there is no module left to read."""

NOT_AFTER = frozenset({"__annotations__", "__firstlineno__", "__slots__", "__static_attributes__"})
"""Names that only the making of a class looks up: all are made before the image is."""

ASKED = re.compile(
    r'_Py_ID\((\w+)\)|(?:Attr|AttrString|CallMethod\w*|GetObject|ItemString|ItemStringRef)\([^;]*?"(\w+)"'
)
"""How C asks for an attribute by its name."""

SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
"""Start of its name, info, other, section, address, size."""
RELOCATION = struct.Struct("<QQq")
SHT_SYMTAB, SHT_RELA, SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR, STT_FUNC = 2, 4, 1, 2, 4, 2
X86_64_ABSOLUTE = (1, 10, 11)
"""Types of relocations: R_X86_64_64, _32 and _32S."""
EM_X86_64 = 62
INPUT_SECTION = re.compile(r"^ *([0-9a-f]+) +[0-9a-f]+ +([0-9a-f]+) +\d+ {9}\S.*:\(\.text.*\)$", re.MULTILINE)
"""A line of the linker's map: address, size, and that it is code."""


def looked_up(sources: Iterable[str]) -> set[str]:
    """Names that C sources look up in objects at run time."""
    return {name for text in sources for pair in ASKED.findall(text) for name in pair if name}


def named(sources: Iterable[bytes]) -> set[str]:
    """All names that Python sources have, whatever for: attributes, variables, parameters, words of strings."""
    names: set[str] = set()
    for source in sources:
        for node in ast.walk(ast.parse(source)):
            for _, value in ast.iter_fields(node):
                for each in value if isinstance(value, list) else [value]:
                    if isinstance(each, str):
                        names.update(re.findall(r"\w+", each))
    return names - NOT_AFTER


def without_unreached(program: bytes, sections: str, memory: bytes) -> bytes:
    """The program with zeros in place of each function that nothing refers to: no function that is left, no constant,
    no word of the `memory`. The program has its relocations (ld's --emit-relocs), `sections` is the linker's map.
    Raises BuildError."""
    code = Code(program, sections)
    pending = [code.entry, *code.words(memory)]
    references: dict[int, set[int]] = {}
    for at, target, is_function in code.references():
        if (owner := code.find(at)) is not None:
            references.setdefault(owner, set()).add(target)
        elif is_function:
            pending.append(target)
    skipped = code.addresses(ONLY_BEFORE)
    reached: set[int] = set()
    while pending:
        found = code.find(pending.pop())
        if found is not None and found not in reached:
            reached.add(found)
            pending += references.get(found, set()) - skipped
    made = bytearray(program)
    for number, (address, size) in enumerate(code.parts):
        if number not in reached:
            at = address - code.segment.address + code.segment.offset
            made[at : at + size] = bytes(size)
    return bytes(made)


class Code:
    """The functions of a program, and what refers to them (elf(5))."""

    def __init__(self, program: bytes, sections: str) -> None:
        """As `without_unreached` has them. Raises BuildError."""
        self._program = program
        header = ELF_HEADER.unpack_from(program)
        self.entry = header[4]
        self._is_x86_64 = header[2] == EM_X86_64
        first, size, count = header[6], header[11], header[12]
        self._sections = [SECTION.unpack_from(program, first + number * size) for number in range(count)]
        segments = [segment for segment in loaded(program) if segment.flags & PF_X]
        symbols = [section for section in self._sections if section[1] == SHT_SYMTAB]
        if len(segments) != 1 or len(symbols) != 1 or SHT_RELA not in [section[1] for section in self._sections]:
            raise BuildError("the program has not the segments, symbols and relocations that are expected")
        self.segment = segments[0]
        found = ((int(address, 16), int(size, 16)) for address, size in INPUT_SECTION.findall(sections))
        # Address and size of each that is linked as a whole.
        self.parts = sorted((address, size) for address, size in found if size and address in self.segment)
        self._starts = [address for address, _ in self.parts]
        self._symbols = list(SYMBOL.iter_unpack(self._content(symbols[0])))
        strings = self._content(self._sections[symbols[0][6]])
        names = ((at, start) for start, info, _, _, at, _ in self._symbols if info & 15 == STT_FUNC)
        self.functions = [(at, strings[start : strings.index(b"\0", start)].decode()) for at, start in names]

    def find(self, address: int) -> int | None:
        """Number of the part with this address."""
        number = bisect_right(self._starts, address) - 1
        return number if number >= 0 and address < sum(self.parts[number]) else None

    def addresses(self, names: Iterable[str]) -> set[int]:
        """The addresses of these functions. Raises BuildError if one is not there: it may have been inlined."""
        by_name = {name: address for address, name in self.functions}
        if missing := [name for name in names if name not in by_name]:
            raise BuildError(f"the program has no function {missing[0]}")
        return {by_name[name] for name in names}

    def words(self, memory: bytes) -> Iterator[int]:
        """Words of the program's writable segments that are addresses of functions."""
        functions = {address for address, _ in self.functions}
        for segment in writable(self._program)[:-1]:
            yield from functions.intersection(_words(memory[: segment.memory_size]))
            memory = memory[segment.memory_size :]
        yield from functions.intersection(_words(memory))

    def references(self) -> Iterator[tuple[int, int, bool]]:
        """Where it is, what it is to, and whether that is a function's first byte: a constant that is not may be to a
        place inside, as those of a `switch` are."""
        functions = {address for address, _ in self.functions}
        for section in self._sections:
            if section[1] != SHT_RELA or self._sections[section[7]][2] & (SHF_ALLOC | SHF_WRITE) != SHF_ALLOC:
                continue  # what is writable is in the memory, and may have changed
            in_code = self._sections[section[7]][2] & SHF_EXECINSTR
            for at, info, addend in RELOCATION.iter_unpack(self._content(section)):
                target = self._symbols[info >> 32][4] + addend
                if in_code and self._is_x86_64 and info & 0xFFFFFFFF not in X86_64_ABSOLUTE:
                    target += 4  # relative to the instruction's end
                yield at, target, target in functions

    def _content(self, section: tuple[int, ...]) -> bytes:
        return self._program[section[4] : section[4] + section[5]]


def _words(memory: bytes) -> array[int]:
    return array("Q", memory[: len(memory) // 8 * 8])
