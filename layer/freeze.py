"""Writes modules as C tables, which replace CPython's own Python/frozen.c.

The interpreter that was built runs it as a script: `python freeze.py OUT.c ORDER.json`, where the order is [[name,
path, is_package], ...]. Without arguments it prints the names of the built-in modules.
"""

from __future__ import annotations
import __future__

import ast
import json
import marshal
import sys
from pathlib import Path
from types import CodeType

BOOT = {
    "_frozen_importlib": "importlib._bootstrap",
    "_frozen_importlib_external": "importlib._bootstrap_external",
    "zipimport": "zipimport",
}
"""Modules that CPython starts with: their names, and the names of their source."""

HEADER = """#include <Python.h>
struct _module_alias { const char *name, *orig; };
"""

FOOTER = """static const struct _module_alias aliases[] = {
    {"_frozen_importlib", "importlib._bootstrap"},
    {"_frozen_importlib_external", "importlib._bootstrap_external"},
    {0, 0}};
const struct _module_alias *_PyImport_FrozenAliases = aliases;
const struct _frozen *_PyImport_FrozenBootstrap = boot, *_PyImport_FrozenStdlib = none, *_PyImport_FrozenTest = none;
const struct _frozen *PyImport_FrozenModules = modules;
"""


def frozen(name: str, source: bytes | str) -> bytes:
    """Compile a module without asserts, docstrings and anything that depends on the place of the build."""
    tree = ast.parse(source)
    flags = 0
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            for alias in node.names:
                flags |= getattr(__future__, alias.name).compiler_flag
    # The statement also imports the module, at run time: one more to freeze and to load, for nothing.
    tree.body = [node for node in tree.body if not (isinstance(node, ast.ImportFrom) and node.module == "__future__")]
    return marshal.dumps(_lean(compile(tree, f"<frozen {name}>", "exec", flags=flags, dont_inherit=True, optimize=2)))


def _lean(code: CodeType) -> CodeType:
    """Remove line numbers: there is no source beside the file, and the log has no tracebacks."""
    constants = tuple(_lean(each) if isinstance(each, CodeType) else each for each in code.co_consts)
    return code.replace(co_linetable=b"", co_consts=constants)


def table(tag: str, entries: list[tuple[str, bytes, bool]]) -> str:
    """One table of frozen modules."""
    rows = []
    for number, (_, code, _) in enumerate(entries):
        rows.append(f"static const unsigned char {tag}{number}[] = {{{','.join(map(str, code))}}};")
    rows.append(f"static const struct _frozen {tag}[] = {{")
    for number, (name, code, is_package) in enumerate(entries):
        rows.append(f'    {{"{name}", {tag}{number}, {len(code)}, {int(is_package)}}},')
    return "\n".join([*rows, "    {0, 0, 0, 0}};\n"])


def main(output: str, order: str) -> None:
    """See the module."""
    modules: list[tuple[str, bytes, bool]] = []
    boot: list[tuple[str, bytes, bool]] = []
    for name, path, is_package in json.loads(order):
        code = frozen(BOOT.get(name, name), Path(path).read_bytes())
        (boot if name in BOOT else modules).append((name, code, is_package))
    Path(output).write_text(HEADER + table("modules", modules) + table("boot", boot) + table("none", []) + FOOTER)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        print("\n".join(sys.builtin_module_names))
    else:
        main(sys.argv[1], Path(sys.argv[2]).read_text())
