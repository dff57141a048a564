"""The code of a program in Go: which function and line a place in it is, by its symbols and debug information."""

from __future__ import annotations

import bisect
import re
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..runs.settle.go_variables import Variables
from ..target.go_program import BUILT

if TYPE_CHECKING:
    from elftools.dwarf.compileunit import CompileUnit
    from elftools.dwarf.die import DIE

SYMBOL = np.dtype([("name", "<u4"), ("kind", "u1"), ("other", "u1"), ("part", "<u2"), ("at", "<u8"), ("size", "<u8")])
"""A symbol in an ELF file (`Elf64_Sym`)."""
DATA, FUNCTION = 1, 2
"""Kinds of symbols."""
MODULE = re.compile(rb"\nmod\t([^\t\n]+)")
"""The main module, in what `go version -m` prints of a program."""


class Call(NamedTuple):
    """A function that was called, with the line that runs in it."""

    function: str
    """With its package: `net/http.(*Transport).dialConn`. Empty if it is not known."""
    file: str
    line: int


class Line(NamedTuple):
    address: int
    file: str
    line: int


class Inlined(NamedTuple):
    """A function that stands inside another one."""

    ranges: tuple[tuple[int, int], ...]
    function: str
    file: str
    line: int
    """The line that calls it."""
    inside: tuple[Inlined, ...]


