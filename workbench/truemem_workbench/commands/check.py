"""The command `truemem check`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..answer.baseline import AllowedGrowth
from ..aws.cloudwatch import target_or_function
from ..judge.finding import COUNTED, GROWS, Commands, commands_deployed, commands_local, longer
from ..runs.passes import INVOCATIONS, MOST_LEAST, MOST_TIMES, WARM_UP, Decision, Plan
from ..support.bad_input import BadFunction, BadInput
from ..support.exit_codes import ENDS_BISECTION, UNUSABLE_CODE, Ended, exit_with
from ..support.options import Finite, check_outputs, chosen, format_options, output_option, typed
from ..support.terminal import notify, steps
from ..support.typed_command import Command
from ..target.events import FILE
from ..target.options import event_options, function_options, http_option, managed_option, read_payloads, resolved

if TYPE_CHECKING:
    from ..answer.limits import Limits
    from ..answer.result import Result
    from ..explain.explanation import Explanation
    from ..runs.measurement import Measurement
    from ..target.target import Target


class _Growth(click.ParamType[AllowedGrowth]):
    name = "MiB|%"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> AllowedGrowth:
        if isinstance(value, AllowedGrowth):
            return value
        try:
            return AllowedGrowth.parse(value)
        except ValueError:
            self.fail(f"{value!r} is neither MiB nor a share, as in 8 or 10%", param, ctx)


AMOUNT = Finite(min=0)
GROWTH = _Growth()


ONCE = (
    "--explain", "--try-repair", "--no-try-repair", "--write-baseline", "--format", "--json", "--output",
    "--undecided-exit",
)  # fmt: skip
"""Options that a command to type next does not repeat."""
ENDINGS = (".png", ".xml", ".json", ".html")
EPILOG = """
\b
Examples:
  truemem check app.py:handler --event @event.json --max-peak 400
  truemem check index.mjs:handler --no-explain
  truemem check template.yaml:MyFunction --output report.xml
  truemem check --http 8080 --event /orders -- uvicorn app:app
  truemem check my-function --invocations 300
\b
Exit codes:
  0  every limit was kept
  1  a limit was broken, or the function ran out of memory
  2  undecided: invocations failed, more of them are needed, a limit is within the bounds of a peak, the input
     cannot be used, or the result cannot be written
     with --undecided-exit N: N, and 128 for a wrong option or a wrong file of the command
  130, 143  Ctrl-C or SIGTERM: what is known so far is printed
