"""The list of frozen modules is what the source imports, and nothing is forgotten silently."""

from pathlib import Path

import pytest

from layer.errors import BuildError
from layer.imports import BOOTSTRAP, closure

BUILTIN = ("sys", "posix", "time", "_io")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A package `own` and a standard library, both empty."""
    write(tmp_path, "Lib/importlib/_bootstrap.py", "")
    write(tmp_path, "stand_ins/io.py", "")
    write(tmp_path, "own/__init__.py", "")
    return tmp_path


def write(tree: Path, path: str, text: str) -> None:
    (tree / path).parent.mkdir(parents=True, exist_ok=True)
    (tree / path).write_text(text)


def names(tree: Path) -> set[str]:
    """What is frozen beside what the interpreter starts with."""
    return set(frozen(tree)) - {BOOTSTRAP, "io"}


def frozen(tree: Path) -> dict[str, Path]:
    made = closure(tree / "own", tree / "Lib", BUILTIN, tree / "stand_ins")
    return {module.name: module.path for module in made}


LATER = "from deeper import x\ndef f(): import never\nif sys.platform == 'win32': import never\n"
PACKAGE = {"package/__init__.py": "", "package/part.py": ""}


@pytest.mark.parametrize(
    ("own", "library", "beside"),
    [
        ("", {}, set()),
        ("import used", {"used.py": ""}, {"used"}),
        ("from used import x", {"used.py": ""}, {"used"}),
        ("def late():\n    import used", {"used.py": ""}, {"used"}),
        ("try:\n    import used\nexcept OSError: pass", {"used.py": ""}, {"used"}),
        ("import used", {"used.py": LATER, "deeper.py": "", "never.py": ""}, {"used", "deeper"}),
        ("import package.part", PACKAGE, {"package", "package.part"}),
        ("from package import part, no_module", PACKAGE, {"package", "package.part"}),
        ("import posix\nfrom . import b", {}, set()),
        ("TYPE_CHECKING = False\nif TYPE_CHECKING:\n    import typing", {}, set()),
        ("if TYPE_CHECKING:\n    import typing\nelse:\n    import used", {"used.py": ""}, {"used"}),
        ("from __future__ import annotations\nfrom .b import x", {}, set()),
    ],
)
def test_it_has_our_modules_and_what_they_import(
    tree: Path, own: str, library: dict[str, str], beside: set[str]
) -> None:
    write(tree, "own/a.py", own)
    write(tree, "own/b.py", "")
    for path, text in library.items():
        write(tree, f"Lib/{path}", text)
    assert names(tree) == {"own", "own.a", "own.b", *beside}


def test_a_stand_in_takes_the_place_of_the_standard_module(tree: Path) -> None:
    write(tree, "Lib/io.py", "import never")
    write(tree, "own/a.py", "import io")
    assert frozen(tree)["io"] == tree / "stand_ins" / "io.py"


@pytest.mark.parametrize(
    "statement", ["import missing", "from missing import x", "def f():\n    from missing.a import b"]
)
def test_an_import_that_the_file_would_not_have_stops_the_build(tree: Path, statement: str) -> None:
    write(tree, "own/a.py", statement)
    with pytest.raises(BuildError, match=r"own/a.py: imports missing"):
        names(tree)