class Code:
    """A program's code. All addresses are as it was linked."""

    def __init__(self, variables: Variables) -> None:
        self._elf, self._variables = variables.elf, variables
        self._lines: dict[int, list[Line]] = {}
        self._inlined: dict[int, dict[str, tuple[Inlined, ...]]] = {}

    def function(self, at: int) -> str:
        """The function that this address lies in. Empty if it is not known."""
        return self._symbol(FUNCTION, at)

    def variable(self, at: int) -> str:
        """The variable that this address lies in: `main.orders`. Empty if it is not known."""
        return self._symbol(DATA, at)

    def calls(self, returns_to: int, *, inlined: bool = True) -> list[Call]:
        """What is called at the place before this one, innermost first: a function, after those that are inlined
        there."""
        at = returns_to - 1
        unit = self._unit(at)
        outermost = self.function(at)
        if unit is None:
            return [Call(outermost, "", 0)]
        lines = self._lines_of(unit)
        place = bisect.bisect_right(lines, at, key=lambda each: each.address) - 1
        _, file, line = lines[place] if place >= 0 else Line(0, "", 0)
        calls: list[Call] = []
        inside = self._inlined_in(unit).get(outermost, ()) if inlined else ()
        names = []
        while inner := next((each for each in inside if any(low <= at < high for low, high in each.ranges)), None):
            names.append(inner)
            inside = inner.inside
        for each in reversed(names):
            calls.append(Call(each.function, file, line))
            file, line = each.file, each.line
        return [*calls, Call(outermost, file, line)]

    def variables(self, sections: Collection[str]) -> Iterator[tuple[str, int, int]]:
        """Name, begin and end of all variables in these sections of the program."""
        parts = self.sections(sections)
        begins, ends, names = self._symbols[DATA]
        for begin, end, name in zip(begins, ends, names, strict=True):
            if any(first <= begin and end <= last for first, last in parts):
                yield name, begin, end

    def sections(self, names: Collection[str]) -> list[tuple[int, int]]:
        """Begin and end of the sections of these names."""
        found = [each for each in self._elf.iter_sections() if each.name in names]
        return [(each["sh_addr"], each["sh_addr"] + each["sh_size"]) for each in found]

    def type_of(self, name: str) -> str:
        """The type of a variable, as Go writes it: `map[int][]uint8`. Empty if it is not known."""
        try:
            return _text(self._variables.entry(name).get_DIE_from_attribute("DW_AT_type"), "DW_AT_name")
        except LookupError:
            return ""

    def is_users(self, package: str) -> bool:
        """Is it the program itself, or a package of its module?"""
        return package in ("main", self.module or "main") or bool(self.module and package.startswith(f"{self.module}/"))

    @cached_property
    def module(self) -> str:
        """The path of the main module. Empty if it was built without one."""
        section = self._elf.get_section_by_name(".go.buildinfo")
        found = MODULE.search(section.data()) if section is not None else None
        if found is None:  # it is text elsewhere in the program before Go 1.18, and an address here
            self._elf.stream.seek(0)
            text = self._elf.stream.read()
            found = MODULE.search(text, max(0, text.find(BUILT)))
        return found[1].decode(errors="replace") if found else ""

    @cached_property
    def root(self) -> str:
        """The folder of Go's own packages, with a slash: `/usr/lib/go/src/`. Empty if the program was built with
        `-trimpath`."""
        for unit in self._variables.info.iter_CUs():
            if _text(unit.get_top_DIE(), "DW_AT_name") == "runtime":
                found = next((each for each in self._files(unit) if each.endswith("/runtime/proc.go")), "")
                return found.removesuffix("runtime/proc.go") if found.startswith("/") else ""
        return ""

    # --- symbols ------------------------------------------------------------------------------------------------------

    @cached_property
    def _symbols(self) -> dict[int, tuple[list[int], list[int], list[str]]]:
        """Begins, ends and names, by kind."""
        table = self._elf.get_section_by_name(".symtab")
        found: dict[int, tuple[list[int], list[int], list[str]]] = {kind: ([], [], []) for kind in (DATA, FUNCTION)}
        if table is None:
            return found
        names = self._elf.get_section(table["sh_link"]).data()
        rows = np.frombuffer(table.data(), SYMBOL)
        for kind in found:
            of = rows[((rows["kind"] & 15) == kind) & (rows["size"] > 0)]
            of = of[np.argsort(of["at"], kind="stable")]
            texts = [names[at : names.index(b"\0", at)].decode(errors="replace") for at in of["name"].tolist()]
            found[kind] = of["at"].tolist(), (of["at"] + of["size"]).tolist(), texts
        return found

    def _symbol(self, kind: int, at: int) -> str:
        begins, ends, names = self._symbols[kind]
        place = bisect.bisect_right(begins, at) - 1
        return names[place] if place >= 0 and at < ends[place] else ""

    # --- debug information --------------------------------------------------------------------------------------------

    @cached_property
    def _units(self) -> list[tuple[int, int, CompileUnit]]:
        """Begin and end of each range of code, with the unit that it is of."""
        units = [(unit, self._ranges(unit.get_top_DIE(), unit)) for unit in self._variables.info.iter_CUs()]
        return sorted(((*each, unit) for unit, ranges in units for each in ranges), key=lambda each: each[:2])

    def _unit(self, at: int) -> CompileUnit | None:
        place = bisect.bisect_right(self._units, at, key=lambda each: each[0]) - 1
        if place < 0:
            return None
        _, high, unit = self._units[place]
        return unit if at < high else None

    def _ranges(self, entry: DIE, unit: CompileUnit) -> list[tuple[int, int]]:
        """The ranges of code of an entry."""
        from elftools.dwarf.ranges import BaseAddressEntry

        attributes = entry.attributes
        low = attributes["DW_AT_low_pc"].value if "DW_AT_low_pc" in attributes else 0
        if "DW_AT_ranges" in attributes:
            lists = self._variables.info.range_lists()
            assert lists is not None
            found, base = [], low
            for each in lists.get_range_list_at_offset(attributes["DW_AT_ranges"].value, cu=unit):
                if isinstance(each, BaseAddressEntry):
                    base = each.base_address
                elif each.is_absolute:
                    found.append((each.begin_offset, each.end_offset))
                else:
                    found.append((base + each.begin_offset, base + each.end_offset))
            return found
        if "DW_AT_high_pc" not in attributes:
            return []
        high = attributes["DW_AT_high_pc"]
        return [(low, high.value if high.form == "DW_FORM_addr" else low + high.value)]

    def _files(self, unit: CompileUnit) -> list[str]:
        program = self._variables.info.line_program_for_CU(unit)
        if program is None:
            return []
        header = program.header
        is_five = header.version >= 5
        folders = [_decoded(each) for each in header["include_directory"]]
        files = [] if is_five else [""]
        for each in header["file_entry"]:
            name = _decoded(each.name)
            if not name.startswith("/") and (each.dir_index or is_five):
                place = each.dir_index - (0 if is_five else 1)
                if 0 <= place < len(folders) and folders[place] not in ("", "."):
                    name = f"{folders[place]}/{name}"
            files.append(name)
        return files

    def _lines_of(self, unit: CompileUnit) -> list[Line]:
        """The lines of a unit, by address."""
        if unit.cu_offset not in self._lines:
            program, files = self._variables.info.line_program_for_CU(unit), self._files(unit)
            states = (each.state for each in program.get_entries()) if program is not None else ()
            self._lines[unit.cu_offset] = sorted(
                (
                    Line(state.address, files[state.file] if state.file < len(files) else "", state.line)
                    for state in states
                    if state is not None and not state.end_sequence
                ),
                key=lambda each: each.address,
            )
        return self._lines[unit.cu_offset]

    def _inlined_in(self, unit: CompileUnit) -> dict[str, tuple[Inlined, ...]]:
        """The functions of a unit that have others inside, by name."""
        if unit.cu_offset not in self._inlined:
            files = self._files(unit)
            found = {}
            for entry in unit.get_top_DIE().iter_children():
                if entry.tag == "DW_TAG_subprogram" and "DW_AT_low_pc" in entry.attributes:
                    found[_name(entry)] = tuple(self._inside(entry, files, unit))
            self._inlined[unit.cu_offset] = found
        return self._inlined[unit.cu_offset]

    def _inside(self, entry: DIE, files: list[str], unit: CompileUnit) -> Iterator[Inlined]:
        for each in entry.iter_children():
            if each.tag == "DW_TAG_inlined_subroutine":
                place = each.attributes["DW_AT_call_file"].value
                yield Inlined(
                    tuple(self._ranges(each, unit)),
                    _name(each),
                    files[place] if place < len(files) else "",
                    int(each.attributes["DW_AT_call_line"].value),
                    tuple(self._inside(each, files, unit)),
                )
            elif each.tag == "DW_TAG_lexical_block":
                yield from self._inside(each, files, unit)


def _decoded(text: bytes | str) -> str:
    return text.decode(errors="replace") if isinstance(text, bytes) else text


def _name(entry: DIE) -> str:
    if "DW_AT_abstract_origin" in entry.attributes:
        entry = entry.get_DIE_from_attribute("DW_AT_abstract_origin")
    return _text(entry, "DW_AT_name")


def _text(entry: DIE, name: str) -> str:
    found = entry.attributes.get(name)
    return found.value.decode(errors="replace") if found is not None else ""
