"""`truemem local run`: its options, and the function and settings that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .. import page
from ..judge.finding import commands_local
from ..local.configuration.function import PYTHON_RUNTIMES, USUAL_PYTHON, Function, with_project_python
from ..local.configuration.java_function import from_java_handler, is_java
from ..local.configuration.layer import SIDECAR, extensions_in
from ..local.configuration.node_function import RUNTIMES, SUFFIXES, from_node_handler
from ..local.scenarios import BYSTANDER, SCENARIOS
from ..support.bad_input import BadInput, need_linux
from ..support.document import known_members
from ..support.options import Mebibytes, check_outputs, output_option, typed
from ..support.platform_facts import LEAST_MIB, MOST_MANAGED_MIB, MOST_MANAGED_TIMEOUT_S, MOST_MIB, MOST_TIMEOUT_S
from ..support.terminal import notify, steps
from ..support.typed_command import Command
from ..target import images, sources
from ..target.options import cmd_option, read_payloads, resolved, variables
from ..target.resolve import is_in_template, resolve
from ..target.target import Target, name_from
from .lazy_group import Lazy, LazyGroup

if TYPE_CHECKING:  # aiohttp is for the run itself, not for every `truemem local run --help`
    from ..local.scaling import EnvironmentChange, Scaling
    from ..runs.here import Run
    from .local_console import Console

COMMANDS = {"run": Lazy("local_run:run", "Run a function, as Lambda does.")}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def local() -> None:
    """A Lambda on this machine, with memory: limit, high-water mark, freeze, late reports."""


DRAWS = {".png": page.draw, ".html": page.write}
"""What draws a file with this ending."""
ENDINGS = tuple(DRAWS)
LONGEST_GAP_S = 86_400
IDLE_S = 300.0
"""When an idle environment ends, with --environments. Lambda documents no time."""
SAME_IN_CHECK = (
    "--event", "--memory", "--cpu", "--timeout", "--env", "--python", "--cmd", "--no-exact", "--extensions",
)  # fmt: skip
"""Options that `truemem check` has as well."""


EPILOG = """
\b
Examples:
  truemem local run app.py:handler
  truemem local run app.py:handler --event '{{"n": 1}}' --invocations 20
  truemem local run ./bootstrap --event @event.json --memory 256
  truemem local run template.yaml:LOGICAL_ID --event @event.json
  truemem local run app.py:handler --environments 10 --reserved-concurrency 5

\b
Scenarios (--scenario):
{scenarios}
\b
Exit codes:
  0  every invocation succeeded, Ctrl-C ended the serving, or the scenario went as described
  1  an invocation failed (a function error, a timeout, out of memory), or the scenario did not go as described
  2  the input cannot be used; one line says what to type instead
  130, 143  Ctrl-C or SIGTERM while --event runs: what is known so far is printed
