"""The options that say what is run, and with which events: the same in each command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..support.bad_input import BadFunction, BadInput
from ..support.document import known_members
from ..support.options import CommandLine, Finite, Mebibytes, option_group
from ..support.platform_facts import AT_ONCE, LEAST_MANAGED_MIB, MOST_AT_ONCE, MOST_TIMEOUT_S
from ..support.terminal import Progress, notify
from .events import FILE, read_event, read_events

if TYPE_CHECKING:
    from .target import Target

SECONDS = Finite(min=0, min_open=True, max=MOST_TIMEOUT_S)
event_options = option_group(
    click.option(
        "--event",
        metavar="JSON|@FILE|-",
        help="The event of every invocation [default: {}]. For a web server also a path [default: /].",
    ),
    click.option("--events", type=FILE, help="JSON lines or a JSON array: these events in turn, over and over."),
)
cmd_option = click.option("--cmd", metavar="WORDS", help="Replaces the CMD of an image: app.handler.")
http_option = click.option(
    "--http",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    is_eager=True,
    help="The target is a web server's command; it listens on this port: --http 8080 -- uvicorn app:app",
)
environment_options = option_group(
    click.option("--timeout", "timeout_s", type=SECONDS, metavar="SECONDS", help="[default: the template's, or 30]"),
    click.option("--env", multiple=True, metavar="NAME=VALUE", help="Variable of the function; repeatable."),
    click.option("--python", metavar="PATH", help="The handler's interpreter [default: .venv's, or the active one]."),
    cmd_option,
)
managed_option = click.option(
    "--managed-instances",
    type=click.IntRange(1, MOST_AT_ONCE),
    metavar="N",
    help="Run the function as on Lambda Managed Instances, N requests at once [default: the template's].",
)
function_options = option_group(
    click.option(
        "--memory", "memory_mib", type=Mebibytes(), metavar="MiB", help="Memory size [default: the template's, or 512]."
    ),
    click.option(
        "--cpu",
        metavar="size|off|VCPUS",
        help="CPU limit: the memory size's share, none, or a number of vCPUs [default: off].",
    ),
    environment_options,
)


def variables(given: Sequence[str]) -> dict[str, str]:
    """Parse the values of `--env`. Raises BadInput."""
    for each in given:
        if "=" not in each:
            raise BadInput(f"--env {each} has no value. Try --env {each}=VALUE")
    return dict(each.split("=", 1) for each in given)


def read_payloads(event: str | None, events: Path | None, target: Target | None = None) -> list[object]:
    """The events that --event and --events name, for that target. Raises BadInput."""
    if event is not None and events is not None:
        raise BadInput("--event with --events: leave one out")
    if target is not None and target.http is not None and events is None and (event or "/").startswith("/"):
        from .web_app import get

        return [get(event or "/")]
    return read_events(events) if events else [read_event("{}" if event is None else event)]


def resolved(
    spec: str,
    *,
    python: str | None,
    timeout_s: float | None,
    env: tuple[str, ...],
    memory_mib: int | None = None,
    cpu: str | None = None,
    managed_instances: int | None = None,
    cmd: str | None = None,
    extensions: Path | None = None,
    progress: Progress = lambda *_: None,
    http: int | None = None,
    **beside: bool,
) -> Target:
    """The function that the options describe. `extensions`: a folder of them. `http`: its target is the command of a
    web server, which listens on this port. `beside`: what of the sidecar, the probe and exact mode is left out.
    `progress` is told how far an image is unpacked. Raises BadInput."""
    from ..local.configuration.function import located, with_project_python
    from ..local.configuration.layer import extensions_in
    from .resolve import resolve
    from .web_app import from_command

    if http is not None:
        if python is not None:
            raise BadInput("--python with --http: the command names its own program. Leave it out")
        found = from_command(spec, http)
    elif isinstance(spec, CommandLine):
        raise BadInput(f"{spec}: several words are a web server's command. Try truemem check --http PORT -- {spec}")
    else:
        if python is not None:
            located(python)
        try:
            found = resolve(spec, partial(with_project_python, asked=python), partial(notify, "truemem"), progress, cmd)
        except BadInput as problem:
            raise BadFunction(str(problem)) from problem
    if python is not None and found.function.image is not None:
        raise BadInput(f"--python {python}: {spec} has its own. Leave --python out")
    if managed_instances is not None and found.managed_instances is None and memory_mib is None:
        memory_mib = max(found.memory_mib, LEAST_MANAGED_MIB)
    given = {"timeout_s": timeout_s, "memory_mib": memory_mib, "cpu": cpu, "managed_instances": managed_instances}
    changes: dict[str, Any] = known_members({**given, **beside})
    own = variables(env)
    environment = {**found.environment, **own}
    said = [f"only a stack knows {name} of" for name in own] + ([] if managed_instances is None else [AT_ONCE])
    changes["notices"] = tuple(each for each in found.notices if not any(words in each for words in said))
    beside_it = {**found.extensions, **extensions_in(extensions)}
    made = replace(found, environment=environment, extensions=beside_it, **changes)
    if managed_instances is not None and made.http is not None:
        raise BadInput(f"{spec}: here a web server gets one request at a time. Leave --managed-instances out")
    return made if made.http is None else made.with_one_worker()
