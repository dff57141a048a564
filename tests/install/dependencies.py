"""What pyproject.toml says that a wheel needs, and what its code imports."""

import ast
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from deploy.materials import named

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OURS = ("truemem", "truemem_workbench")


PLAIN = named(PROJECT["dependencies"])
"""What `pip install truemem` asks for."""
EXTRAS = {
    extra: named(PROJECT["optional-dependencies"][extra])
    for extra in ("demo", "locust", "mcp", "memray", "pictures", "spark")
}


@cache
def imported() -> set[str]:
    """Packages of others that some module of the wheel imports when it runs, late imports included."""
    found: set[str] = set()
    for folder in ("extension", "workbench"):
        for path in (ROOT / folder).rglob("*.py"):
            found.update(_imports(ast.parse(path.read_text())))
    return found - {*sys.stdlib_module_names, *OURS, "_image"}  # _image is in the executable alone (layer/image.c)


def _imports(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (each.name.partition(".")[0] for each in node.names)
    elif isinstance(node, ast.ImportFrom) and not node.level:
        yield str(node.module).partition(".")[0]
    only_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    for child in node.orelse if isinstance(node, ast.If) and only_types else ast.iter_child_nodes(node):
        yield from _imports(child)
