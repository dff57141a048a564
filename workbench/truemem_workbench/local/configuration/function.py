"""The function to run: a Python handler through AWS's own runtime client, or a `bootstrap` executable.

The interpreter of a handler is the one that has the handler's dependencies.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import symtable
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...support import client_start
from ...support.bad_input import BadInput
from ...support.conditions import Condition
from ...support.failed_answer import MISSING_MODULE
from ...support.own_modules import modules_above
from ...support.platform_facts import Language, language, runtimes, version
from ..images import image as images
from ..images.image import Image

OOM_HANDLER = "truemem_workbench.support.oom_handler.handler"
"""Handler of the scenario `out-of-memory`. Only the function's process imports it, and pays for its packages."""
WRAPPER = "AWS_LAMBDA_EXEC_WRAPPER"  # variable with the program through which Lambda starts a managed runtime

PYTHON_RUNTIMES = tuple(runtimes("python", (3, 10)))
"""The runtimes of Python that AWS's client here can run on."""
USUAL_PYTHON = "python3.13"
"""The runtime that a Python handler stands for if nothing says a version.

AWS's client goes by AWS_EXECUTION_ENV, not by its interpreter: from python3.12 on, where most functions are, it makes a
thread that asks for the next event.
"""
OUR_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"

STARTED = "truemem starts handlers in Python, Node.js and Java, and executables that speak the Runtime API"
OTHER_LANGUAGES: Mapping[str, Language] = {".rb": "ruby", ".dll": "dotnet", ".cs": "dotnet"}
"""By the ending of a file: languages whose runtime client a bootstrap has to start."""


