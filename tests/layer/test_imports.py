"""The list of frozen modules is what the source imports, and nothing is forgotten silently."""

from __future__ import annotations

from pathlib import Path

import pytest

from layer.errors import BuildError
from layer.imports import BOOTSTRAP, at_import, closure

BUILTIN = ("sys", "posix", "time", "_io")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A package `own` and a standard library, both empty."""
    write(tmp_path, "Lib/importlib/_bootstrap.py", "")
    write(tmp_path, "stand_ins/io.py", "")
    write(tmp_path, "own/__init__.py", "")
    return tmp_path


def lib(name: str) -> str:
    return f"Lib/{name.replace('.', '/')}.py"


def write(tree: Path, path: str, text: str) -> None:
    (tree / path).parent.mkdir(parents=True, exist_ok=True)
    (tree / path).write_text(text)


def names(tree: Path) -> set[str]:
    """What is frozen beside what the interpreter starts with."""
    return set(frozen(tree)) - {BOOTSTRAP, "io"}


def frozen(tree: Path) -> dict[str, Path]:
    made = closure(tree / "own", tree / "Lib", BUILTIN, tree / "stand_ins")
    return {module.name: module.path for module in made}


def test_every_module_of_ours_is_in_it_imported_or_not(tree: Path) -> None:
    write(tree, "own/alone.py", "")
    assert names(tree) == {"own", "own.alone"}


@pytest.mark.parametrize(
    "statement",
    [
        "import used",
        "from used import x",
        "def late():\n    import used",
        "try:\n    import used\nexcept OSError: pass",
    ],
)
def test_what_ours_imports_is_in_it_wherever_it_does(tree: Path, statement: str) -> None:
    write(tree, lib("used"), "")
    write(tree, "own/a.py", statement)
    assert "used" in names(tree)


def test_what_that_imports_at_its_top_level_is_too(tree: Path) -> None:
    write(tree, "own/a.py", "import used")
    write(tree, lib("used"), "from deeper import x\ndef f(): import never\nif sys.platform == 'win32': import never\n")
    for name in ("deeper", "never"):
        write(tree, lib(name), "")
    assert names(tree) == {"own", "own.a", "used", "deeper"}


@pytest.mark.parametrize("statement", ["import package.part", "from package import part, no_module"])
def test_a_submodule_is_found_and_brings_its_package(tree: Path, statement: str) -> None:
    write(tree, "Lib/package/__init__.py", "")
    write(tree, "Lib/package/part.py", "")
    write(tree, "own/a.py", statement)
    assert {"package", "package.part"} <= names(tree)


def test_a_stand_in_takes_the_place_of_the_standard_module(tree: Path) -> None:
    write(tree, lib("io"), "import never")
    write(tree, "own/a.py", "import io")
    assert frozen(tree)["io"] == tree / "stand_ins" / "io.py"


def test_built_in_modules_and_those_for_type_checkers_are_left_out(tree: Path) -> None:
    write(
        tree, "own/a.py", "import posix\nfrom . import b\nTYPE_CHECKING = False\nif TYPE_CHECKING:\n    import typing"
    )
    write(tree, "own/b.py", "from __future__ import annotations\nfrom .a import x")
    assert names(tree) == {"own", "own.a", "own.b"}


@pytest.mark.parametrize(
    "statement", ["import missing", "from missing import x", "def f():\n    from missing.a import b"]
)
def test_an_import_that_the_file_would_not_have_stops_the_build(tree: Path, statement: str) -> None:
    write(tree, "own/a.py", statement)
    with pytest.raises(BuildError, match=r"own/a.py: imports missing"):
        names(tree)


def test_what_an_import_loads_at_once_leaves_out_what_functions_import(tree: Path) -> None:
    write(
        tree,
        "own/start.py",
        "from .room.near import x\nif TYPE_CHECKING:\n    from . import typed\ndef f():\n    from . import late\n",
    )
    write(tree, "own/room/__init__.py", "")
    write(tree, "own/room/near.py", "import used")
    for name in ("typed", "late", "alone"):
        write(tree, f"own/{name}.py", "")
    write(tree, lib("used"), "")
    made = closure(tree / "own", tree / "Lib", BUILTIN, tree / "stand_ins")
    assert at_import(made, ["own.start"]) == {"own", "own.start", "own.room", "own.room.near", "used"}
