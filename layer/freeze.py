"""Writes the modules of the executable, compiled, for the process that makes its image (modules.c).

The interpreter that was built runs it as a script: `python freeze.py OUT ORDER.json`, where the order is [[name, path,
is_package], ...].
"""

from __future__ import annotations
import __future__

import ast
import json
import marshal
import sys
from pathlib import Path
from types import CodeType


def frozen(name: str, source: bytes | str) -> CodeType:
    """Compile a module without asserts, docstrings, annotations of functions and anything that depends on the place of
    the build."""
    tree = ast.parse(source)
    for each in ast.walk(tree):
        if isinstance(each, ast.FunctionDef):
            each.returns = None
        elif isinstance(each, ast.arg):
            each.annotation = None
    flags = 0
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            for alias in node.names:
                flags |= getattr(__future__, alias.name).compiler_flag
    # The statement also imports the module, at run time: one more to freeze and to load, for nothing.
    tree.body = [node for node in tree.body if not (isinstance(node, ast.ImportFrom) and node.module == "__future__")]
    return _lean(compile(tree, f"<frozen {name}>", "exec", flags=flags, dont_inherit=True, optimize=2))


def _lean(code: CodeType) -> CodeType:
    """Remove line numbers, and the classes in functions' names: there is no source beside the file, and the log has no
    tracebacks."""
    constants = tuple(_lean(each) if isinstance(each, CodeType) else each for each in code.co_consts)
    return code.replace(co_linetable=b"", co_qualname=code.co_name, co_consts=constants)


def record(name: str, code: CodeType, is_package: bool) -> bytes:
    """One module, as modules.c reads it."""
    content = marshal.dumps(code)
    return name.encode() + b"\0" + bytes([is_package]) + len(content).to_bytes(4, "little") + content


def main(output: str, order: str) -> None:
    """Write the modules that the JSON file `order` names, compiled, to the file `output`."""
    modules = json.loads(Path(order).read_text())
    records = (record(name, frozen(name, Path(path).read_bytes()), is_package) for name, path, is_package in modules)
    Path(output).write_bytes(b"".join(records))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
