"""Writes modules as C tables, which replace CPython's own Python/frozen.c.

The interpreter that was built runs it as a script: `python freeze.py OUT.c ORDER.json`, where the order is [[name,
path, is_package, is_in_block], ...]. Without arguments it prints the names of the built-in modules.

Start needs most modules at once. The modules of one room are one block, {name: code}: the interpreter reads a string
that many of them have only once. (One block for all would save 0.1 ms more, and take 0.1 MiB.) quick_import.c reads the
blocks.
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


def frozen(name: str, source: bytes | str) -> CodeType:
    """Compile a module without asserts, docstrings and anything that depends on the place of the build."""
    tree = ast.parse(source)
    flags = 0
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            for alias in node.names:
                flags |= getattr(__future__, alias.name).compiler_flag
    # The statement also imports the module, at run time: one more to freeze and to load, for nothing.
    tree.body = [node for node in tree.body if not (isinstance(node, ast.ImportFrom) and node.module == "__future__")]
    return _lean(compile(tree, f"<frozen {name}>", "exec", flags=flags, dont_inherit=True, optimize=2))


def _lean(code: CodeType) -> CodeType:
    """Remove line numbers: there is no source beside the file, and the log has no tracebacks."""
    constants = tuple(_lean(each) if isinstance(each, CodeType) else each for each in code.co_consts)
    return code.replace(co_linetable=b"", co_consts=constants)


def table(tag: str, entries: list[tuple[str, bytes | int, bool]]) -> str:
    """Write one table of frozen modules. A module in a block has no code there, and the block's number as its size."""
    rows = [f"static const struct _frozen {tag}[] = {{"]
    arrays = []
    for number, (name, code, is_package) in enumerate(entries):
        if isinstance(code, int):
            rows.append(f'    {{"{name}", 0, {code}, {int(is_package)}}},')
        else:
            arrays.append(array(f"{tag}{number}", code))
            rows.append(f'    {{"{name}", {tag}{number}, {len(code)}, {int(is_package)}}},')
    return "\n".join([*arrays, *rows, "    {0, 0, 0, 0}};\n"])


def array(name: str, content: bytes) -> str:
    """Write `content` as a C array."""
    return f"static const unsigned char {name}[] = {{{','.join(map(str, content))}}};"


def block_table(blocks: list[dict[str, CodeType]]) -> str:
    """Write the blocks, and the table that quick_import.c finds them by."""
    contents = [marshal.dumps(block) for block in blocks]
    arrays = [array(f"block{number}", content) for number, content in enumerate(contents)]
    rows = [f"    {{block{number}, {len(content)}, 0}}," for number, content in enumerate(contents)]
    opening = "struct start_block { const unsigned char *content; long size; PyObject *codes; } start_blocks[] = {"
    return "\n".join([*arrays, opening, *rows, "    {0, 0, 0}};\n"])


def main(output: str, order: str) -> None:
    """See the module."""
    modules: list[tuple[str, bytes | int, bool]] = []
    boot: list[tuple[str, bytes | int, bool]] = []
    rooms: dict[str, dict[str, CodeType]] = {}
    for name, path, is_package, is_in_block in json.loads(order):
        code = frozen(BOOT.get(name, name), Path(path).read_bytes())
        where = boot if name in BOOT else modules
        if is_in_block:
            room = name if is_package else name.rpartition(".")[0]
            rooms.setdefault(room, {})[name] = code
            where.append((name, list(rooms).index(room), is_package))
        else:
            where.append((name, marshal.dumps(code), is_package))
    tables = table("modules", modules) + table("boot", boot) + table("none", [])
    Path(output).write_text(HEADER + tables + block_table(list(rooms.values())) + FOOTER)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        print("\n".join(sys.builtin_module_names))
    else:
        main(sys.argv[1], Path(sys.argv[2]).read_text())
