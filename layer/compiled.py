"""The sidecar's hot modules as a library of machine code for each architecture: mypyc makes C of them."""

from __future__ import annotations

import ast
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from bisect import bisect
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib.metadata import files
from pathlib import Path

import mypy.version
import mypyc

from . import unused
from .cpython import LEAN, SMALL_POOLS, Build
from .errors import BuildError
from .toolchain import Toolchain

HERE = Path(__file__).parent
MYPY = mypy.version.__version__
GENERATOR = HERE / "generate.py"
TABLE = "compiled.h"
RUNTIME = Path(mypyc.__file__).parent / "lib-rt"
"""mypyc's own C, which what it makes calls."""
RUNTIME_SOURCES = (
    *("init.c", "getargs.c", "getargsfast.c", "int_ops.c", "float_ops.c", "str_ops.c", "bytes_ops.c", "list_ops.c"),
    *("dict_ops.c", "set_ops.c", "tuple_ops.c", "exc_ops.c", "misc_ops.c", "generic_ops.c", "pythonsupport.c"),
    *("bytearray_extra_ops.c", "bytes_extra_ops.c", "str_extra_ops.c", "locks.c"),
)
OURS = HERE / "runtime.c"
REPLACED = (
    *("CPyImport_ImportNative", "CPyImport_SetDunderAttrs", "CPyImport_BeginInitializing"),
    *("CPyImport_EndInitializing", "CPyBytes_GetSlice"),
)
"""Functions of that runtime that runtime.c defines: there they get other names, and are left out."""

FLAGS = (
    *("-c", "-Os", "-Xclang", "-Oz", "-g0", "-fwrapv", *LEAN.split(), SMALL_POOLS, "-DPy_BUILD_CORE", "-DNDEBUG", "-w"),
)
"""zig takes -Os and -Oz for the same; clang's own -Oz is 0.14 MB of the zip."""
WITHOUT_PLACES = (
    "-DCPy_AddTraceback(file,function,line,globals)=CPy_Raised(function,globals)",
    "-DCPy_TypeErrorTraceback(file,function,line,globals,wanted,value)=CPy_RaisedType(function,globals,wanted,value)",
    "-DCPy_AttributeError(file,function,owner,name,line,globals)=CPy_RaisedAttribute(function,globals,owner,name)",
)
"""The log has no line numbers, and the file would be a path of the machine that builds."""

IMPORTED = re.compile(r"char CPyDef_\w+_____top_level__\(void\) \{")
LITERAL = re.compile(r"/\* '(\w+)' \*/")
"""How mypyc notes a string of the source where it is used."""

MODULES = """
    truemem.drift
    truemem.journal
    truemem.lifecycle.event
    truemem.lifecycle.loop
    truemem.lifecycle.on_demand
    truemem.lifecycle.publisher
    truemem.lifecycle.turn
    truemem.lifecycle.window_closer
    truemem.linux.cgroup
    truemem.linux.process_table
    truemem.linux.procfs
    truemem.measure.child_bound
    truemem.measure.cpu_time
    truemem.measure.environment_memory
    truemem.measure.level_sampler
    truemem.measure.open_window
    truemem.measure.process_track
    truemem.measure.recorder
    truemem.measure.sampling
    truemem.measure.thread_bound
    truemem.measure.watermark
    truemem.measure.window
    truemem.platform.exact_mode
    truemem.platform.extensions_api
    truemem.platform.http1
    truemem.platform.pipe
    truemem.platform.proxy
    truemem.platform.tcp
    truemem.platform.telemetry
    truemem.records.pending_record
    truemem.records.record
    truemem.resources
    truemem.support.kept_file
    truemem.support.numbers
    truemem.wings
""".split()  # noqa: SIM905 - one name a line would be a page
"""What runs at each invocation. What runs seldom stays byte code, which takes a third of the room."""


def table(modules: Sequence[str]) -> str:
    """C that modules.c includes: the modules and how each is made."""
    rows = " ".join(f"MODULE({name}, CPyInit_{name.replace('.', '___')})" for name in modules)
    start = "int start_compiled(void);" if modules else "#define start_compiled() 0"
    return f"#define COMPILED {rows}\n{start}\n"


