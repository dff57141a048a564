"""The function to run: a Python handler through AWS's own runtime client, or a `bootstrap` executable."""

from __future__ import annotations

import ast
import dataclasses
import difflib
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...support.bad_input import BadInput
from ...support.extras import need

OOM_HANDLER = "truemem_workbench.support.oom_handler.handler"
"""Handler of the scenario `out-of-memory`. Only the function's process imports it, and pays for its packages."""
WRAPPER = "AWS_LAMBDA_EXEC_WRAPPER"
"""Variable with the program through which Lambda starts a managed runtime."""


@dataclass(frozen=True)
class Function:
    """A function's code and its start command. Make one with `from_handler`, `from_bootstrap` or `from_spec`."""

    command: tuple[str, ...]
    """The command to execute, with absolute paths."""
    task_root: Path
    """Value of `LAMBDA_TASK_ROOT`, and the working directory."""
    handler: str
    """Value of `_HANDLER`. Extensions get it when they register."""
    runtime: str | None
    """`python3.11`, `nodejs20.x`, or None for a bootstrap executable."""
    needs: tuple[Path, ...]
    """Files that the user of the processes must be able to read."""
    python: Path | None = None
    """The interpreter of a handler in Python. None for any other function."""
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)
    """Variables that the function's process gets beside those of the settings, and no extension does."""

    def started_with(self, variables: Mapping[str, str]) -> list[str]:
        """The command to execute with these variables. A managed runtime is started through its wrapper."""
        if self.runtime is None or not variables.get(WRAPPER):
            return list(self.command)
        return ["/bin/sh", "-c", _THROUGH_WRAPPER, "bootstrap", *self.command]

    def behind(self, program: Path) -> Function:
        """A copy that starts this program with the command as its arguments."""
        return dataclasses.replace(self, command=(str(program), *self.command), needs=(*self.needs, program))

    def wrapped(self) -> Function:
        """A copy in which a shell starts the runtime and stays. The shell exits with 0 at SIGUSR1."""
        return dataclasses.replace(self, command=("/bin/sh", "-c", _EXITS_WHEN_TOLD, "sh", *self.command))

    def growing(self) -> Function | None:
        """A copy whose handler uses up all memory after the user's own handler is done. None unless it is in Python."""
        if self.python is None:
            return None
        code = Path(__file__).parents[2] / "support" / "oom_handler.py"
        return dataclasses.replace(self, command=(*self.command[:-1], OOM_HANDLER), needs=(*self.needs, code))

    @classmethod
    def from_spec(cls, spec: str) -> Function:
        """Make a Function from `app.py:handler` or the path of an executable. Raises BadInput."""
        if ":" in spec:
            return cls.from_handler(spec)
        if spec.endswith(".py") and Path(spec).is_file():
            module = _module(Path(spec), spec)
            raise BadInput(f"{spec} names no handler (found: {module.found}). Try {spec}:{module.guess()}")
        return cls.from_bootstrap(spec)

    @classmethod
    def from_handler(cls, spec: str) -> Function:
        """Make a Function from `path/app.py:handler`. It runs as `python -m awslambdaric app.handler` in the file's
        folder.

        The file is parsed, not imported: its code runs only in the function's process. Raises BadInput.
        """
        name, _, handler = spec.rpartition(":")
        path = Path(name)
        if not path.is_file():
            raise BadInput(f"no file {name or spec}. Try PATH/app.py:handler")
        if path.suffix != ".py" or "." in path.stem:
            raise BadInput(
                f"{path.name} cannot be imported as a Python module. Try a name like app.py, "
                "the path of an executable alone, or for Node.js PATH/index.mjs:handler with --runtime nodejs20.x"
            )
        module = _module(path, name)
        if not module.has(handler):
            guess = module.guess(handler)
            raise BadInput(f"no function `{handler}` in {name} (found: {module.found}). Try {name}:{guess}")
        need("local")
        client = importlib.util.find_spec("awslambdaric")
        assert client is not None
        assert client.origin is not None
        path = path.resolve()
        return cls(
            command=(sys.executable, "-m", "awslambdaric", f"{path.stem}.{handler}"),
            task_root=path.parent,
            handler=f"{path.stem}.{handler}",
            runtime=f"python{sys.version_info.major}.{sys.version_info.minor}",
            needs=(path.parent, path, Path(sys.executable), Path(client.origin)),
            python=Path(sys.executable),
        )

    @classmethod
    def from_bootstrap(cls, spec: str | Path) -> Function:
        """Make a Function from an executable that speaks the Runtime API, as in `provided.*`. Raises BadInput."""
        path = Path(spec)
        if not path.is_file():
            raise BadInput(f"no file {spec}. Try PATH/app.py:handler, or the path of a bootstrap executable")
        if not os.access(path, os.X_OK):
            raise BadInput(f"{spec} is not executable. Try chmod +x {spec}")
        path = path.resolve()
        return cls(
            command=(str(path),),
            task_root=path.parent,
            handler=path.name,
            runtime=None,
            needs=(path.parent, path),
        )


