"""Functions, files and lines of places in programs and libraries: by binutils' addr2line, else by their own symbols."""

from __future__ import annotations

import bisect
import ctypes
import shutil
import struct
import subprocess
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

TOOLS = ("addr2line", "llvm-addr2line")
"""Programs that read lines from debug information, those of inlined functions too. One comes with each linker."""
READS_S = 60  # longest wait for one of them
UNKNOWN = "??"
DAMAGED = (OSError, ValueError, LookupError, ArithmeticError, AttributeError, AssertionError, struct.error)
"""What elftools raises where a file is damaged, beside its own errors."""

Call = tuple[str, int]
"""A file, and the place of an instruction in it: bytes from its begin."""


class NativeFrame(NamedTuple):
    """A call that was under way, as far as it is known."""

    module: str
    """Path of the program or the library."""
    function: str
    """Its name as its language writes it; without debug information with the distance from its begin: `keep+0x1c`.
    Empty if it is not known."""
    file: str = ""
    """Path of its source. Empty without debug information."""
    line: int = 0


def resolved(calls: Collection[Call]) -> tuple[dict[Call, tuple[NativeFrame, ...]], list[str]]:
    """The frames of each call, the outermost first: several where functions were inlined. And what is missing, as
    sentences."""
    by_module: dict[str, list[int]] = defaultdict(list)
    for module, offset in calls:
        by_module[module].append(offset)
    found: dict[Call, tuple[NativeFrame, ...]] = {}
    tool, missing = next(filter(None, map(shutil.which, TOOLS)), None), []
    if calls and tool is None:
        missing.append("There is no addr2line: functions are named without their lines. Install binutils.")
    for module, offsets in by_module.items():
        try:
            symbols = Symbols(module)
        except DAMAGED:
            found |= {(module, offset): (NativeFrame(module, ""),) for offset in offsets}
            continue
        places = {offset: symbols.address(offset) for offset in offsets}
        lines = _lines(tool, module, sorted({*places.values()})) if tool else {}
        for offset, address in places.items():
            known = lines.get(address, ())
            found[module, offset] = known if known and known[0].file else (symbols.frame(address, known),)
    return found, missing


def _lines(tool: str, module: str, addresses: Sequence[int]) -> Mapping[int, tuple[NativeFrame, ...]]:
    """What the tool says of each address, the outermost frame first. Empty if it fails."""
    command = [tool, "--addresses", "--inlines", "--functions", "--demangle", f"--exe={module}"]
    asked = "".join(f"{address:#x}\n" for address in addresses)
    try:
        done = subprocess.run(
            command, input=asked, capture_output=True, text=True, errors="replace", timeout=READS_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    found: dict[int, list[NativeFrame]] = {}
    frames: list[NativeFrame] = []
    said = iter(done.stdout.splitlines())
    for line in said:
        if line.startswith("0x"):
            frames = found.setdefault(int(line, 16), [])
            continue
        file, _, number = next(said, "").partition(" (discriminator")[0].rpartition(":")
        name, is_known = line.strip(), UNKNOWN not in file
        line_number = int(number) if number.isdigit() else 0
        frames.insert(0, NativeFrame(module, "" if name == UNKNOWN else name, file * is_known, line_number * is_known))
    return {address: tuple(frames) for address, frames in found.items()}


class Symbols:
    """The symbols of a program or a library."""

    def __init__(self, path: str) -> None:
        """`path` of the file. Raises OSError, or what is in DAMAGED."""
        from elftools.common.exceptions import ELFError
        from elftools.elf.elffile import ELFFile

        self._path = path
        with Path(path).open("rb") as file:
            try:
                elf = ELFFile(file)
                self._parts = [
                    (int(each["p_offset"]), int(each["p_filesz"]), int(each["p_vaddr"]))
                    for each in elf.iter_segments("PT_LOAD")
                ]
                self._functions = sorted(_functions(elf))
            except ELFError as error:
                raise ValueError(str(error)) from None

    def address(self, offset: int) -> int:
        """The address that the linker has given to this place of the file; the place itself if it is in no part."""
        for begin, size, address in self._parts:
            if begin <= offset < begin + size:
                return offset - begin + address
        return offset

    def frame(self, address: int, known: Sequence[NativeFrame] = ()) -> NativeFrame:
        """The function at this address, and how far behind its begin it is; without a name if there is none. `known`:
        what a tool says, which knows how more languages write a name."""
        at = bisect.bisect_right(self._functions, address, key=lambda each: each[0]) - 1
        if at < 0 or address >= self._functions[at][0] + max(self._functions[at][1], 1):
            return NativeFrame(self._path, "")
        begin, _, name = self._functions[at]
        written = known[-1].function if known else ""
        return NativeFrame(self._path, f"{written or demangled(name)}+{address - begin:#x}")


def _functions(elf: ELFFile) -> set[tuple[int, int, str]]:
    """Address, size and name of each function that the file names."""
    from elftools.elf.sections import SymbolTableSection

    return {
        (each["st_value"], each["st_size"], each.name)
        for section in elf.iter_sections()
        if isinstance(section, SymbolTableSection)
        for each in section.iter_symbols()
        if each["st_info"]["type"] == "STT_FUNC" and each["st_value"]
    }


def demangled(name: str) -> str:
    """The name as C++ or Rust writes it, by the library of C++ (__cxa_demangle); as it is where that does not know it,
    or is not here."""
    if not name.startswith("_Z"):
        return name
    try:
        library = ctypes.CDLL("libstdc++.so.6")
    except OSError:
        return name
    library.__cxa_demangle.restype = ctypes.c_void_p
    status = ctypes.c_int()
    text = library.__cxa_demangle(name.encode(), None, None, ctypes.byref(status))
    if not text:
        return name
    try:
        return ctypes.string_at(text).decode(errors="replace")
    finally:
        ctypes.CDLL(None).free(ctypes.c_void_p(text))