"""


class _EndsBisection(click.UsageError):
    exit_code = ENDS_BISECTION


class _Gate(click.Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = [*args]
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if any(each.startswith("--undecided-exit") for each in given):
                raise _EndsBisection(error.format_message(), error.ctx) from None
            raise


@click.command(cls=_Gate, epilog=EPILOG, context_settings={"max_content_width": 110})
@target_or_function("a deployed function, which has truemem's layer")
@click.option(
    "--invocations",
    type=click.IntRange(1),
    default=INVOCATIONS,
    show_default=True,
    metavar="N",
    help="Invocations to judge, at least.",
)
@click.option(
    "--most",
    type=click.IntRange(1),
    metavar="N",
    help=f"Most invocations to judge, while undecided [default: {MOST_TIMES} x --invocations, {MOST_LEAST} at least].",
)
@click.option(
    "--warm-up",
    type=click.IntRange(0),
    default=WARM_UP,
    show_default=True,
    metavar="N",
    help="Invocations before these, at most, until memory settles.",
)
@event_options
@click.option("--max-drift", type=AMOUNT, metavar="KiB", help="Growth allowed per invocation.")
@click.option("--max-drift-per-minute", type=AMOUNT, metavar="KiB", help="Growth allowed per minute.")
@click.option("--max-peak", type=AMOUNT, metavar="MiB", help="Highest peak of any invocation, and of the init phase.")
@click.option("--max-current", type=AMOUNT, metavar="MiB", help="Highest current RSS after a judged invocation.")
@click.option("--max-p99", type=AMOUNT, metavar="MS", help="Highest p99 of the duration.")
@click.option("--max-tmp", type=AMOUNT, metavar="MiB", help="Most that an invocation may leave in /tmp.")
@click.option(
    "--max-descriptors-drift", type=AMOUNT, metavar="N", help="Growth of open descriptors allowed per invocation."
)
@click.option("--max-growth", type=GROWTH, help="Growth of peak and current allowed over --baseline [default: 10%].")
@click.option("--baseline", type=FILE, help="Compare with this file.")
@click.option("--write-baseline", type=FILE, help="Write the figures to this file if all limits are kept.")
@click.option(
    "--allow",
    "allowed",
    multiple=True,
    type=click.Choice(GROWS),
    metavar="CAUSE",
    help="Permit growth by this cause; repeatable.",
)
@click.option(
    "--try-repair/--no-try-repair",
    default=None,
    help="If the repair is a setting, run the function again with it. [default: if memory grows, or ran out]",
)
@click.option(
    "--explain/--no-explain",
    default=None,
    help="Run it under a tracer, to name the lines that hold what grew. [default: if memory grows, or breaks a limit]",
)
@click.option(
    "--max-errors",
    type=Finite(min=0, max=100),
    metavar="PERCENT",
    help="Highest share of failed invocations [default: 0, and one failure makes the result undecided].",
)
@click.option("--allow-errors", is_flag=True, help="Short for --max-errors 100.")
@http_option
@function_options
@managed_option
@click.option(
    "--extensions", type=click.Path(path_type=Path), metavar="FOLDER", help="Start all files in FOLDER as extensions."
)
@click.option("--no-exact", is_flag=True, help="Measure without exact mode: some peaks are then intervals.")
@click.option("--no-probe", is_flag=True, help="Do not load the heap probe into a function in Python or Node.js.")
@click.option("--log-group", metavar="NAME", help="Log group of --function [default: /aws/lambda/NAME].")
@click.option(
    "--undecided-exit",
    type=click.IntRange(1, 255),
    default=UNUSABLE_CODE,
    show_default=True,
    metavar="N",
    help="Exit code of an undecided result: 125 for git bisect run.",
)
@format_options("text", "json", "github")
@output_option(*ENDINGS)
@click.pass_context
def check(context: click.Context, /, undecided_exit: int, **given: Any) -> None:
    """Invoke a function many times, and fail if its memory breaks a limit.

    Without --max-drift nothing may grow: memory in use, RSS, extensions, processes, threads, descriptors, /tmp. While
    that is undecided, more invocations follow: for two minutes, or up to --most.
    --output writes the curve (.png), JUnit XML (.xml), the document of --json (.json), or a flame graph of what grew
    (.html). `--format github` prints annotations for GitHub Actions. If GITHUB_STEP_SUMMARY is set, a summary is added
    to that file.
    """
    again = typed(context, "check", but=ONCE)
    exit_with(context, "truemem check", lambda: _check(again, **given), undecided_exit)


def _check(
    command: Command,
    *,
    baseline: Path | None,
    write_baseline: Path | None,
    max_growth: AllowedGrowth | None,
    max_errors: float | None,
    allow_errors: bool,
    form: str | None,
    as_json: bool,
    outputs: tuple[Path, ...],
    explain: bool | None,
    try_repair: bool | None,
    **given: Any,
) -> int:
    from ..answer import baseline as baselines
    from ..answer.limits import Limits, LimitsDecision, find
    from ..answer.outputs import Outputs
    from ..answer.result import Result

    if max_growth is not None and baseline is None:
        raise BadInput(f"--max-growth {max_growth}: over what? Try --baseline FILE")
    if allow_errors and max_errors is not None:
        raise BadInput(f"--allow-errors with --max-errors {max_errors:g}: leave one out")
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    check_outputs(outputs, *ENDINGS)
    places = Outputs(
        form=chosen(form, as_json),
        files=outputs,
        summary=Path(summary) if summary else None,
        baseline=write_baseline,
    )
    limits = Limits(
        drift_kib=given.pop("max_drift"),
        drift_per_minute_kib=given.pop("max_drift_per_minute"),
        peak_mib=given.pop("max_peak"),
        current_mib=given.pop("max_current"),
        p99_ms=given.pop("max_p99"),
        tmp_mib=given.pop("max_tmp"),
        descriptors_drift=given.pop("max_descriptors_drift"),
        growth=max_growth,
        errors_percent=100.0 if allow_errors else max_errors,
        allowed=given.pop("allowed"),
    )
    spec = _spec(given["target"], given["function_name"])
    if explain and given["function_name"] is not None:
        name = given["function_name"]
        raise BadInput(
            "--explain needs the function's code: no tracer can be attached to a deployed function. There, try truemem"
            f" attach {name} --lines. Here, its events: truemem events {name} --since 1h --output events.jsonl, then"
            " truemem explain app.py:handler --events events.jsonl"
        )
    if explain is False and (page := next((each for each in outputs if each.suffix.lower() == ".html"), None)):
        raise BadInput(f"--output {page} shows which lines hold what grew. Leave out --no-explain")
    plan = Plan(invocations=given.pop("invocations"), most=given.pop("most"), warm_up=given.pop("warm_up"))
    was = baselines.read_baseline(baseline, spec) if baseline else None
    places.try_them()
    if try_repair and given["function_name"] is not None:
        raise BadInput("--try-repair sets a variable of the function. Try it here: truemem check app.py:handler")
    measurement, target, payloads = _measured(plan, LimitsDecision(limits), explain=bool(explain), **given)
    can_explain = target is not None and (target.is_explicable or measurement.is_jvm)
    commands = _commands(command, spec, target)
    if measurement.signal:  # the invocations that were asked for have not been made
        commands = replace(commands, longer=commands.again)
    if explain is False and can_explain:
        commands = replace(commands, explain=str(command.with_option("--explain")))
    if target is not None and (was is not None or write_baseline is not None):
        commands = replace(commands, size=commands.sweep)
    measurement = replace(measurement, commands=commands)
    if was is not None:
        measurement = replace(measurement, notices=(*measurement.notices, *was.differs(measurement.about)))
    result, lines = Result(measurement, find(measurement, limits, was), was=was), None
    if target is not None:
        result = replace(result, source=target.source, line=target.line)
        if not measurement.signal:
            result = _repaired(result, command, target, payloads, plan, limits, try_repair)
        measurement = result.measurement
        if not measurement.signal and (explain or (explain is None and can_explain and result.grows)):
            lines, result = _with_lines(result, target, payloads, always=bool(explain))
    draw = {".png": partial(_draw, result, limits), ".html": partial(_explain_in, lines, result.headline)}
    code, signal = places.write(result, draw), result.measurement.signal
    return 128 + signal if signal else code


def _with_lines(
    result: Result, target: Target, payloads: list[object], *, always: bool
) -> tuple[Explanation | None, Result]:
    """The lines that hold what grew, as far as they were found, and the result with them."""
    from ..explain.run import explained

    measured, made = result.measurement, explained(target, payloads, result.measurement)
    if made.signal:
        result = replace(result, measurement=measured.ended_by(made.signal, "all lines were found"))
    # of descriptors and the like, memory that no line holds says nothing
    if always or made.holders or measured.finding.cause not in COUNTED:
        return made, result.explained(made)
    return None, result


def _draw(result: Result, limits: Limits, path: Path) -> None:
    from ..answer.picture import draw_curve

    draw_curve(result, limits, path)


def _explain_in(lines: Explanation | None, headline: str, path: Path) -> None:
    from ..explain.growth_page import page

    path.write_text(page(lines, headline), encoding="utf-8")


def _commands(command: Command, spec: str, target: Target | None) -> Commands:
    """What can be typed next. `target`: the function, if it is here."""
    if target is None:
        deployed = commands_deployed(spec.removeprefix("remote:"))
        return replace(deployed, again=str(command), proof="", longer=longer(command))
    return commands_local(
        command,
        is_probed=target.probe,
        can_explain=False,
        function=target.function,
        is_web=target.http is not None,
    )


def _repaired(
    result: Result,
    command: Command,
    target: Target,
    payloads: list[object],
    plan: Plan,
    limits: Limits,
    is_asked: bool | None,
) -> Result:
    """The result with the repair tried, where it is a setting; where that was asked for and is none, with the reason.
    `is_asked`: None where it was not said."""
    from ..answer.result import untried

    finding, ran_out = result.measurement.finding, bool(result.measurement.out_of_memory)
    if finding.setting and (is_asked or (is_asked is None and (finding.grows or ran_out))):
        return _tried(result, command, target, payloads, plan, limits, finding.setting)
    if not is_asked:
        return result
    notices = (*result.measurement.notices, untried(finding, ran_out))
    return replace(result, measurement=replace(result.measurement, notices=notices))


def _tried(
    result: Result,
    command: Command,
    target: Target,
    payloads: list[object],
    plan: Plan,
    limits: Limits,
    setting: Mapping[str, str],
) -> Result:
    """The result with a second run, in which the function has the repair's variables."""
    from ..answer.limits import LimitsDecision, find
    from ..answer.result import Tried
    from ..runs import here
    from ..runs.settle import jvm

    if (own := target.environment.get(jvm.OPTIONS)) and jvm.OPTIONS in setting:  # ours are added to the function's own
        setting = {**setting, jvm.OPTIONS: f"{own} {setting[jvm.OPTIONS]}"}
    words = " ".join(f"{name}={value}" for name, value in setting.items())
    before, with_it = result.measurement, command
    for name, value in setting.items():
        with_it = with_it.with_option("--env", f"{name}={value}")
    repaired = replace(target, environment={**target.environment, **setting})
    try:
        notify("truemem check", f"trying the repair: the function runs again with {words}")
        with steps() as progress:
            after = here.measure(repaired, payloads, plan, LimitsDecision(limits), progress)
            tried = Tried(setting=setting, before=before, after=after)
            is_librarys, signal = None, after.signal
            if before.curves.library and not signal:
                is_librarys = False
                if tried.ends_it:  # once more as it was: a run that finds its work done elsewhere keeps nothing either
                    again = here.measure(target, payloads, plan, LimitsDecision(limits), progress)
                    is_librarys, signal = again.finding.grows, again.signal
    except Ended as ended:
        signal = ended.number
    if signal:
        return replace(result, measurement=before.ended_by(signal, "the repair was tried"))
    commands = replace(before.commands, repair=str(with_it) if tried.helps else "")
    told = after if is_librarys is False and tried.keeps_less else before  # without that cache: the rest is its own
    measurement = replace(told, commands=commands, is_librarys=is_librarys)
    if is_librarys is None:
        return replace(result, measurement=measurement, tried=tried).retold()
    checked = find(measurement, limits, result.was)
    return replace(result, measurement=measurement, limits=checked, tried=tried if is_librarys else None)