@dataclass(frozen=True)
class Library:
    """Compiled modules, to be linked with."""

    modules: Sequence[str] = ()
    paths: Sequence[Path] = ()
    looked_up: Collection[str] = ()
    """Names that they look up in objects, once they are imported."""


def library(cache: Path, build: Build, toolchain: Toolchain, machine: str, sidecar: Path) -> Library:
    """The compiled modules of the folder `sidecar`: from the cache, or made for it. Raises BuildError."""
    modules = [name for name in MODULES if _is_in(sidecar, name)]  # a wing may have been taken out
    kept = cache / f"compiled-{machine}-{_key(build, sidecar)}.a"
    names = kept.with_suffix(".names")
    if kept.exists():
        return Library(modules, [kept], names.read_text().split())
    with tempfile.TemporaryDirectory(dir=cache, prefix="compiling-") as name:
        work = Path(name)
        _generate(sidecar, work, modules)
        sources = [*sorted(work.glob("*.c")), *(RUNTIME / each for each in RUNTIME_SOURCES), OURS]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            objects = list(pool.map(partial(_compiled, build, toolchain, machine, work), sources))
        made = work / kept.name
        _run(["zar", "rcD", made, *objects], toolchain.environment(), "ar")
        found = {name for source in sources for name in looked_up(source.read_text())}
        found |= {word for path in sidecar.rglob("*.py") for word in words(path.read_bytes())}
        names.write_text(" ".join(sorted(found)))
        made.replace(kept)
    return Library(modules, [kept], found)


def notices() -> dict[str, str]:
    """Licences of what mypyc links in, by file name."""
    (licence,) = (each for each in files("mypy") or () if each.match("licenses/LICENSE"))
    return {"mypy-LICENSE.txt": licence.read_text()}


def words(source: bytes) -> set[str]:
    """All words of a Python source's strings, but for docstrings: each may be the name of an attribute."""
    tree = ast.parse(source)
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in told)
    return {word for node in constants if isinstance(node.value, str) for word in re.findall(r"\w+", node.value)}


def looked_up(source: str) -> set[str]:
    """Names that a C source looks up in objects, but for what runs once, when a module is imported."""
    lines = source.splitlines()
    ends = [at for at, line in enumerate(lines) if line.startswith("}")]
    for begin in [at for at, line in enumerate(lines) if IMPORTED.match(line)]:
        lines[begin : ends[bisect(ends, begin)]] = [""] * (ends[bisect(ends, begin)] - begin)
    return unused.looked_up(["\n".join(lines)]).union(LITERAL.findall("\n".join(lines)))


def _key(build: Build, sidecar: Path) -> str:
    """Hash of everything that goes into the library."""
    ours = (Path(__file__), Path(unused.__file__), GENERATOR, OURS)
    parts: Iterable[bytes] = (
        build.folder.name.encode(),
        MYPY.encode(),
        *(path.read_bytes() for path in ours),
        *(path.read_bytes() for path in sorted(sidecar.rglob("*.py"))),
    )
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]


def _is_in(sidecar: Path, name: str) -> bool:
    path = sidecar.parent.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def _generate(sidecar: Path, work: Path, modules: Sequence[str]) -> None:
    command: list[str | Path] = [sys.executable, GENERATOR, sidecar, work, *modules]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"mypyc: {(done.stdout + done.stderr).strip()}")


def _compiled(build: Build, toolchain: Toolchain, machine: str, work: Path, source: Path) -> Path:
    target = work / f"{source.stem}.o"
    if source.parent == RUNTIME:
        changed: Iterable[str] = [f"-D{name}=replaced_{name}" for name in REPLACED]
    else:
        changed = WITHOUT_PLACES
    folders = (work, RUNTIME, build.include, build.include / "internal", build.configuration(machine))
    include = [f"-I{folder}" for folder in folders]
    # In a cache of its own: once, beside another build, zig's common one did not have what it had just made.
    apart = {"ZIG_LOCAL_CACHE_DIR": f"{work / 'zig'}"}
    command: list[str | Path] = [toolchain.compiler(machine), *FLAGS, *changed, *include, source, "-o", target]
    _run(command, {**toolchain.environment(), **apart}, source.name)
    return target


def _run(command: Sequence[str | Path], environment: Mapping[str, str], what: str) -> None:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error" in line] or [done.stderr.strip()]
        raise BuildError(f"{what}: {errors[0]}")
