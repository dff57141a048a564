"""Writes the C of compiled modules, with mypyc: `python generate.py SIDECAR OUT MODULE...`.

A process of its own: what mypyc does not understand it prints, and exits.
"""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path

from mypy.fscache import FileSystemCache
from mypy.modulefinder import BuildSource
from mypy.nodes import Expression
from mypy.options import Options
from mypyc import build
from mypyc.codegen import emitmodule
from mypyc.ir.ops import Value
from mypyc.ir.rtypes import bytes_rprimitive, int64_rprimitive, short_int_rprimitive
from mypyc.irbuild.builder import IRBuilder
from mypyc.irbuild.specialize import dunder_specializers, translate_getitem_with_bounds_check
from mypyc.options import CompilerOptions
from mypyc.primitives import bytes_ops
from mypyc.primitives.registry import custom_primitive_op

GROUP = "spine"
PYTHON = (3, 13)


_BYTE = custom_primitive_op(
    name="byte",
    arg_types=[bytes_rprimitive, int64_rprimitive],
    return_type=short_int_rprimitive,
    c_function_name="CPyBytes_GetItemUnsafe",
    error_kind=0,
    dependencies=bytes_ops.bytes_get_item_unsafe_op.dependencies,
)
"""text[at] for bytes: mypyc's own counts references of what has none, at each byte of a scan."""


def _byte(builder: IRBuilder, base: Expression, at: list[Expression], whole: Expression) -> Value | None:
    return translate_getitem_with_bounds_check(
        builder, base, at, whole, bytes_ops.bytes_adjust_index_op, bytes_ops.bytes_range_check_op, _BYTE
    )


dunder_specializers["__getitem__", bytes_rprimitive].insert(0, _byte)


def simplified(source: str) -> str:
    """A module without what its compiled form would look up when it is imported, for nothing: `__future__`, and the
    types of a NamedTuple's members."""
    lines = source.encode().split(b"\n")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            lines[node.lineno - 1] = b""
        if isinstance(node, ast.ClassDef) and "NamedTuple" in map(ast.unparse, node.bases):
            for member in node.body:
                if isinstance(member, ast.AnnAssign):
                    kind, at = member.annotation, member.annotation.lineno - 1
                    line, quoted = lines[at], repr(ast.unparse(kind)).encode()
                    lines[at] = line[: kind.col_offset] + quoted + line[kind.end_col_offset :]
    return b"\n".join(lines).decode()


def generate(sidecar: Path, out: Path, modules: list[str]) -> None:
    """Write the C of these modules of the package in the folder `sidecar` to the folder `out`. Exits 1 with mypyc's own
    words."""
    emitmodule.EXT_SUFFIX = ".so"  # type: ignore[attr-defined] # else that of the Python that runs this
    sidecar = sidecar.resolve()
    os.chdir(out)
    source = Path("source")  # a place of the machine that builds would be a string of the compiled modules
    for path in sidecar.rglob("*.py"):
        copy = source / sidecar.name / path.relative_to(sidecar)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(simplified(path.read_text()))
    options = Options()
    options.python_version = PYTHON
    options.mypy_path = [str(source)]
    options.explicit_package_bases = options.namespace_packages = True
    options.incremental = False
    options.preserve_asts = options.export_types = True
    sources = []
    for name in modules:
        path = source.joinpath(*name.split("."))
        sources.append(BuildSource(str(path / "__init__.py" if path.is_dir() else path.with_suffix(".py")), name))
        options.per_module_options[name] = {"mypyc": True}
    compiler = CompilerOptions(strip_asserts=True, multi_file=True, capi_version=PYTHON, python_version=PYTHON)
    (files,), _, _ = build.generate_c(sources, options, [(sources, GROUP)], FileSystemCache(), compiler)
    for name, text in files:
        Path(name).write_text(text)


if __name__ == "__main__":
    generate(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
