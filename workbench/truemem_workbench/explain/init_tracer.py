"""The handler of a run that tells what init holds: it logs where each import and each statement of the user's begins
and ends, with the time, and in the run for memory with the process's memory.

It is imported in the function's own process, before the user's code, and perhaps by another interpreter than ours:
Python 3.10 and newer, and nothing that a user might import: that would seem to cost nothing then. It keeps nothing but
the log's file: what it kept would be counted at an import of the user's. A fault of its own never reaches the function.
"""

import _ast
import builtins
import gc
import importlib
import os
import sys
from _thread import get_ident
from time import perf_counter_ns
from typing import Any

FOLDER = os.environ["TRUEMEM_EXPLAIN"]
HANDLER = os.environ["TRUEMEM_EXPLAIN_HANDLER"]
ROOT = f"{os.environ['LAMBDA_TASK_ROOT']}{os.sep}"
FOREIGN = os.environ["TRUEMEM_EXPLAIN_FOREIGN"]
STEP_KIB = int(os.environ["TRUEMEM_INIT_STEP_KIB"])
"""The process is settled where its RSS has changed by so much. 0: no memory is read, in a run that takes the time."""
MOST_SETTLING_S = 20.0
"""After so many seconds of settling, that is for a change of four times as much, and so on."""
AT = "__truemem_at__"
PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024
PID, THREAD = os.getpid(), get_ident()


def file_of(name: str) -> str:
    """The file of a module that is loaded, without the module's own `__getattr__`. Empty if it has none."""
    try:
        return str(object.__getattribute__(sys.modules[name], "__dict__").get("__file__") or "")
    except Exception:
        return ""


class Log:
    """Lines of five members: what, ns, RSS and its high-water mark in KiB, and a text. Ours is no part of any time."""

    def __init__(self) -> None:
        self.file = open(f"{FOLDER}/init-{PID}.log", "w", encoding="utf-8", buffering=1 << 16)  # noqa: PTH123, SIM115
        self.statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        self.status = os.open("/proc/self/status", os.O_RDONLY | os.O_CLOEXEC)
        self.lost = 0
        self.spent_s, self.step = 0.0, STEP_KIB
        self.settled = self.rss()
        self.trim = _trim() if STEP_KIB else None

    def rss(self) -> int:
        return int(os.pread(self.statm, 200, 0).split()[1]) * PAGE_KIB

    def write(self, kind: str, text: str = "") -> None:
        """Note this place. Nothing from other threads, whose work falls to what the first one does meanwhile, and
        nothing in a child process."""
        now = perf_counter_ns()
        if get_ident() != THREAD or os.getpid() != PID:
            return
        try:
            rss = peak = 0
            if STEP_KIB:
                rss = self.rss()
                peak = int(os.pread(self.status, 4000, 0).partition(b"VmHWM:")[2].split(None, 1)[0])
            self.file.write(f"{kind}\t{now - self.lost}\t{rss}\t{peak}\t{text}\n")
            if STEP_KIB and abs(rss - self.settled) >= self.step:
                self.settle()
        except (OSError, ValueError, IndexError):
            pass  # a place less
        self.lost += perf_counter_ns() - now

    def settle(self) -> None:
        """Collect garbage, give back what malloc holds, and note what stays: `s`, with RSS and the anonymous part."""
        began = perf_counter_ns()
        if gc.isenabled():
            gc.collect()
        if self.trim is not None:
            self.trim()
        with open("/proc/self/smaps_rollup", "rb") as file:  # noqa: PTH123  # exact; statm may lag behind
            words = file.read().split()
        held, anonymous = (int(words[words.index(name) + 1]) for name in (b"Rss:", b"Anonymous:"))
        self.file.write(f"s\t0\t{held}\t{anonymous}\t\n")
        self.settled = self.rss()
        self.file.write(f"r\t0\t{self.settled}\t0\t\n")
        self.spent_s += (perf_counter_ns() - began) / 1e9
        if self.spent_s > MOST_SETTLING_S:
            self.spent_s, self.step = 0.0, 4 * self.step

    def end(self, kind: str) -> None:
        """A part of the run is over: init, or the first invocation."""
        self.write(kind)
        if get_ident() == THREAD and os.getpid() == PID:
            if STEP_KIB:
                self.settle()
            self.file.flush()


def _trim() -> Any:
    """glibc's malloc_trim. `ctypes` itself is left for the user to import: this is its C part alone. None elsewhere."""
    try:
        import _ctypes

        place = _ctypes.dlsym(_ctypes.dlopen("libc.so.6", 0), "malloc_trim")
        return lambda: _ctypes.call_function(place, (0,))
    except (ImportError, OSError, AttributeError):
        return None


