"""The command `truemem size`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ..attach.session import session_options
from ..aws.cloudwatch import target_or_function
from ..judge.finding import AFTER_REPAIR, OF_SIZE, commands_deployed, commands_local
from ..size.varied import variants_of
from ..support.bad_input import BadInput
from ..support.document import known_members
from ..support.exit_codes import exit_with
from ..support.options import Finite, check_outputs, option_group, output_option, typed
from ..support.platform_facts import ARCHITECTURES, LEAST_MANAGED_MIB, LEAST_MIB, MOST_MANAGED_MIB, MOST_MIB
from ..support.terminal import fitted, notify, output, say, steps, table
from ..support.typed_command import Command, following
from ..target.options import environment_options, event_options, managed_option, read_payloads, resolved

if TYPE_CHECKING:
    from ..size import at_once
    from ..size.local_sweep import Sweep
    from ..size.result import Result

ENDINGS = (".png", ".json")
STRATEGIES = ("cost", "speed", "balanced")  # `choice.STRATEGIES`, which needs numpy
AT_MOST = 1.0
"""USD that invocations in AWS may cost, unless --max-cost says another sum."""
ON_DEMAND = ("strategy", "weight", "max_duration", "architecture", "warm_up")
"""Options that are no question on Managed Instances."""
IN_AWS = ("concurrency", "max_cost", "unpublished", "applied", "undo", "state", "dry_run", "yes")
"""Options for --function alone."""
EPILOG = """
\b
Examples:
  truemem size app.py:handler --events events.jsonl
  truemem size template.yaml:MyFunction --strategy balanced --max-duration 800
  truemem size index.mjs:handler --memory 512,1024,1769 --output sizes.png
  truemem size app.py:handler --env MODEL=small.onnx --env MODEL=large.onnx
  truemem size app.py:handler --managed-instances 8
  truemem size my-function --events events.jsonl --max-cost 0.50
  truemem size my-function --apply 1024
\b
Exit codes:
  0  a size is suggested
  1  no size can be suggested: memory grows, or each is killed, fails, is too slow or has less than 20 % headroom
  2  not known: the input cannot be used, invocations failed, or the result cannot be written; or the function in AWS
     could not be restored: the message says how to do it
  130, 131, 143  Ctrl-C, SIGQUIT or SIGTERM: what is known so far is printed