""".format(scenarios="\n".join(f"  {name:23} {each.description}" for name, each in SCENARIOS.items()))


def _on_linux(_: click.Context, __: click.Parameter, function: str) -> str:
    """The function. Raises BadInput elsewhere, before anything is imported that only Linux has."""
    need_linux("the local Lambda")
    return function


@click.command(epilog=EPILOG)
@click.argument(
    "function",
    metavar="FILE.py:HANDLER|FILE.mjs:HANDLER|FILE.jar:CLASS|EXECUTABLE|IMAGE.tar|template.yaml:ID",
    callback=_on_linux,
)
@click.option(
    "--memory",
    "memory_mib",
    type=Mebibytes(),
    metavar="MiB",
    help=f"Memory size, {LEAST_MIB} to {MOST_MIB}; on Managed Instances to {MOST_MANAGED_MIB} [default: the "
    "template's, or 512].",
)
@click.option(
    "--cpu",
    default="size",
    show_default=True,
    metavar="size|off|VCPUS",
    help="CPU limit: the memory size's share (MiB/1769 vCPU), none, or a number of vCPUs; init on demand has none.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=float,
    metavar="SECONDS",
    help=f"Timeout, up to {MOST_TIMEOUT_S}; on Managed Instances to {MOST_MANAGED_TIMEOUT_S} [default: the template's, "
    "or 30].",
)
@click.option("--name", help="The function's name [default: its folder's, or the template's].")
@click.option("--extensions", type=click.Path(path_type=Path), metavar="FOLDER", help="Start all files in FOLDER.")
@click.option("--no-sidecar", is_flag=True, help="Do not attach truemem's own sidecar.")
@click.option("--no-exact", is_flag=True, help="Measure in the default mode, without AWS_LAMBDA_EXEC_WRAPPER.")
@click.option("--no-probe", is_flag=True, help="Do not load the heap probe into a function in Python or Node.js.")
@click.option("--lines", is_flag=True, help="Ask the probe which lines of code keep what grows (TRUEMEM_LINES=on).")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="Variable of function and extensions; repeatable.")
@click.option(
    "--python",
    metavar="PATH",
    help="Interpreter of the handler, or a virtual environment "
    "[default: .venv beside or above FILE.py, the active one, or truemem's own].",
)
@cmd_option
@click.option(
    "--runtime",
    type=click.Choice([*PYTHON_RUNTIMES, *RUNTIMES]),
    metavar="pythonX.Y|nodejsX.x",
    help="What AWS_EXECUTION_ENV names. Python: the interpreter is --python's [default: that one's, or "
    f"{USUAL_PYTHON}]. Node.js: that of the node on the PATH, which is the default.",
)
@click.option("--port", default=0, show_default=True, help="Port of the Invoke API; 0 takes a free one.")
@click.option("--event", metavar="JSON|@FILE|-", help="Invoke with this event, print what happens, and exit.")
@click.option("--invocations", type=int, metavar="N", help="Number of invocations with --event [default: 1].")
@click.option(
    "--release",
    default="aws",
    show_default=True,
    metavar="aws|together|runtime:US|extension:US",
    help="Which side gets an invocation first, and by how many microseconds.",
)
@click.option(
    "--managed-instances",
    type=int,
    metavar="N",
    help="Run as on Lambda Managed Instances, N requests at once [default: the template's].",
)
@click.option(
    "--environments",
    type=int,
    metavar="N",
    help="Scale out to N environments. A request above N is throttled (429); with --event it waits.",
)
@click.option(
    "--reserved-concurrency",
    type=int,
    metavar="N",
    help="Throttle above N requests at once, as the function's setting does [default: --environments].",
)
@click.option("--tenant", "tenant_id", metavar="ID", help="Invoke --event for this tenant (tenant isolation mode).")
@click.option(
    "--provisioned-concurrency", is_flag=True, help="Init at the start, then a freeze until the first invocation."
)
@click.option("--snap-start", is_flag=True, help="Init, a snapshot, and a restore at the first invocation.")
@click.option(
    "--scenario",
    type=click.Choice(list(SCENARIOS)),
    metavar="NAME",
    help="Play a scenario with --event [default: {}], and exit. The names are below.",
)
@click.option("--gap", "gap_s", default=5.0, show_default=True, metavar="SECONDS", help="Length of the freeze.")
@click.option("--user", type=click.Choice(["auto", "current"]), default="auto", show_default=True,
              help="Who runs the processes: auto is an ordinary user if you are root, current is you.")  # fmt: skip
@output_option(*ENDINGS)
@click.option(
    "--responses",
    type=click.Choice(["few", "all"]),
    default="few",
    show_default=True,
    help="With --event, print the first and the last responses, or all.",
)
@click.option("--raw", is_flag=True, help="With --event, print all lines and no summary.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def run(
    function: str,
    name: str | None,
    extensions: Path | None,
    no_sidecar: bool,
    no_exact: bool,
    no_probe: bool,
    lines: bool,
    env: tuple[str, ...],
    python: str | None,
    cmd: str | None,
    runtime: str | None,
    event: str | None,
    invocations: int | None,
    outputs: tuple[Path, ...],
    raw: bool,
    as_json: bool,
    environments: int | None,
    reserved_concurrency: int | None,
    tenant_id: str | None,
    provisioned_concurrency: bool,
    snap_start: bool,
    scenario: str | None,
    gap_s: float,
    responses: str,
    **settings: Any,
) -> int:
    """Run a function: a handler in Python, Node.js or Java through a runtime client, or a bootstrap executable.

    With --event it ends with a summary: the last invocations, whether memory grows, and which memory size is enough.
    Without --event it serves Lambda's Invoke API until Ctrl-C: boto3, the aws command and curl can call it.
    """
    from ..runs.here import Run
    from . import local_console

    settings["initialization"] = _initialization(provisioned_concurrency, snap_start)
    in_template = is_in_template(function)
    if in_template:
        target = _of_template(function, python, runtime, cmd, env, extensions, settings)
    else:
        made, notices = _function(function, python, runtime, cmd)
        inside = {} if made.image is None else images.beside(made.image, but=(SIDECAR,))
        target = Target(
            spec=function,
            name=images.name_of(function) if made.image else name_from(made.task_root.name),
            function=made,
            environment=variables(env),
            extensions={**inside, **extensions_in(extensions)},
            notices=notices,
        )
    own, played, others = target.function, target.function, dict(target.extensions)
    if scenario is not None:
        _check_scenario()
        settings |= {key: value for key, value in SCENARIOS[scenario].settings.items() if not _given(key)}
        others |= {BYSTANDER.name: BYSTANDER} if SCENARIOS[scenario].extensions else {}
        played = SCENARIOS[scenario].function(own)
    if lines:
        _check_lines()
    if in_template and settings["managed_instances"] is not None and (lines or scenario is not None):
        raise BadInput(f"{function} runs on Managed Instances: --lines and --scenario are on demand. Leave them out")
    target = replace(
        target,
        name=name or target.name,
        function=played,
        exact=(own.runtime is not None or target.http is not None) and not no_exact,  # a bootstrap starts what it likes
        extensions=others,
        sidecar=not no_sidecar,
        probe=not no_probe,
        names_lines=lines,
        **known_members({each: settings.pop(each) for each in ("memory_mib", "cpu", "timeout_s")}),
    )
    if not 0 <= gap_s <= LONGEST_GAP_S:
        raise BadInput(f"gap of {gap_s:g} s: from 0 to {LONGEST_GAP_S} (a day). Try --gap 5")
    if raw and as_json:
        raise BadInput("--raw with --json: JSON has all lines anyway. Leave one out")
    finite = event is not None and scenario is None
    _check_outputs(outputs, finite=finite, measured=SIDECAR in others or target.sidecar)
    parsed = _payload(event, target) if event is not None or scenario is not None else None
    times = _times(invocations, with_event=event is not None)
    scaling = _scaling(environments, reserved_concurrency, with_event=event is not None)
    console = local_console.Console(
        as_json=as_json,
        quiet=finite and not raw,
        function=own,
        scaled=scaling is not None,
        few=local_console.Few() if finite and not raw and responses == "few" else None,
    )

    def changed(change: EnvironmentChange) -> None:
        """With scaling an environment comes later, and with it what this machine does not permit."""
        if change.kind == "initialised":
            with suppress(OSError):
                console.notices(here.local)

    watched = changed if scaling else None
    here = Run(
        target,
        on_log=console.log,
        scaling=scaling,
        on_environment=watched,
        members={},
        trims=False,
        settles=finite,
        **settings,
    )
    here.settings.check_tenant(tenant_id)
    for notice in target.notices:
        console.notice(notice)
    if scenario is not None:
        grows = played is not own
        code = local_console.play(scenario, here, parsed, tenant_id, gap_s=gap_s, grows=grows, console=console)
    elif times is None:
        code = local_console.serve(here, console)
    else:
        finished = partial(_finish, here, target, outputs, None if raw else console, scaled=scaling is not None)
        code = local_console.invoke(here, parsed, times, tenant_id, console=console, finished=finished)
    console.check()
    return code


def _finish(
    here: Run,
    target: Target,
    outputs: Sequence[Path],
    console: Console | None,
    early: str,
    is_cut: bool,
    *,
    scaled: bool,
) -> None:
    """Draw what was measured, and say it at the console, if there is one. Raises BadInput for a file."""
    from ..judge.curves import CLASSES
    from .local_summary import summarise

    if console is None and early:
        notify("truemem local run", early)
    written: Sequence[Path] = ()
    try:
        _write_outputs(outputs, here.printed)
        written = outputs
    finally:  # what was measured is printed also if a file cannot be written
        if console is not None:
            made = commands_local(
                in_check(click.get_current_context()),
                is_probed=target.probe,
                can_explain=target.is_explicable or any(CLASSES in each.kept for each in here.settler.readings),
                function=target.function,
                shows_log=False,
                is_web=target.http is not None,
            )
            commands = replace(made, longer="")  # a check makes as many as it needs
            summary = summarise(
                here.local.reports,
                here.answers,
                here.printed,
                commands,
                measured=SIDECAR in here.settings.extensions,
                scaled=scaled,
                settled=here.settler.readings,
                early=early,
                is_cut=is_cut,
            )
            console.summary(summary, written)


def _initialization(provisioned_concurrency: bool, snap_start: bool) -> str:
    if provisioned_concurrency and snap_start:
        raise BadInput("--provisioned-concurrency with --snap-start: Lambda has either. Leave one out")
    return "provisioned-concurrency" if provisioned_concurrency else "snap-start" if snap_start else "on-demand"


def in_check(context: click.Context) -> Command:
    """The same as a command of `check`, which runs on demand: without what only Managed Instances have."""
    beyond = {
        "--timeout": (context.params["timeout_s"] or 0) > MOST_TIMEOUT_S,
        "--memory": (context.params["memory_mib"] or 0) > MOST_MIB,
    }
    return typed(context, "check", [option for option in SAME_IN_CHECK if not beyond.get(option)])


def _of_template(
    spec: str,
    python: str | None,
    runtime: str | None,
    cmd: str | None,
    env: tuple[str, ...],
    extensions: Path | None,
    settings: dict[str, Any],
) -> Target:
    """The function of a template, as `check` has it. How many requests it gets at once is set in `settings`: here they
    come by the Invoke API, and not in rounds. Raises BadInput."""
    if runtime is not None:
        raise BadInput(f"--runtime {runtime}: the template says that of {spec}. Leave --runtime out")
    sizes = {each: settings[each] for each in ("memory_mib", "cpu", "timeout_s", "managed_instances")}
    with steps() as progress:
        made = resolved(spec, python=python, cmd=cmd, env=env, extensions=extensions, progress=progress, **sizes)
    settings |= {each: getattr(made, each) for each in sizes}
    return replace(made, managed_instances=None)


def _function(spec: str, python: str | None, runtime: str | None, cmd: str | None) -> tuple[Function, tuple[str, ...]]:
    """The function with its interpreter, and notices. Raises BadInput."""
    if images.found(spec) is not None or cmd is not None:
        if python is not None or runtime is not None:
            raise BadInput("--python and --runtime are for a handler: an image has its own. Leave them out")
        with steps() as progress:
            return resolve(spec, progress=progress, cmd=cmd).function, ()
    if python is None and runtime is None and sources.built(spec) is not None:
        made = resolve(spec, notify=partial(notify, "truemem local run"))
        return made.function, made.notices
    if is_java(spec):
        if python is not None or runtime is not None:
            raise BadInput(f"{spec} runs with the Java that is here. Leave --python and --runtime out")
        return from_java_handler(spec, partial(notify, "truemem local run"))
    is_script = Path(spec.rpartition(":")[0]).suffix in SUFFIXES
    if runtime is None and not is_script:
        return with_project_python(Function.from_spec(spec), python)
    if runtime in PYTHON_RUNTIMES:
        function = None if is_script else Function.from_spec(spec)
        if function is None or function.python is None:
            raise BadInput(f"--runtime {runtime}: {spec} is no Python handler. Leave --runtime out")
        function, notices = with_project_python(function, python)
        return function.standing_for(runtime), notices
    if python is not None:
        raise BadInput(f"--python {python}: {spec} is to run in Node.js. Leave --python out")
    return from_node_handler(spec, runtime, lambda text: notify("truemem local run", text)), ()


def _payload(event: str | None, target: Target) -> object:
    """The event, for a web server also a path: an image's own adapter asks it here. Raises BadInput."""
    image = target.function.image
    asked = target if image is None else replace(target, http=images.web_port(image, target.environment))
    return read_payloads(event, None, asked)[0]