def bootstrap_line(of: Language | None, handler: str) -> str:
    """The line of a bootstrap that starts AWS's runtime client for this language."""
    clients = {
        "ruby": f"exec aws_lambda_ric {handler}",
        "dotnet": "exec dotnet ASSEMBLY.dll",
    }
    return clients.get(of or "", "exec ./PROGRAM")


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
    """The runtime that AWS_EXECUTION_ENV names: `python3.13`, `nodejs24.x`, `java21`. None for a bootstrap executable.
    In Python the interpreter may be of another version, see `runs_on`."""
    needs: tuple[Path, ...]
    """Files that the user of the processes must be able to read."""
    python: Path | None = None
    """The interpreter of a handler in Python. None for any other function."""
    python_version: str = ""
    """The version of that interpreter, such as `3.11`."""
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)
    """Variables that the function's process gets beside those of the settings, and no extension does."""
    image: Image | None = dataclasses.field(default=None, hash=False)
    """The root in which it runs. `command` and `handler` are the image's; `task_root` is on this machine, and `needs`
    are what it has of this machine, at the same places."""
    unparsed: str = ""
    """Why our own Python cannot parse the code. A newer one may know its syntax."""
    build: str = ""
    """What is typed after an edit, such as `go build -o bootstrap .`. Empty if the code runs as it is."""

    @property
    def runs_on(self) -> str | None:
        """What really runs the code, such as `python3.11`. None for a bootstrap executable."""
        return f"python{self.python_version}" if self.python_version else self.runtime

    @property
    def language(self) -> images.Language:
        """What its code is written in, where a tracer knows what is started. Empty for any other."""
        if self.image is not None:
            return self.image.language
        by_runtime: Mapping[str, images.Language] = {"python": "python", "nodejs": "nodejs", "java": "java"}
        return by_runtime.get(language(self.runtime or "") or "", "")

    def with_own(self, variables: Mapping[str, str]) -> Mapping[str, str]:
        """These variables, and beside them those that its image sets."""
        return variables if self.image is None else {**self.image.variables, **variables}

    def placed(self, told: Any) -> Any:
        """What its process has told, with the paths of an image's files as they are on this machine (Image.placed)."""
        return told if self.image is None else self.image.placed(told)

    def once_built(self, command: object) -> str:
        """The command as it is typed after an edit."""
        return f"{self.build} && {command}" if self.build else str(command)

    @property
    def program(self) -> Path:
        """The file that is started, on this machine."""
        return Path(self.command[-1]) if self.image is None else self.image.program

    def standing_for(self, runtime: str) -> Function:
        """A copy that AWS's client takes for a function of this runtime. Its interpreter stays."""
        return dataclasses.replace(self, runtime=runtime)

    def started_with(self, variables: Mapping[str, str]) -> list[str]:
        """The command to execute with these variables. A managed runtime is started through its wrapper."""
        if self.runtime is None or not variables.get(WRAPPER):
            return list(self.command)
        return ["/bin/sh", "-c", _THROUGH_WRAPPER, "bootstrap", *self.command]

    def behind(self, program: Path) -> Function:
        """A copy that starts this program with the command as its arguments."""
        if self.image is not None:
            return dataclasses.replace(self, image=dataclasses.replace(self.image, exact=program))
        return dataclasses.replace(self, command=(str(program), *self.command), needs=(*self.needs, program))

    def wrapped(self) -> Function:
        """A copy in which a shell starts the runtime and stays. The shell exits with 0 at SIGUSR1."""
        return dataclasses.replace(self, command=("/bin/sh", "-c", _EXITS_AT_SIGNAL, "sh", *self.command))

    def growing(self) -> Function | None:
        """A copy whose handler uses up all memory after the user's own handler is done. None unless it is in Python."""
        if self.python is None:
            return None
        code = Path(__file__).parents[2] / "support" / "oom_handler.py"
        return dataclasses.replace(self, command=(*self.command[:-1], OOM_HANDLER), needs=(*self.needs, code))

    @classmethod
    def from_image(cls, image: Image) -> Function:
        """Make a Function of an image. Its handler is the last word of its command, as AWS's emulator has it. Raises
        BadInput if it cannot be started."""
        image = image.checked()
        return cls(
            command=image.command,
            task_root=image.outside(image.task_root),
            handler=image.command[-1] if len(image.command) > 1 else "",
            runtime=None,
            needs=(),
            image=image,
        )

    @classmethod
    def from_spec(cls, spec: str) -> Function:
        """Make a Function from `app.py:handler` or the path of an executable. Raises BadInput."""
        if ":" in spec:
            return cls.from_handler(spec)
        if spec.endswith(".py") and Path(spec).is_file():
            module = _module(Path(spec), spec)
            said = f"{spec} names no handler (found: {module.found}). Try"
            if os.access(spec, os.X_OK):
                raise BadInput(f"{said} {spec}:HANDLER; or, if it is a program, a copy of it without .py in its name")
            raise BadInput(f"{said} {spec}:{module.guess()}")
        return cls.from_bootstrap(spec)

    @classmethod
    def from_handler(cls, spec: str) -> Function:
        """Make a Function from `path/app.py:handler`. It runs as `python -m awslambdaric app.handler` in the file's
        folder, for USUAL_PYTHON.

        The file is parsed, not imported: its code runs only in the function's process. Raises BadInput. What our own
        Python cannot parse is `unparsed`: run it by `with_project_python`, or call `checked`.
        """
        file, _, asked = spec.partition(":")
        if of := OTHER_LANGUAGES.get(Path(file).suffix):
            start = bootstrap_line(of, f"{Path(file).stem}.{asked}" if of == "ruby" else asked)
            raise BadInput(f"{file}: {STARTED}. Write a bootstrap, such as `{start}`, and try PATH/bootstrap")
        name, _, handler = spec.rpartition(":")
        path = Path(name)
        if not path.is_file():
            raise BadInput(f"no file {name or spec}. Try PATH/app.py:handler")
        if path.suffix != ".py" or "." in path.stem:
            raise BadInput(
                f"{path.name} cannot be imported as a Python module. Try a name like app.py, "
                "the path of an executable alone, or for Node.js PATH/index.mjs:handler"
            )
        unparsed = ""
        try:
            module = _module(path, name)
        except _Unparsed as error:
            unparsed = str(error)
        else:
            if not module.has(handler):
                guess = module.guess(handler)
                raise BadInput(f"no function `{handler}` in {name} (found: {module.found}). Try {name}:{guess}")
        client = importlib.util.find_spec("awslambdaric")
        assert client is not None
        assert client.origin is not None
        path = path.resolve()
        return cls(
            command=(sys.executable, "-m", "awslambdaric", f"{path.stem}.{handler}"),
            task_root=path.parent,
            handler=f"{path.stem}.{handler}",
            runtime=USUAL_PYTHON,
            needs=(path.parent, path, Path(sys.executable), Path(client.origin)),
            python=Path(sys.executable),
            python_version=OUR_VERSION,
            unparsed=unparsed,
        )

    def checked(self) -> Function:
        """Itself. Raises BadInput for code that its Python cannot parse, as far as ours can tell: it is as new."""
        if self.unparsed and version(self.python_version) <= sys.version_info[:2]:
            raise BadInput(self.unparsed)
        return self

    @classmethod
    def from_bootstrap(cls, spec: str | Path) -> Function:
        """Make a Function from an executable that speaks the Runtime API, as in `provided.*`. Raises BadInput."""
        path = Path(spec)
        if path.is_dir():
            raise BadInput(f"{spec} is a folder. Try {path / 'app.py'}:handler")
        if path.is_file() and path.suffix in (".js", ".mjs", ".cjs"):
            raise BadInput(f"{spec} names no handler. Try {spec}:handler")
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
_EXITS_AT_SIGNAL = 'trap "exit 0" USR1; "$@" & wait $!'