"""


def sizes_of(text: str) -> list[int]:
    """Parse `128,512`: sizes in MB, in order. Raises BadInput, also for one that is there twice."""
    sizes = set()
    for each in text.split(","):
        if not each.strip().isdecimal() or not LEAST_MIB <= int(each) <= MOST_MANAGED_MIB:
            raise BadInput(
                f"--memory {text}: {each!r} is no memory size, {LEAST_MIB} to {MOST_MIB} MB. Try --memory 512,1024,1769"
            )
        if int(each) in sizes:
            raise BadInput(f"--memory {text}: {int(each)} is there twice. Try each size once")
        sizes.add(int(each))
    return sorted(sizes)


choice_options = option_group(
    click.option(
        "--strategy",
        type=click.Choice(STRATEGIES),
        default="cost",
        show_default=True,
        help="The suggested size is the best by this.",
    ),
    click.option(
        "--balanced-weight",
        "weight",
        type=Finite(0, 1),
        metavar="0..1",
        help="For balanced: 1 is cost alone, 0 is duration alone [default: 0.5].",
    ),
    click.option("--max-duration", type=Finite(0, min_open=True), metavar="MS", help="Highest p95 allowed."),
    click.option(
        "--architecture",
        type=click.Choice(ARCHITECTURES),
        help="The prices of this one [default: x86_64, or that of NAME].",
    ),
)
deployed_options = option_group(
    click.option(
        "--concurrency", type=click.IntRange(1, 100), default=1, show_default=True, help="Invocations at once."
    ),
    click.option(
        "--max-cost",
        type=Finite(0, min_open=True),
        default=AT_MOST,
        show_default=True,
        metavar="$",
        help="Stop before the invocations cost more.",
    ),
    click.option("--unpublished", is_flag=True, help="Publish no versions: the function itself gets each size."),
    click.option(
        "--apply",
        "applied",
        type=click.IntRange(LEAST_MIB, MOST_MIB),
        metavar="MB",
        help="Set the function to this size, and try none.",
    ),
    click.option("--undo", is_flag=True, help="Restore the function after a killed run, or after --apply."),
    session_options("sized.json"),
)


@click.command(epilog=EPILOG, context_settings={"max_content_width": 110})
@target_or_function("sizes are tried in AWS")
@click.option(
    "--memory", metavar="MB,MB,...", help="Sizes to try [default: the smallest that is safe, and the usual ones above]."
)
@click.option(
    "--invocations",
    type=click.IntRange(1),
    metavar="N",
    help="Invocations at each size [default: 50, or as many as five minutes permit, 10 at least].",
)
@click.option(
    "--warm-up",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    metavar="N",
    help="Invocations before these, at each size.",
)
@choice_options
@event_options
@environment_options
@managed_option
@deployed_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@output_option(*ENDINGS)
@click.pass_context
def size(context: click.Context, /, **given: Any) -> None:
    """Invoke a function at several memory sizes, and say which is the cheapest, the fastest and the one to take.

    It runs under the local Lambda, where each size has its share of CPU. Sizes take turns, round after round. Lambda's
    CPUs are not this machine's: trust how sizes compare, not the milliseconds.

    If --env gives a variable several values, such as models, each value is tried and has a row.

    A function of Managed Instances (of a template, or by --managed-instances) runs with several concurrencies. The
    answer says which concurrency fits which memory size.

    With NAME it runs in AWS, in temporary versions. Without --event and --events it takes the events that the function
    has logged in the last hour (truemem events). It prints first what it will do and what that costs. The options from
    --concurrency to --yes are for that.
    """
    exit_with(context, "truemem size", lambda: _size(context, **given))


def _size(
    context: click.Context,
    *,
    target: str | None,
    function_name: str | None,
    memory: str | None,
    invocations: int | None,
    warm_up: int,
    strategy: Any,
    weight: float | None,
    max_duration: float | None,
    architecture: Any,
    event: str | None,
    events: Path | None,
    as_json: bool,
    outputs: tuple[Path, ...],
    **given: Any,
) -> int:
    if (target is None) == (function_name is None):
        raise BadInput("give one function: a local one, or the NAME of one in AWS. Try truemem size app.py:handler")
    if weight is not None and strategy != "balanced":
        raise BadInput(f"--balanced-weight {weight:g} is for --strategy balanced. Add that, or leave it out")
    sizes = None if memory is None else sizes_of(memory)
    check_outputs(outputs, *ENDINGS)
    in_aws = {name: given.pop(name) for name in IN_AWS}
    plan: dict[str, Any] = {"invocations": invocations, "warm_up": warm_up}
    wanted = {"strategy": strategy, "weight": weight, "architecture": architecture, "max_duration": max_duration}
    if function_name is not None:
        if any(given.values()):
            raise BadInput(
                "--function takes the function as it is: leave out --timeout, --env, --python and --managed-instances"
            )
        payloads = None if event is None and events is None else read_payloads(event, events)
        from ..size import deployed
        from ..size.local_sweep import Plan

        asked = deployed.Asked(function_name, "json" if as_json else "text", **in_aws)
        done = deployed.run(asked, payloads, sizes, Plan(**plan))
        if isinstance(done, int):
            return done
        swept, own = done
    else:
        payloads = read_payloads(event, events)
        if (variants := variants_of(given["env"])) is not None:
            from .size_variants import compare

            def try_with(env: tuple[str, ...], begins: str) -> tuple[Result, int]:
                swept = _here(context, target or "", payloads, sizes, plan, {**given, "env": env}, begins)
                assert not isinstance(swept, int)  # of Managed Instances: refused for several values
                return _result(context, swept, wanted, env), swept.signal

            return compare(context, variants, try_with, as_json, outputs)
        found = _here(context, target or "", payloads, sizes, plan, given)
        if isinstance(found, int):
            return found
        swept, own = found, "x86_64"
    result = _result(context, swept, {**wanted, "architecture": architecture or own})
    is_written = _write(result, as_json, outputs)
    if swept.signal:
        return 128 + swept.signal
    return result.exit_code if is_written and not swept.failed else result.exit_code or 2


def _result(
    context: click.Context, swept: Sweep, wanted: Mapping[str, Any], env: Sequence[str] | None = None
) -> Result:
    """What is printed of a sweep. `wanted`: the members of Wanted that were asked for. `env`: see `alike`."""
    from ..size.choice import Wanted, choose
    from ..size.result import Result

    target, function_name = context.params["target"], context.params["function_name"]
    choice = choose(swept.trials, Wanted(**known_members(wanted)))
    result = Result(
        spec=target or function_name or "",
        choice=choice,
        notices=[*swept.notices, *([WEAKER] if target and choice.is_tried and not choice.grows else [])],
        log=swept.log,
        is_cut=swept.signal > 0,
    )
    if not result.is_cut and result.finding is not None:
        command, when = result.finding.following
    else:
        command = _next(context, result, env)
        when = AFTER_REPAIR if command == str(typed(context, "size")) and not result.is_cut else ""
    return replace(result, next=command, next_when=when)


def alike(context: click.Context, env: Sequence[str] | None = None) -> Command:
    """`truemem check` of the same function, with these variables if any are given instead of those that were typed."""
    made = typed(context, "check", only=OF_SIZE)
    if env is None:
        return made
    made = made.without("--env")
    for each in env:
        made = made.with_option("--env", each)
    return made


def _here(
    context: click.Context,
    target: str,
    payloads: Sequence[object],
    sizes: Sequence[int] | None,
    plan: Mapping[str, Any],
    given: Mapping[str, Any],
    begins: str = "",
) -> Sweep | int:
    """The sweep under the local Lambda; or the exit code, if it was that of a function of Managed Instances. `given`:
    what `resolved` takes. `begins`: what to say when nothing was refused. Raises BadInput."""
    for parameter in context.command.params:
        name = parameter.name or ""
        if name in IN_AWS and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise BadInput(f"{parameter.opts[0]} is for --function NAME alone. Leave it out")
    with steps() as progress:  # on the terminal before the imports, which take a while
        from ..size.local_sweep import LocalSweep, Plan

        function = resolved(target, progress=progress, **given)
        if function.http is not None:
            raise BadInput(f"{target}: sizes are tried side by side, and a web server has its port once here")
        commands = commands_local(alike(context, given["env"]), function=function.function)
        if function.managed_instances is not None:
            _check_managed(context, sizes)
            from ..size.managed_sweep import ManagedSweep

            sweep = ManagedSweep(function, payloads, commands, progress, plan["invocations"])
            return _managed(context, sweep.run(sizes))
        if above := [size for size in sizes or () if size > MOST_MIB]:
            raise BadInput(f"--memory {above[0]}: on demand Lambda has {LEAST_MIB} to {MOST_MIB} MB")
        if begins:
            notify("truemem size", begins)
        return LocalSweep(function, payloads, Plan(**plan), commands, progress).run(sizes)


def _check_managed(context: click.Context, sizes: Sequence[int] | None) -> None:
    """Raises BadInput for what is a question of functions on demand."""
    for parameter in context.command.params:
        name = parameter.name or ""
        if name in ON_DEMAND and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise BadInput(f"{parameter.opts[0]}: Managed Instances are not paid for by duration. Leave it out")
    if (variants := variants_of(context.params["env"])) is not None:
        raise BadInput(f"--env {variants.name}: Managed Instances are sized with one value at a time. Give one")
    if small := [size for size in sizes or () if size < LEAST_MANAGED_MIB]:
        raise BadInput(f"--memory {small[0]}: Managed Instances have {LEAST_MANAGED_MIB} to {MOST_MANAGED_MIB} MB")


def _managed(context: click.Context, result: at_once.Result) -> int:
    """Print and write the result for a function of Managed Instances. Returns the exit code."""
    again, judge = typed(context, "size"), typed(context, "check", only=(*OF_SIZE, "--managed-instances"))
    command, when = result.finding.following if result.finding else (str(again), AFTER_REPAIR)
    if result.suggested is not None:
        judge = judge if result.suggested == result.memory else judge.with_option("--memory", result.suggested)
        command, when = str(judge), ""
    elif result.needs is not None:
        fewer = result.needs.most(result.sizes[-1])
        narrower = again.without("--managed-instances").with_option("--managed-instances", max(1, fewer))
        command, when = str(narrower), ""
    outputs, as_json = context.params["outputs"], context.params["as_json"]
    if picture := next((path for path in outputs if path.suffix.lower() == ".png"), None):
        notify("truemem size", f"--output {picture}: there is no picture for Managed Instances. Try .json")
    told = replace(result, next=command, next_when=when)
    is_written = _write(told, as_json, [each for each in outputs if each != picture])
    return 128 + result.signal if result.signal else result.exit_code if is_written else result.exit_code or 2


WEAKER = (
    "durations are without the sidecar. This machine's CPU is not Lambda's: how sizes compare holds, the milliseconds"
    " need not; and there is no network of AWS here"
)


def _next(context: click.Context, result: Result, env: Sequence[str] | None = None) -> str:
    """The command to type next. For a suggested size the one that asks whether memory stays there; in AWS only if that
    is in doubt."""
    again = typed(context, "size")
    if result.is_cut:
        return str(again)
    suggested, name = result.choice.suggested, context.params["function_name"]
    if suggested is not None and name is None:
        return str(alike(context, env).with_option("--memory", suggested.memory))
    if suggested is not None and suggested.may_grow:
        return _judging(context, name, is_attached=suggested.finding is not None)
    if suggested is not None:
        return f"truemem size {shlex.quote(name)} --apply {suggested.memory}"
    against = {reason for each in result.choice.against.values() for reason in each}
    if "slow" in against:
        return str(again.without("--max-duration"))
    return str(again.without("--memory") if against & {"killed", "headroom"} else again)


def _judging(context: click.Context, name: str, *, is_attached: bool) -> str:
    """What judges whether a function in AWS grows: it needs the sidecar's lines, and the events that were tried."""
    if not is_attached:
        return f"truemem attach {shlex.quote(name)}"
    judge = typed(context, "check", only=("--function", "--event", "--events"))
    if judge.has("--event") or judge.has("--events"):
        return str(judge)
    return f"{commands_deployed(name).explain} && {judge.with_option('--events', 'events.jsonl')}"


