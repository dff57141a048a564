"""What a function gets from truemem's layer: the sidecar, exact mode and the heap probe."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import truemem

from ...support import web_adapter
from ...support.bad_input import BadInput
from ...support.document import known_members
from .function import WRAPPER, Function
from .settings import extensions_of

SIDECAR = "truemem"  # name under which the sidecar registers
ALL_MEMBERS = {"TRUEMEM_RESOURCES": "always", "TRUEMEM_DETAIL": "always"}
"""Settings of a sidecar whose lines all say what it knows: a local run pays for no log."""


def sidecar() -> Path:
    """Path of the program that starts the sidecar from source: it is in the package, of a checkout or installed."""
    return Path(truemem.__file__).with_name("run")


def extensions_in(folder: Path | None) -> dict[str, Path]:
    """The extensions of a folder by name; none without a folder. Raises BadInput."""
    return {} if folder is None else {path.name: path for path in extensions_of(folder)}


def exact_program(attached: Path) -> Path | None:
    """Path of the `exact` program that belongs to this sidecar, in its layer or package. None if it is not there."""
    path = attached.resolve().parents[1] / SIDECAR / "exact"
    return path if path.is_file() and os.access(path, os.X_OK) else None


def in_exact_mode(
    function: Function, environment: Mapping[str, str], attached: Path
) -> tuple[Function, Mapping[str, str]] | None:
    """Prepare the function and its variables for exact mode. Returns None if `exact` is missing, or the user has set a
    wrapper.

    A managed runtime gets `AWS_LAMBDA_EXEC_WRAPPER`; a bootstrap is started through the program.
    """
    program = exact_program(attached)
    if program is None or WRAPPER in environment:
        return None
    if function.runtime is None:
        return function.behind(program), environment
    return function, {**environment, WRAPPER: str(program)}


WEB_ADAPTER = Path(__file__).parents[1] / "extensions" / web_adapter.NAME
"""What stands for AWS's Lambda Web Adapter."""


def behind_adapter(environment: Mapping[str, str], port: int, *, exact: bool) -> Mapping[str, str]:
    """The variables of a web server that listens on `port`; in exact mode the adapter asks the sidecar for events, at
    a port that is free here. Raises BadInput where the server's port is not."""
    try:
        free_port(port)
    except OSError as error:
        raise BadInput(f"port {port} of the web server: {error.strerror}, on this machine. Try another one") from None
    others = {name: value for name, value in environment.items() if name not in web_adapter.pointed(None)}
    pointed = web_adapter.pointed(str(free_port())) if exact else {}
    return {**others, f"{web_adapter.PREFIX}PORT": str(port), **known_members(pointed)}


def free_port(wanted: int = 0) -> int:
    """A port of 127.0.0.1 at which nothing listens. Raises OSError if that is not true of the wanted one."""
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        tried.bind(("127.0.0.1", wanted))
        port: int = tried.getsockname()[1]
        return port


WHEEL = Path(__file__).parents[2] / "demo" / "layer"
CHECKOUT = Path(__file__).parents[4] / "layer"
"""The layer's files as setup.py puts them into a wheel, and in a checkout."""
PERMISSIONS = re.compile(r"--(?:experimental-)?permission\b")
"""Node.js's permission model. With it version 20 does not start if it may not read a file that it is to require."""
GRANTS = re.compile(r'--allow-fs-(read|write)(?:=|\s+)"?([^\s"]+)')
LOADED_PROBE = re.compile(r"\bheap\.cjs\b")


SETTLE = "TRUEMEM_SETTLE"
"""Path of a file: the probe settles the process before the next reading each time that it has changed."""


def with_probe(function: Function, environment: Mapping[str, str], settle: Path | None = None) -> Function:
    """The function with a variable that loads the probe, beside what the user has set in `environment`. The function as
    it is if no probe can be loaded: another runtime, or the probe is not here.

    The variable is of the function's process alone. Extensions do not get it. `settle`: a file that asks the probe to
    settle the process when it changes; it need not be there.
    """
    made = _with_probe(function, environment)
    if settle is None or made is function:
        return made
    return replace(made, variables={**made.variables, SETTLE: str(settle)}, needs=(*made.needs, settle.parent))


def layer_folder() -> Path | None:
    """The folder of the layer's files, of an installed package or a checkout. None if they are not here."""
    return next((folder for folder in (WHEEL, CHECKOUT) if (folder / "truemem").is_dir()), None)


def may_probe(folder: str, options: str) -> bool:
    """May Node.js with these options read the probe in `folder`, an absolute path, and write below /tmp, where the
    probe writes? Its permission model takes folders with or without a slash at their end, and beginnings of paths with
    an asterisk (nodejs.org/api/permissions.html)."""
    if not PERMISSIONS.search(options):
        return True
    wanted = {"read": f"{folder}/", "write": "/tmp/"}
    granted = {
        kind for kind, values in GRANTS.findall(options) for each in values.split(",") if _has(each, wanted[kind])
    }
    return granted == {*wanted}


def _has(granted: str, folder: str) -> bool:
    return folder.startswith(granted[:-1] if granted.endswith("*") else f"{granted.rstrip('/')}/")


def _with_probe(function: Function, environment: Mapping[str, str]) -> Function:
    layer, environment = layer_folder(), function.with_own(environment)
    if layer is None:
        return function
    if function.language == "python":
        folder = layer / "truemem" / "python"
        value = ":".join(filter(None, (str(folder), environment.get("PYTHONPATH"))))
        probe = {folder / "sitecustomize.py", *folder.glob("*.py"), *(layer / "python").rglob("*.py")}
        return _loading(function, "PYTHONPATH", value, *sorted(probe))
    preload, options = layer.resolve() / "truemem" / "heap.cjs", environment.get("NODE_OPTIONS", "")
    may_load = may_probe(str(preload.parent), " ".join((options, *function.command)))
    if function.language != "nodejs" or not may_load or LOADED_PROBE.search(options):
        return function
    files = sorted(preload.parent.rglob("*.cjs"))  # it loads the others when it is asked
    return _loading(function, "NODE_OPTIONS", f'{options} --require "{preload}"'.strip(), *files)


def _loading(function: Function, variable: str, value: str, *files: Path) -> Function:
    # A path with these is read as two folders, or as the end of an option.
    if not all(path.is_file() and not set(':"\\') & set(str(path)) for path in files):
        return function
    return replace(function, variables={**function.variables, variable: value}, needs=(*function.needs, *files))
