"""Finds the modules of the executable from the imports in the source. Pure, but for reading source files."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from .errors import BuildError

STAND_INS = Path(__file__).with_name("stand_ins")
"""Our own replacements of standard modules, which have only what is used here."""

BOOTSTRAP = "_frozen_importlib"
"""Name of the interpreter's first module."""


@dataclass(frozen=True)
class Module:
    """One module to be frozen."""

    name: str
    path: Path

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"


class _Imports(ast.NodeVisitor):
    """Collects the absolute names of a module's imports: with `deep` also inside functions and conditions."""

    def __init__(self, package: str, deep: bool) -> None:
        self._package = package
        self._deep = deep
        self.names: list[tuple[str, ...]] = []
        """For each import, the names that it may load: a module, or its member, which may be a module too."""

    def visit_If(self, node: ast.If) -> None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for each in node.orelse:
                self.visit(each)
        elif self._deep:
            self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if self._deep:
            self.generic_visit(node)

    def visit_Try(self, node: ast.Try) -> None:
        if self._deep:
            self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        self.names += [(alias.name,) for alias in node.names]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.module == "__future__":
            return
        base = self._package.rsplit(".", node.level - 1)[0] if node.level else ""
        origin = ".".join(part for part in (base, node.module) if part)
        self.names += [(origin, f"{origin}.{alias.name}") for alias in node.names]


def imported(module: Module, deep: bool) -> list[tuple[str, ...]]:
    """For each import of the module, the names that it may load. `deep`: those inside functions, `if` and `try` as
    well."""
    package = module.name if module.is_package else module.name.rpartition(".")[0]
    visitor = _Imports(package, deep)
    visitor.visit(ast.parse(module.path.read_bytes()))
    return visitor.names


def find(name: str, folders: Collection[Path]) -> Module | None:
    """The module's source below one of `folders`."""
    for folder in folders:
        stem = folder.joinpath(*name.split("."))
        for path in (stem / "__init__.py", stem.with_name(f"{stem.name}.py")):
            if path.is_file():
                return Module(name, path)
    return None


def closure(ours: Path, library: Path, builtin: Collection[str], stand_ins: Path = STAND_INS) -> list[Module]:
    """All modules of the package `ours`, all stand-ins, and all modules of the standard library in `library` that they
    import.

    The interpreter's own imports at its start have stand-ins. All imports of our own modules count, also those inside
    functions. Of the standard library's imports only those at the top level count: they are needed on every platform.
    Raises BuildError for an import of ours that is not found.
    """
    folders = (stand_ins, ours.parent, library)
    pending = [_own(path, ours) for path in sorted(ours.rglob("*.py"))]
    pending += [Module(path.stem, path) for path in sorted(stand_ins.glob("*.py"))]
    pending.append(Module(BOOTSTRAP, library / "importlib" / "_bootstrap.py"))
    found: dict[str, Module] = {}
    while pending:
        module = pending.pop()
        if module.name in found:
            continue
        found[module.name] = module
        own = not module.path.is_relative_to(library)
        for names in imported(module, deep=own):
            wanted = list(_wanted(names, folders, builtin))
            if own and not wanted:
                raise BuildError(f"{module.path}: imports {names[0]}, which the executable does not have")
            pending += [one for one in wanted if one is not None and one.name not in found]
    return [found[name] for name in sorted(found)]


def _own(path: Path, ours: Path) -> Module:
    parts = path.relative_to(ours.parent).with_suffix("").parts
    return Module(".".join(parts[:-1] if parts[-1] == "__init__" else parts), path)


def _wanted(names: tuple[str, ...], folders: Collection[Path], builtin: Collection[str]) -> Iterator[Module | None]:
    """The modules that one import loads. None stands for a built-in module."""
    for name in names:
        if name.partition(".")[0] in builtin:
            yield None
        elif (module := find(name, folders)) is not None:
            parent = name.rpartition(".")[0]
            if parent and (package := find(parent, folders)) is not None:
                yield package
            yield module