def _spec(target: str | None, function_name: str | None) -> str:
    if (target is None) == (function_name is None):
        raise BadInput("give one function: a local one, or the NAME of one in AWS. Try truemem check app.py:handler")
    return target or f"remote:{function_name}"


def _measured(
    plan: Plan,
    decision: Decision,
    *,
    target: str | None,
    function_name: str | None,
    event: str | None,
    events: Path | None,
    no_exact: bool,
    no_probe: bool,
    explain: bool,
    log_group: str | None,
    **given: Any,
) -> tuple[Measurement, Target | None, list[object]]:
    """What was measured, the function if it is here, and its events. Raises BadInput."""
    if function_name is not None:
        payloads = read_payloads(event, events)
        if no_exact or no_probe or any(given.values()):
            raise BadInput(
                "--function takes the function as it is: leave out --no-exact, --no-probe, --extensions, --http,"
                " --memory, --cpu, --timeout, --env, --python and --managed-instances"
            )
        from ..runs import deployed

        with steps() as progress:
            return deployed.measure(function_name, payloads, plan, decision, progress, log_group), None, payloads
    if log_group is not None:
        raise BadInput(f"--log-group {log_group} is for --function NAME alone")
    with steps() as progress:  # on the terminal before the imports, which take a while
        from ..runs import here

        function = resolved(target or "", exact=not no_exact, probe=not no_probe, progress=progress, **given)
        payloads = read_payloads(event, events, function)
        if explain:
            here.need_explicable(function)
        function.settings()  # an option that Lambda does not take is refused before
        try:
            return here.measure(function, payloads, plan, decision, progress), function, payloads
        except BadInput as problem:
            raise BadFunction(str(problem)) from problem
