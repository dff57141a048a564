"""The command `truemem soak`."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import partial
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from .. import page
from ..answer.baseline import read_baseline
from ..judge.finding import GROWS, OF_BOTH, commands_local, with_path
from ..support.bad_input import BadInput
from ..support.exit_codes import exit_with
from ..support.options import (
    Finite,
    Mebibytes,
    check_outputs,
    chosen,
    format_options,
    option_group,
    output_option,
    target_argument,
    typed,
)
from ..support.terminal import counted, steps
from ..target.events import FILE
from ..target.options import environment_options, event_options, http_option, managed_option, read_payloads, resolved
from .check import AMOUNT, GROWTH

if TYPE_CHECKING:
    from ..soak.judging import JudgedSoak
    from ..soak.load import LoadScript
    from ..soak.result import SoakResult
    from ..soak.run import Plan
    from ..soak.tally import Tally
    from ..target.target import Target

ENDINGS = (".png", ".html", ".xml", ".json")
ONCE = ("--format", "--json", "--output", "--state")
"""Options that a command to type next does not repeat."""
TRAFFIC = ("--rate", "--like", "--speed", "--load", "--users", "--spawn-rate", "--for")
"""Options that say which traffic, without which it is mixed."""
PERCENT = Finite(min=0, max=100)
RATE = "mixed"
FOR = "5m"
LONGEST_S = 14 * 86_400
ENVIRONMENTS = 10
"""Most at once, if no number was asked for."""
FREE_MEMORY_SHARE = 0.7
"""Share of this machine's free memory that all environments together may take."""
EPILOG = """
\b
Examples:
  truemem soak app.py:handler --events events.jsonl
  truemem soak app.py:handler --rate 50/s --for 6h --state soak.state
  truemem soak template.yaml:MyFunction --rate 5..200/s --max-errors 0.1
  truemem soak app.py:handler --like events.jsonl --speed 10 --output soak.png
  truemem soak app.py:handler --load locustfile.py --for 10m
\b
Exit codes:
  0  every limit was kept
  1  a limit was broken, or an environment ran out of memory
  2  undecided: more time is needed, the input cannot be used, or the result cannot be written
  130, 143  Ctrl-C or SIGTERM: what is known so far is printed
"""


UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class Seconds(float):
    """A time in seconds, which prints as the user typed it."""

    text = ""

    def __str__(self) -> str:
        return self.text