class _Unparsed(BadInput):
    """The file has syntax that our own Python does not know, or that is no Python."""


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
        text = path.read_bytes()
        symbols = symtable.symtable(text, shown, "exec").get_symbols()  # type: ignore[arg-type]  # bytes have an encoding
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f" line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise _Unparsed(
            f"{shown}{line}: {error.args[0]}. Python {OUR_VERSION} cannot parse it: fix that, or try --python with a"
            " newer one"
        ) from None
    except OSError as error:
        raise BadInput(f"cannot read {shown}: {error.strerror}. Try chmod +r {shown}") from None
    bound = [each for each in symbols if each.is_assigned() or each.is_imported()]
    own = [each.get_name() for each in bound if not each.is_imported()]
    offered = tuple(name for name in own if not name.startswith("_") and name != name.upper())
    # globals().update(...), from x import *: the names that these make are not known
    is_open = "globals" in {each.get_name() for each in symbols} or bool(_STAR.search(text))
    return _Module(frozenset(each.get_name() for each in bound), offered, is_open)


_STAR = re.compile(rb"^\s*from\s.*\simport\s*\*", re.MULTILINE)
CLIENT_START = Path(client_start.__file__)
TRIAL_S = 60  # longest wait in seconds for the interpreter to load the runtime client


def with_project_python(function: Function, asked: str | None = None) -> tuple[Function, tuple[str, ...]]:
    """The function as its project's interpreter runs it, and notices for the user. Raises BadInput.

    That interpreter is `asked` (a path, a command, or the folder of a virtual environment), else that of `.venv` in the
    handler's folder or above it, else that of the environment that is active (VIRTUAL_ENV), else our own. The function
    stands for the runtime of an interpreter that was asked for, or is not ours.
    """
    if function.python is None:
        if asked is not None:
            raise BadInput(f"--python {asked}: {function.handler} is no Python handler. Leave --python out")
        return function, ()
    python = located(asked) if asked is not None else project_python(function.task_root)
    if python is None or _is_ours(python):
        ours = function.checked()
        return (ours if asked is None else ours.standing_for(f"python{OUR_VERSION}")), ()
    chosen, notices = _run_by(python, function)
    return chosen.checked(), notices


def missing_module(text: str, function: Function) -> str | None:
    """Say which interpreter lacks which module, and what to type, if this error message is about that, and not about a
    module of the project itself."""
    found, python = MISSING_MODULE.search(text), function.python
    name = found[1].partition(".")[0] if found else ""
    if found is None or python is None or name in modules_above(function.task_root):
        return None
    return f"{python} has no module {found[1]!r}. Try {python} -m pip install {name}"