def is_users(file: str) -> bool:
    """Is it the user's code, and no library's?"""
    import re  # AWS's client has imported it

    return file.startswith(ROOT) and not re.match(FOREIGN, file[len(ROOT) :])


def marked(source: bytes, path: str) -> Any:
    """The code of a module in which each statement of its own first says its line."""
    tree: Any = compile(source, path, "exec", _ast.PyCF_ONLY_AST, dont_inherit=True)
    first = next(
        (
            number
            for number, each in enumerate(tree.body)
            if not (number == 0 and isinstance(each, _ast.Expr) and isinstance(each.value, _ast.Constant))
            and not (isinstance(each, _ast.ImportFrom) and each.module == "__future__")
        ),
        len(tree.body),
    )
    tree.body[first:] = _marked(tree.body[first:], path)
    return compile(tree, path, "exec", dont_inherit=True)


def _marked(body: list[Any], path: str) -> list[Any]:
    """These statements, each after the call that says its line; so are those in a block that imports."""
    made = []
    for each in body:
        for block in _blocks(each) if _imports(each) else ():
            block[:] = _marked(block, path)
        made += [_call(each, path), each]
    return made


def _blocks(statement: Any) -> list[list[Any]]:
    """The blocks of `if`, `try` and `with`."""
    if not isinstance(statement, (_ast.If, _ast.Try, _ast.With, _ast.ExceptHandler)):
        return []
    found = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
    return found + [block for each in getattr(statement, "handlers", []) for block in _blocks(each)]


def _imports(statement: Any) -> bool:
    return isinstance(statement, (_ast.Import, _ast.ImportFrom)) or any(
        _imports(each) for block in _blocks(statement) for each in block
    )


def _call(statement: Any, path: str) -> Any:
    """`__truemem_at__(kind, "PATH:LINE")`, at the place of this statement."""
    place = {
        "lineno": statement.lineno,
        "col_offset": 0,
        "end_lineno": statement.lineno,
        "end_col_offset": 0,
    }
    kind = "i" if isinstance(statement, (_ast.Import, _ast.ImportFrom)) else "@"
    words: list[Any] = [_ast.Constant(value, **place) for value in (kind, f"{path}:{statement.lineno}")]
    called = _ast.Call(_ast.Name(AT, _ast.Load(), **place), words, [], **place)
    return _ast.Expr(called, **place)


def install(log: Log) -> None:
    """Log each import that loads a module, and the user's statements; and who imports what, in the run for memory."""
    bootstrap: Any = sys.modules["_frozen_importlib"]
    loader: Any = sys.modules["_frozen_importlib_external"].SourceFileLoader
    load, plain, imported = bootstrap._find_and_load, loader.get_code, builtins.__import__

    def _find_and_load(name: str, import_: Any) -> Any:  # the name that is cut out of tracebacks
        if name in sys.modules:
            return load(name, import_)
        log.write("(", name)
        try:
            return load(name, import_)
        finally:
            log.write(")", file_of(name))

    def get_code(self: Any, name: str) -> Any:
        if is_users(self.path):
            try:
                return marked(self.get_data(self.path), self.path)
            except Exception:  # what is wrong with it the plain way tells
                pass
        return plain(self, name)

    def __import__(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        found = imported(name, globals, locals, fromlist, level)
        try:
            by, whole = str((globals or {}).get("__name__", "")), name
            if level:
                package = str(globals.get("__package__") or by)
                whole = ".".join(filter(None, (package.rsplit(".", level - 1)[0], name)))
            names = {whole, *(f"{whole}.{each}" for each in fromlist or ())} & sys.modules.keys()
            if get_ident() == THREAD and os.getpid() == PID:
                log.file.write("".join(f"<\t0\t0\t0\t{by}\t{each}\n" for each in names))
        except Exception:
            pass
        return found

    bootstrap._find_and_load, loader.get_code = _find_and_load, get_code
    setattr(builtins, AT, log.write)
    if STEP_KIB:
        builtins.__import__ = __import__


before = int(open("/proc/self/statm", "rb").read().split()[1]) * PAGE_KIB  # noqa: PTH123, SIM115
log = Log()
install(log)
os.environ["_HANDLER"] = HANDLER
module, _, name = HANDLER.rpartition(".")
if STEP_KIB:
    log.file.write(f"o\t0\t{log.rss() - before}\t0\t\n")
    log.settle()
log.write("S")
try:
    user = getattr(importlib.import_module(module.replace("/", ".")), name)
finally:
    log.end("E")
begun: list[None] = []


def handler(event: Any, context: Any) -> Any:
    if begun:
        return user(event, context)
    begun.append(None)
    log.write("F")
    try:
        return user(event, context)
    finally:
        log.end("L")