# The bootstrap of AWS's managed runtimes: a wrapper that cannot be started is an exit code, and init fails.
_THROUGH_WRAPPER = f"""
wrapper=${WRAPPER}
[ -f "$wrapper" ] || {{ echo "$wrapper: does not exist"; exit 127; }}
[ -x "$wrapper" ] || {{ echo "$wrapper: is not an executable"; exit 126; }}
exec "$wrapper" "$@"
"""

# A runtime that exits with 0 at SIGUSR1, whatever its child does.
_EXITS_WHEN_TOLD = 'trap "exit 0" USR1; "$@" & wait $!'


@dataclass(frozen=True)
class _Module:
    names: frozenset[str]
    offered: tuple[str, ...]
    """Names to suggest to the user: functions and assigned names, but no constants and no private names."""
    open: bool
    """True if the module may have other names as well (`from x import *`, `globals()[...] = ...`)."""

    def has(self, name: str) -> bool:
        return name in self.names or (self.open and name.isidentifier())

    @property
    def found(self) -> str:
        return ", ".join(self.offered) or "none"

    def guess(self, asked: str = "handler") -> str:
        likely = [name for name in self.offered if "handler" in name.lower()]
        close = difflib.get_close_matches(asked, self.offered, n=1)
        return next(iter([*likely, *close, *self.offered]), "handler")


def _module(path: Path, shown: str) -> _Module:
    try:
        tree = ast.parse(path.read_bytes(), filename=shown)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f" line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise BadInput(f"{shown}{line}: {error.args[0]}. Python cannot parse it: fix that first") from None
    except OSError as error:
        raise BadInput(f"cannot read {shown}: {error.strerror}. Try chmod +r {shown}") from None
    names = list(dict.fromkeys(_names(tree.body)))
    offered = tuple(n for n in names if not n.startswith("_") and n != n.upper() and n not in _imported(tree.body))
    return _Module(frozenset(names), offered, "*" in names or "globals" in names)


def _names(body: list[ast.stmt]) -> Iterator[str]:
    for statement in body:
        yield from _bound(statement)
        for field in ("body", "orelse", "finalbody"):
            if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield from _names(getattr(statement, field, []))
        for handler in getattr(statement, "handlers", []):
            yield from _names(handler.body)


def _bound(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in names)
        case ast.Assign(targets=targets):
            yield from (n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case _:
            # setattr(sys.modules[...]), globals().update(...): the names that these make are not known
            if any(isinstance(n, ast.Name) and n.id == "globals" for n in ast.walk(statement)):
                yield "globals"


def _imported(body: list[ast.stmt]) -> set[str]:
    imports = (s for s in body if isinstance(s, ast.Import | ast.ImportFrom))
    return {name for statement in imports for name in _bound(statement)}