def located(asked: str) -> Path:
    """The interpreter that --python names: a path, a command, or the folder of a virtual environment. Raises
    BadInput."""
    path = Path(asked)
    if os.path.isdir(path):  # noqa: PTH112  # unlike pathlib's, it is false where there is no permission to look
        path /= "bin/python"
    elif os.sep not in asked and not path.exists():
        path = Path(shutil.which(asked) or asked)
    if not _is_there(path):
        raise BadInput(f"no interpreter {path}. Try --python PATH/bin/python, or the folder of a virtual environment")
    return path.absolute()  # not resolved: the link's own place says which environment it is


def project_python(folder: Path) -> Path | None:
    """The interpreter of the project that a folder is of: of `.venv` there or above it, else of VIRTUAL_ENV."""
    trusted = {0, os.geteuid(), folder.stat().st_uid}  # another user's /tmp/.venv must not run
    places = [each / ".venv" for each in (folder, *folder.parents)]
    found = [place for place in places if os.path.isdir(place) and place.lstat().st_uid in trusted]  # noqa: PTH112
    if active := os.environ.get("VIRTUAL_ENV"):
        found.append(Path(active))
    pythons = (place.absolute() / "bin/python" for place in found)
    return next(filter(_is_there, pythons), None)


def _is_there(path: Path) -> bool:
    """True if the file exists, and also if there is no permission to look: running it will say that."""
    try:
        return path.exists()
    except PermissionError:
        return True


def _is_ours(python: Path) -> bool:
    own = Path(sys.executable)
    return python.parent.resolve() == own.parent.resolve() and python.resolve() == own.resolve()


def _run_by(python: Path, function: Function) -> tuple[Function, tuple[str, ...]]:
    folders = os.pathsep.join(dict.fromkeys(map(_folder_of, sorted(client_start.CLIENT_MODULES))))
    facts = _tried(python, folders)
    python, release = Path(facts["python"]), facts["version"]
    said = f"the handler runs with {python} (Python {release}), not with truemem's own. --python chooses another"
    notices = [Condition(said, f"Python {release} of {python}")]
    if facts["standIn"]:
        said = (
            f"AWS's runtime client here is for Python {OUR_VERSION}; for {release} a part of it is replaced, and the"
            f" function holds some MiB more. Try {python} -m pip install awslambdaric"
        )
        notices.append(Condition(said, "some MiB more, as a part of AWS's client is replaced"))
    chosen = dataclasses.replace(
        function,
        command=(str(python), str(CLIENT_START), folders, function.command[-1]),
        runtime=f"python{release}",
        needs=(*function.needs, python, *map(Path, facts["needs"]), CLIENT_START),
        python=python,
        python_version=release,
    )
    return chosen, tuple(notices)


def _folder_of(name: str) -> str:
    """The folder in which our own environment has this module."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise BadInput(f"{name} is not installed for {sys.executable}. Try pip install awslambdaric")
    path = Path(spec.origin).parent
    return str(path.parent if spec.submodule_search_locations else path)


def _tried(python: Path, folders: str) -> dict[str, Any]:
    """Load the runtime client with this interpreter. Returns the facts that `client_start` prints."""
    # as the function will run: without the variables that change what this process of ours imports
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [str(python), str(CLIENT_START), folders]
    try:
        done = subprocess.run(
            command, env=variables, capture_output=True, text=True, errors="replace", timeout=TRIAL_S, check=False
        )
        facts = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 and done.stdout else None
    except PermissionError:
        raise BadInput(
            f"no permission to run {python}. Try chmod o+rx on it and its folders, or --python PATH"
        ) from None
    except (OSError, ValueError) as error:
        raise BadInput(f"{python} is no Python interpreter ({error}). Try --python PATH/bin/python") from None
    except subprocess.TimeoutExpired:
        raise BadInput(f"{python} did not start in {TRIAL_S} s. Try --python PATH") from None
    if not isinstance(facts, dict) or "python" not in facts:
        said = (done.stderr.splitlines() or ["it said nothing"])[-1]
        raise BadInput(
            f"{python} cannot load AWS's runtime client ({said}). Try --python with Python 3.10 or newer, or"
            f" {python} -m pip install awslambdaric"
        )
    return facts