def _write(result: Result | at_once.Result, as_json: bool, outputs: Sequence[Path]) -> bool:
    """Print the result, and write the files. False if a file could not be written."""
    document = json.dumps(result.document(), indent=2)
    if as_json:
        click.echo(document)
    else:
        _print(result)
    for path in outputs:
        try:
            if path.suffix.lower() == ".json":
                path.write_text(f"{document}\n", encoding="utf-8")
            elif (choice := getattr(result, "choice", None)) is not None:
                from ..size.picture import draw

                draw(result.spec, choice, path)
        except OSError as error:
            notify("truemem size", f"cannot write {path}: {error.strerror}. Try --output FOLDER/{path.name}")
            return False
    return True


def _print(result: Result | at_once.Result) -> None:
    from ..size.result import FIGURES, LAST, TEXTS, Result

    console = output()
    rows = result.rows() if not isinstance(result, Result) or result.choice.is_tried else []
    if rows:
        made = table("", TEXTS, FIGURES, LAST) if isinstance(result, Result) else table("", (), result.columns(), ())
        for row in rows:
            made.add_row(*row)
        console.print(fitted(made, console))
    for sentence in result.sentences():
        say(console, sentence, begin="- ")
    for line in result.log:
        console.print(f"  {line}", soft_wrap=True)
    for notice in result.all_notices():
        say(console, notice, begin="note: ", style="dim")
    console.print(following(result.next, result.next_when), soft_wrap=True)
