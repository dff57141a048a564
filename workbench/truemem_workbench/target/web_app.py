"""A web server as the function, behind the Lambda Web Adapter."""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

from ..local import Function
from ..local.configuration.function import project_python
from ..support.bad_input import BadInput
from .target import Target, name_from

PORTS = ("PORT", "UVICORN_PORT", "FLASK_RUN_PORT")
"""Variables from which web servers take their port."""


def from_command(text: str, port: int) -> Target:
    """The web server that a command starts in this folder, and that listens on `port`. Raises BadInput."""
    words = shlex.split(text)
    if not words:
        raise BadInput("--http without a command. Try truemem check --http 8080 -- uvicorn app:app")
    function = started_by(words[0], words[1:], Path.cwd())
    ports = {name: str(port) for name in PORTS}
    function = replace(function, variables={**ports, **function.variables})
    return Target(
        spec=text, name=name_from(Path(words[0]).name), function=function, environment={"PORT": str(port)}, http=port
    )


def started_by(program: str, arguments: list[str], folder: Path) -> Function:
    """A function that is a program, found as a shell in the project of `folder` finds it. Raises BadInput."""
    python = project_python(folder)
    path = os.pathsep.join([*([str(python.parent)] if python else []), os.environ.get("PATH", os.defpath)])
    found = shutil.which(program, path=path)
    if found is None:
        raise BadInput(f"no program {program}. Try its path, or install it in the project's .venv")
    file = Path(found).absolute()  # not resolved: the link's own place says which environment it is
    return Function(
        command=(str(file), *arguments),
        task_root=folder.resolve(),
        handler=program,
        runtime=None,
        needs=(folder.resolve(), file),
        variables={"PATH": path},
    )


def get(target: str) -> object:
    """The event of an HTTP request (Function URL): GET of a path, with a query or without one. The same each time."""
    from ..local.apis.function_url import HttpRequest  # aiohttp

    request = HttpRequest(method="GET", target=target, headers=[("host", "localhost")], time_s=0)
    return request.event("00000000-0000-4000-8000-000000000000", "Root=1-00000000-000000000000000000000000")
