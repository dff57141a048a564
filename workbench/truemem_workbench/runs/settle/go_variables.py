"""Where a program in Go has its variables, and how its types lie in memory: by its own debug information.

The layouts are those of the program, and not of a version of Go.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elftools.dwarf.die import DIE
    from elftools.dwarf.dwarfinfo import DWARFInfo
    from elftools.elf.elffile import ELFFile

IS_ADDRESS = 0x03
"""An address follows (`DW_OP_addr`)."""
OF_DAMAGED = (
    LookupError, ValueError, ArithmeticError, AssertionError, AttributeError, TypeError, OSError, zlib.error,
    struct.error,
)  # fmt: skip
"""What elftools raises beside its own errors where a file is damaged."""


class Variables:
    """The variables and types of a program."""

    def __init__(self, elf: ELFFile) -> None:
        """Raises LookupError if it has no debug information."""
        if elf.elfclass != 64 or not elf.has_dwarf_info(strict=True):
            raise LookupError("no debug information")
        self.elf = elf
        self.begin = min(segment["p_vaddr"] for segment in elf.iter_segments("PT_LOAD"))
        """Where the program was linked to begin."""
        self.info: DWARFInfo = elf.get_dwarf_info()

    @cached_property
    def _text(self) -> bytes:
        assert self.info.debug_info_sec is not None
        self.info.debug_info_sec.stream.seek(0)
        return self.info.debug_info_sec.stream.read()

    def entry(self, name: str, tag: str = "DW_TAG_variable") -> DIE:
        """The entry of this name. It is found by its name, which stands behind a number of one byte: the entries of a
        program are too many to read them all. Raises KeyError."""
        at = self._text.find(sought := name.encode() + b"\0")
        while at > 0:
            with suppress(*OF_DAMAGED):  # the name is part of another one
                found = self.info.get_DIE_from_refaddr(at - 1)
                if found.tag == tag and found.attributes["DW_AT_name"].value == sought[:-1]:
                    return found
            at = self._text.find(sought, at + 1)
        raise KeyError(name)

    def type(self, name: str) -> DIE:
        """The entry of this structure. Raises KeyError."""
        return self.entry(name, "DW_TAG_structure_type")

    def constant(self, name: str) -> int:
        """The value of this constant. Raises KeyError."""
        return int(self.entry(name, "DW_TAG_constant").attributes["DW_AT_const_value"].value)

    def place(self, name: str, *members: str) -> int:
        """Where this variable, or a member of a member of it, lies: bytes behind the program's begin. Raises
        LookupError, ValueError."""
        variable = self.entry(name)
        return address(variable) + offset(variable, *members) - self.begin


@contextmanager
def opened(program: Path) -> Iterator[Variables]:
    """The variables of a program. Raises LookupError if it has no debug information or is damaged, also for what is
    read meanwhile; OSError if there is none."""
    from elftools.common.exceptions import DWARFError, ELFError
    from elftools.elf.elffile import ELFFile

    with program.open("rb") as file:
        try:
            yield Variables(ELFFile(file))
        except (ELFError, DWARFError, *OF_DAMAGED) as problem:
            raise LookupError(f"its debug information cannot be read: {problem!r}") from problem


def member(entry: DIE, name: str) -> DIE:
    """The entry of the member of this name, in what a variable or a member is or points to. Raises KeyError."""
    for each in _structure(entry).iter_children():
        if each.attributes["DW_AT_name"].value == name.encode():
            return each
    raise KeyError(name)


def offset(entry: DIE, *members: str) -> int:
    """Bytes from the begin of what `entry` is to a member of a member of it. Raises LookupError."""
    total = 0
    for name in members:
        entry = member(entry, name)
        total += int(entry.attributes["DW_AT_data_member_location"].value)
    return total


def size(entry: DIE) -> int:
    """Bytes of what a variable or a member is, or points to. Raises LookupError."""
    return int(_structure(entry).attributes["DW_AT_byte_size"].value)


def width(entry: DIE) -> int:
    """Bytes of a variable or a member: of a number, or of an array. Raises LookupError."""
    while "DW_AT_byte_size" not in entry.attributes:
        entry = entry.get_DIE_from_attribute("DW_AT_type")
    return int(entry.attributes["DW_AT_byte_size"].value)


def address(variable: DIE) -> int:
    """Where it was linked to lie. Raises LookupError, ValueError."""
    operation, found = struct.unpack("<BQ", bytes(variable.attributes["DW_AT_location"].value))
    if operation != IS_ADDRESS:
        raise ValueError("not an address")
    return int(found)


def _structure(entry: DIE) -> DIE:
    while entry.tag != "DW_TAG_structure_type":
        entry = entry.get_DIE_from_attribute("DW_AT_type")
    return entry