class Duration(click.ParamType[Seconds]):
    """A time, as `90s`, `5m`, `6h`, `1d`."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Seconds:
        if isinstance(value, Seconds):
            return value
        text = str(value).strip()
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text)
        seconds = Seconds(float(found[1]) * UNITS_S[found[2]] if found else 0.0)
        seconds.text = text
        if not 0 < seconds <= LONGEST_S:
            self.fail(f"{value!r} is no time up to 14 days, as in 90s, 5m or 6h", param, ctx)
        return seconds


traffic_options = option_group(
    click.option(
        "--rate",
        metavar="RATE",
        help="Requests: 50/s, 600/m, a ramp 5..200/s, bursts:5..200/s,10s/60s, day:5..200/s,24h, or mixed, which can"
        " tell growth by invocation from growth by the clock [default: mixed].",
    ),
    click.option(
        "--like", type=FILE, help="Take the times of requests from this log: REPORT lines, or those of truemem events."
    ),
    click.option("--speed", type=Finite(min=1, max=10_000), metavar="N", help="Pauses of --like are N times shorter."),
    click.option("--load", type=FILE, help="A Locust file (.py) or a k6 script (.js) makes the requests."),
    click.option("--users", type=click.IntRange(1), metavar="N", help="For --load: users at once."),
    click.option("--spawn-rate", type=Finite(0, min_open=True), metavar="N", help="For --load: new users a second."),
    click.option("--for", "for_s", type=Duration(), default=FOR, show_default=True, help="Duration of the soak."),
    click.option("--seed", type=int, default=1, show_default=True, help="Seed of the random numbers."),
)
scaling_options = option_group(
    click.option(
        "--environments",
        type=click.IntRange(1, 1000),
        metavar="N",
        help="Most environments at once; requests above that are throttled [default: 10, or as memory permits].",
    ),
    click.option(
        "--reserved-concurrency",
        type=click.IntRange(1),
        metavar="N",
        help="The function's reserved concurrency: requests above it are throttled.",
    ),
    click.option(
        "--idle-end",
        type=Duration(),
        default="5m",
        show_default=True,
        help="An environment ends after this time without a request.",
    ),
    click.option(
        "--max-age", type=Duration(), help="An environment ends at this age, and another one takes its place."
    ),
    managed_option,
)
limit_options = option_group(
    click.option("--max-drift", type=AMOUNT, metavar="KiB", help="Growth allowed per invocation."),
    click.option("--max-drift-per-minute", type=AMOUNT, metavar="KiB", help="Growth allowed per minute."),
    click.option("--max-peak", type=AMOUNT, metavar="MiB", help="Highest peak of any invocation."),
    click.option("--max-p99", type=Finite(0, min_open=True), metavar="MS", help="Highest p99 of the latency."),
    click.option(
        "--max-errors",
        type=PERCENT,
        default=0.0,
        show_default=True,
        metavar="%",
        help="Highest share of failed requests.",
    ),
    click.option(
        "--max-throttles", type=PERCENT, metavar="%", help="Highest share of throttled requests [default: any]."
    ),
    click.option(
        "--max-growth", type=GROWTH, help="Growth of peak and current allowed over --baseline [default: 10%]."
    ),
    click.option("--baseline", type=FILE, help="Compare with this file, which truemem soak has written."),
    click.option("--write-baseline", type=FILE, help="Write the figures to this file if all limits are kept."),
    click.option(
        "--allow",
        "allowed",
        multiple=True,
        type=click.Choice(GROWS),
        metavar="CAUSE",
        help="Permit growth by this cause; repeatable.",
    ),
)


@click.command(epilog=EPILOG, context_settings={"max_content_width": 110})
@target_argument("FILE:HANDLER|TEMPLATE.yaml:LOGICAL_ID|BOOTSTRAP|IMAGE.tar")
@traffic_options
@scaling_options
@event_options
@click.option(
    "--memory", "memory_mib", type=Mebibytes(), metavar="MiB", help="Memory size [default: the template's, or 512]."
)
@click.option("--cpu", metavar="size|off|VCPUS", help="CPU limit of each environment [default: size].")
@http_option
@environment_options
@click.option("--lines", is_flag=True, help="Ask the function which lines of code keep what grows (TRUEMEM_LINES=on).")
@click.option("--no-probe", is_flag=True, help="Do not load the heap probe into a function in Python or Node.js.")
@limit_options
@click.option(
    "--state", type=FILE, help="Keep the figures in this file; after a crash the same command continues from it."
)
@format_options("text", "json", "github")
@output_option(*ENDINGS)
@click.pass_context
def soak(context: click.Context, /, **given: Any) -> None:
    """Run a function under traffic like production's, for minutes or hours: rates, bursts, pauses with freezes, several
    environments, cold starts.

    Each request is sent when it is due, also while others run, and its latency counts from then. The answer says
    whether memory grows, and by what: invocations, minutes, pauses, or requests that overlap. Latency and errors are
    beside it.
    """
    exit_with(context, "truemem soak", lambda: _soak(context, **given))


LIMITS = {
    "max_drift": "drift_kib",
    "max_drift_per_minute": "drift_per_minute_kib",
    "max_peak": "peak_mib",
    "max_p99": "p99_ms",
    "max_errors": "errors_percent",
    "max_throttles": "throttles_percent",
    "max_growth": "growth",
    "allowed": "allowed",
}
"""Options of limits, and the members of `limits.SoakLimits`."""


def _soak(
    context: click.Context,
    *,
    target: str,
    event: str | None,
    events: Path | None,
    form: str | None,
    as_json: bool,
    outputs: tuple[Path, ...],
    baseline: Path | None,
    write_baseline: Path | None,
    **given: Any,
) -> int:
    check_outputs(outputs, *ENDINGS)
    if given["lines"] and given["no_probe"]:
        raise BadInput("--lines with --no-probe: the probe asks for the lines. Leave one out")
    if given["max_growth"] is not None and baseline is None:
        raise BadInput(f"--max-growth {given['max_growth']}: over what? Try --baseline FILE")
    was = read_baseline(baseline, target) if baseline else None
    load = _load(context, given)
    is_mixed = not load and not given["like"] and given["rate"] in (None, RATE)
    traffic = load or _arrivals(given)
    limits = {member: given.pop(name) for name, member in LIMITS.items()}
    with steps() as progress:  # on the terminal before the imports, which take a while
        progress("starting", 0, 1)
        from ..answer.outputs import Outputs
        from ..soak.judging import judge, longer_s
        from ..soak.limits import SoakLimits, find
        from ..soak.live import live
        from ..soak.result import SoakResult
        from ..soak.run import run
        from ..soak.saved import Saved

        summary = os.environ.get("GITHUB_STEP_SUMMARY")
        places = Outputs(
            command="truemem soak",
            form=chosen(form, as_json),
            files=outputs,
            summary=Path(summary) if summary else None,
            baseline=write_baseline,
        )
        places.try_them()
        function = resolved(
            target,
            **{name: given.pop(name) for name in ("python", "cmd", "timeout_s", "env", "memory_mib", "http")},
            cpu=given.pop("cpu") or "size",
            probe=not given.pop("no_probe"),
            names_lines=given.pop("lines"),
            progress=progress,
        )
        payloads = read_payloads(event, events, function)
        plan, notices = _plan(given, function)
    is_web = function.http is not None
    commands = commands_local(typed(context, "check", only=OF_BOTH), can_explain=not is_web, function=function.function)
    again = typed(context, "soak", but=ONCE)
    commands = replace(
        commands,
        again=str(again),
        proof=function.function.once_built(again),
        profile="" if is_web or function.names_lines else str(again.with_option("--lines")),
        with_variable=f"{again} --env",
        with_event="" if again.has("--event") or again.has("--events") else f"{again} --event @event.json",
        with_path=with_path(again) if is_web else "",
        size=commands.sweep,
    )
    wanted = SoakLimits(**limits)

    def judged_so_far(tally: Tally) -> JudgedSoak:
        for_s = f"{min(LONGEST_S, longer_s(tally, plan.for_s)):.0f}s"
        longer = again.without("--for").with_option("--for", for_s)
        mixed = longer if is_mixed else typed(context, "soak", but=(*ONCE, *TRAFFIC)).with_option("--for", for_s)
        commands_now = replace(commands, longer=str(longer), mixed=str(mixed))
        return judge(tally, commands_now, wanted.allowed, wanted.errors_percent)

    saved = Saved(given["state"], {"command": str(again), **_code(function)}) if given["state"] else None
    watching = live(target, plan.for_s, lambda tally: judged_so_far(tally).finding.title)
    with closing(saved) if saved else nullcontext(), watching as watch:
        ran = run(function, traffic, payloads, plan, saved, watch)
    judged = judged_so_far(ran.tally)
    kept = [f"{given['state']} has the figures: the same command goes on from there"] if saved and ran.is_cut else []
    result = SoakResult(
        spec=target,
        tally=ran.tally,
        judged=judged,
        limits=[*find(ran.tally, judged, wanted, was), *ran.limits],
        was=was,
        told=[*notices, *ran.notices, *kept],
        function_log=ran.log,
        is_cut=ran.is_cut,
        source=function.source,
        line=function.line,
        most=plan.most,
    )
    code = places.write(result, {".png": partial(_draw, result), ".html": partial(_write_page, result)})
    if saved and not ran.is_cut:
        saved.discard()  # else the same command would show these figures again
    return 128 + ran.signal if ran.signal else code


def _draw(result: SoakResult, path: Path) -> None:
    from ..soak.picture import draw

    draw(result, path)


def _write_page(result: SoakResult, path: Path) -> None:
    """Write the HTML page of all environments. Raises OSError."""
    environments = page.gather(line for each in result.tally.environments for line in each.lines)
    judged = result.judged
    for each in environments:
        each.finding = judged.by_environment.get(each.id, each.finding)
    page.write(environments, path, note=f"{result.headline}. {judged.finding.paragraph()}")


def _load(context: click.Context, given: dict[str, Any]) -> LoadScript | None:
    """The script that makes the requests, if there is one. Takes its options out of `given`. Raises BadInput."""
    path, users, spawn_rate = (given.pop(name) for name in ("load", "users", "spawn_rate"))
    if path is None:
        if users is not None or spawn_rate is not None:
            raise BadInput("--users and --spawn-rate are for --load FILE. Leave them out")
        return None
    from ..soak.load import LoadScript

    for name in ("rate", "like", "speed", "event", "events", "state"):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise BadInput(f"--load with --{name}: the script makes the requests. Leave one out")
    is_given = context.get_parameter_source("for_s") is ParameterSource.COMMANDLINE
    for_s = given["for_s"] if is_given or path.suffix == ".py" else None  # a k6 script has a length of its own
    return LoadScript(path=path, users=users, spawn_rate=spawn_rate, for_s=for_s)


def _arrivals(given: dict[str, Any]) -> Iterable[float]:
    """When requests are due. Takes the options of traffic out of `given`. Raises BadInput."""
    from ..soak.arrivals import like, schedule
    from ..soak.recorded_times import times_in

    rate, file, speed = given.pop("rate"), given.pop("like"), given.pop("speed")
    seed, for_s = given.pop("seed"), given["for_s"]
    if rate is not None and file is not None:
        raise BadInput("--rate with --like: leave one out")
    if speed is not None and file is None:
        raise BadInput(f"--speed {speed:g} shortens the pauses of --like FILE. Add that, or leave it out")
    if file is None:
        return schedule(rate or RATE, for_s, seed)
    times, speed = times_in(file), speed or 1.0
    if next(islice(like(times, speed), 1, None)) >= for_s:
        raise BadInput(f"--like {file}: one request is due in {for_s}. Try a longer --for, or --speed {10 * speed:g}")
    return takewhile(lambda moment: moment < for_s, like(times, speed))


def _code(target: Target) -> dict[str, str]:
    """What tells that the handler is another one: its figures are not to be added to those of the one before."""
    if target.function.image is not None:
        return {"an image of layers": target.function.image.root.parent.name[:12]}
    if target.source is None:
        return {}
    return {"a handler's file of SHA-256": hashlib.sha256(target.source.read_bytes()).hexdigest()[:12]}


def _plan(given: dict[str, Any], target: Target) -> tuple[Plan, list[str]]:
    """How it is run, and what this machine does not permit. Raises BadInput."""
    import psutil

    from ..local.scaling import Scaling
    from ..soak.run import Plan

    most, notices = given.pop("environments"), []
    fit = max(1, int(FREE_MEMORY_SHARE * psutil.virtual_memory().available / (target.memory_mib * 2**20)))
    if target.http is not None:  # on this machine, two servers cannot have one port
        if (most or 1) > 1 or given["managed_instances"]:
            raise BadInput("a web server has its port once on this machine: leave out --environments and the like")
        most = 1
        notices.append("1 environment at most: on this machine a web server has its port once")
    elif most is None:
        most = min(ENVIRONMENTS, fit)
        if most < ENVIRONMENTS:
            notices.append(f"{counted(most, 'environment')} at most: more of {target.memory_mib} MiB need not fit here")
    elif most > fit:
        notices.append(f"{most} environments of {target.memory_mib} MiB need not fit here: {fit} do")
    scaling = Scaling(
        environments=most,
        reserved_concurrency=given.pop("reserved_concurrency"),
        idle_s=given.pop("idle_end"),
        age_s=given.pop("max_age"),
        keep=False,
    )
    plan = Plan(
        for_s=given["for_s"],
        scaling=scaling,
        managed_instances=given.pop("managed_instances") or target.managed_instances,
    )
    return plan, notices