def _check_lines() -> None:
    for name in ("no_probe", "no_sidecar", "managed_instances"):
        if _given(name):
            raise BadInput(f"--lines with --{name.replace('_', '-')}: nothing could name them. Leave one out")


def _check_scenario() -> None:
    for name in ("invocations", "managed_instances", "environments", "reserved_concurrency"):
        if _given(name):
            option = name.replace("_", "-")
            raise BadInput(f"--scenario with --{option}: a scenario makes its own invocations. Leave one out")


def _given(name: str) -> bool:
    """True if the user has set this option."""
    return click.get_current_context().get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def _times(invocations: int | None, *, with_event: bool) -> int | None:
    if invocations is not None and not with_event:
        raise BadInput(f"--invocations {invocations} without an event. Try --event '{{}}' --invocations {invocations}")
    if invocations is not None and invocations < 1:
        raise BadInput(f"--invocations {invocations}: nothing to do. Try --invocations 1")
    return (invocations or 1) if with_event else None


def _scaling(environments: int | None, reserved: int | None, *, with_event: bool) -> Scaling | None:
    """None for one environment, in which requests wait. Raises BadInput."""
    from ..local.scaling import Scaling

    if environments is None and reserved is None:
        return None
    if with_event and reserved == 0:
        raise BadInput("--reserved-concurrency 0 with --event: all would be throttled. Try --reserved-concurrency 1")
    return Scaling(
        environments=max(1, reserved or 1) if environments is None else environments,
        reserved_concurrency=reserved,
        idle_s=IDLE_S,
    )


def _check_outputs(paths: Sequence[Path], *, finite: bool, measured: bool) -> None:
    """Raise BadInput for a file that cannot be written, or whose ending says nothing.

    A run is `finite` with an event, and `measured` with the sidecar. Without these there is nothing to draw.
    """
    if paths and not finite:
        raise BadInput(f"--output {paths[0]} draws the invocations of an event. Try --event '{{}}' without --scenario")
    if paths and not measured:
        raise BadInput(f"--output {paths[0]}: without the sidecar nothing is measured. Leave --no-sidecar out")
    check_outputs(paths, *ENDINGS)


def _write_outputs(paths: Sequence[Path], printed: Sequence[str]) -> None:
    """Draw the sidecar's lines into each of these files. Raises BadInput."""
    if not paths:
        return
    from ..printed.line import parse_event

    environments = page.gather(line for text in printed for line in parse_event(text))
    if not environments:
        raise BadInput(f"{paths[0]} was not written: the sidecar printed no record. The summary says why")
    for path in paths:
        try:
            DRAWS[path.suffix.lower()](environments, path)
        except OSError as error:
            raise BadInput(f"cannot write {path}: {error.strerror}. Try --output PATH/{path.name}") from None
