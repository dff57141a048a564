"""Which sources are those of the user's own native modules: what their debug information says."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from ..target.native_program import DAMAGED
from .attribution import Users
from .native_sites import LIBRARY_SOURCE

SKIPPED = frozenset({"site-packages", "dist-packages", "node_modules"})
"""Folders of libraries: nothing below them is the user's. What begins with a dot is skipped as well."""
SHARED_LIBRARY = re.compile(r"\.so(?:\.\d+)*$")
COPIED = re.compile(r".*/(?:third_party|thirdparty|3rdparty|extern|external|subprojects|_deps)/")
"""Code of others that lies beside the user's, and is compiled in."""
INSTALLED = re.compile(
    rf"{LIBRARY_SOURCE.pattern}|.*/(?:site|dist)-packages/|.*/include/(?:python3|pybind11/|nanobind/|boost/|numpy/)"
)
"""Headers and sources of libraries elsewhere, those of an interpreter in any place among them."""


class OwnSources:
    """Sources of the native modules below a task root that have debug information, libraries' modules left out.

    False where there is no such module.
    """

    def __init__(self, root: Path) -> None:
        self._below = f"{root}/"
        self._users = Users(root)
        modules = [path for path in _shared_libraries(root) if self._users.is_theirs((str(path), 0))]
        compiled = {each for path in modules for each in _compiled(path)}
        self._folders = sorted({folder for folder, _ in compiled})
        self._compiled = frozenset(source for _, source in compiled)
        self._known: dict[str, str] = {}

    def __bool__(self) -> bool:
        return any(map(self.path, self._compiled))

    def path(self, file: str) -> str:
        """The path of a source, as debug information writes it; empty if it is not the user's. A source that was
        compiled elsewhere need not be here; a header that is not below the root must be."""
        if file not in self._known:
            # memray leaves out the folder in which the compiler ran, where the source lies in a folder below that
            places = [file] if file.startswith("/") else [f"{folder}/{file}" for folder in self._folders]
            self._known[file] = next(filter(self._is_own, map(os.path.normpath, places)), "")
        return self._known[file]

    def _is_own(self, file: str) -> bool:
        if file not in self._compiled and not Path(file).is_file():
            return False
        if file.startswith(self._below):
            return self._users.is_theirs((file, 0)) and not COPIED.match(file, len(self._below) - 1)
        return not COPIED.match(file) and not INSTALLED.match(file)


def _shared_libraries(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in SKIPPED and not name.startswith(".")]
        yield from (Path(folder, name) for name in files if SHARED_LIBRARY.search(name))


def _compiled(path: Path) -> frozenset[tuple[str, str]]:
    """The sources from which a library was compiled, each after the folder in which the compiler ran. None without
    debug information, or where that is damaged."""
    from elftools.common.exceptions import DWARFError, ELFError
    from elftools.elf.elffile import ELFFile

    found = set()
    try:
        with path.open("rb") as file:
            elf = ELFFile(file)
            if elf.get_section_by_name(".debug_info") is None:
                return frozenset()
            for unit in elf.get_dwarf_info(follow_links=False).iter_CUs():
                of = unit.get_top_DIE().attributes
                folder, name = (
                    of[each].value.decode() if each in of else "" for each in ("DW_AT_comp_dir", "DW_AT_name")
                )
                found.add((folder, os.path.normpath(Path(folder, name))))
    except (DWARFError, ELFError, *DAMAGED):
        return frozenset()
    return frozenset(found)
