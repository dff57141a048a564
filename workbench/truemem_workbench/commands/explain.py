"""The command `truemem explain`: which lines hold what grows, whatever a gate would say of it; and what init holds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from ..judge.finding import commands_local
from ..runs.passes import INVOCATIONS, Decision, Plan
from ..support.bad_input import BadInput
from ..support.conditions import folded
from ..support.exit_codes import exit_with
from ..support.options import check_outputs, output_option, typed
from ..support.terminal import output, say, steps
from ..support.typed_command import Command
from ..target.options import event_options, function_options, read_payloads, resolved

ENDINGS = (".html", ".speedscope.json", ".pb.gz", ".otlp.json", ".json")
"""A page; profiles for other tools; the document of --json."""
ONCE = ("--json", "--output")
ONLY_HERE = ("--init", "--invocations", *ONCE)
"""Options that are not those of the check that follows."""
EPILOG = """
\b
Examples:
  truemem explain app.py:handler --events events.jsonl
  truemem explain index.mjs:handler --output growth.html --output growth.pb.gz
  truemem explain ./bootstrap --event @order.json
  truemem explain app.py:handler --init
\b
Exit codes:
  0  the lines are named, or no line holds what grows; with --init: the parts are named
  2  not known: the input cannot be used, invocations failed, or the tracer saw too little
  130, 143  Ctrl-C or SIGTERM: what is known so far is printed
"""


@click.command(epilog=EPILOG, context_settings={"max_content_width": 110})
@click.argument("target", metavar="FILE:HANDLER|BOOTSTRAP|TEMPLATE.yaml:LOGICAL_ID|IMAGE.tar")
@click.option(
    "--invocations",
    type=click.IntRange(1),
    default=INVOCATIONS,
    show_default=True,
    metavar="N",
    help="Number of invocations.",
)
@click.option(
    "--init", "of_init", is_flag=True, help="Show what each import and statement of init holds, and how long it takes."
)
@event_options
@function_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@output_option(*ENDINGS)
@click.pass_context
def explain(context: click.Context, /, **given: Any) -> None:
    """Name the lines of a function that hold what grows.

    A handler in Python, Node.js or Java, or a program in Go, C, C++ or Rust, runs twice under the local Lambda: once to
    measure it, once under a tracer.

    With --init a handler in Python or Node.js is started four times, and invoked once each time. The answer says how
    much memory each import and statement holds, and how long it takes.
    """
    if given.pop("of_init"):
        exit_with(context, "truemem explain", lambda: _init(context, **given))
    again = typed(context, "explain", but=ONCE)
    exit_with(context, "truemem explain", lambda: _explain(again, **given))


def _init(
    context: click.Context,
    *,
    target: str,
    event: str | None,
    events: Path | None,
    as_json: bool,
    outputs: tuple[Path, ...],
    **given: Any,
) -> int:
    if context.get_parameter_source("invocations") is ParameterSource.COMMANDLINE:
        raise BadInput("--init with --invocations: it invokes once. Leave one out")
    del given["invocations"]
    check_outputs(outputs, ".json")
    payloads = read_payloads(event, events)
    with steps() as progress:
        from ..explain.init_run import init_cost
        from ..target.resolve import TEMPLATES

        function = resolved(target, progress=progress, **given).with_one_worker()
        is_sized = given["memory_mib"] is not None or Path(target.rpartition(":")[0]).suffix in TEMPLATES
        check = str(typed(context, "check", but=ONLY_HERE))
        found = init_cost(function, payloads[0], progress, check, function.memory_mib if is_sized else None)
    following, notices = check, folded(function.notices)  # a size is suggested where nothing grows
    document: dict[str, Any] = {
        "checked": target,
        "init": found.document(),
        "notices": notices,
        "next": following,
    }
    document |= {"endedEarly": True} if found.signal else {}
    code = 128 + found.signal if found.signal else 0
    text = json.dumps(document, indent=2)
    for path in outputs:
        path.write_text(f"{text}\n", encoding="utf-8")
    if as_json:
        click.echo(text)
        return code
    out = output()
    for line in found.lines():
        say(out, line)
    say(out, found.answer, begin="- ")
    for notice in notices:
        say(out, notice, begin="note: ", style="dim")
    out.print(f"Next: {following}", soft_wrap=True)
    return code


def _explain(
    again: Command,
    *,
    target: str,
    invocations: int,
    event: str | None,
    events: Path | None,
    as_json: bool,
    outputs: tuple[Path, ...],
    **given: Any,
) -> int:
    check_outputs(outputs, *ENDINGS)
    with steps() as progress:  # on the terminal before the imports, which take a while
        from ..runs.here import measure, need_explicable

        function = resolved(target, progress=progress, **given).with_one_worker()
        payloads = read_payloads(event, events, function)
        need_explicable(function)
        measurement = measure(function, payloads, Plan(invocations=invocations, most=invocations), Decision(), progress)
    check = again.without(*ONLY_HERE).named("check")
    commands = commands_local(check, can_explain=False, function=function.function)
    commands = replace(commands, longer="", with_memory=commands_local(again).with_memory)
    finding = replace(measurement, commands=commands).finding
    from ..explain.growth_page import page
    from ..explain.profiles import rendered, samples_in
    from ..explain.run import explained

    # a function that fails does so under a tracer too, and what it holds then tells nothing
    ends = finding.cause == "failing" or measurement.signal
    found = None if ends else explained(function, payloads, measurement)
    finding = finding if found is None else found.named(finding)
    signal = measurement.signal if found is None else found.signal
    if signal and not (found is not None and found.is_known):
        finding = replace(finding, next=str(again), next_when="")
    document: dict[str, Any] = {"checked": target, "finding": finding.document(), "notices": [*measurement.notices]}
    document |= {"endedEarly": True} if signal else {}
    if found is not None:
        document["explanation"] = found.document()
    headline = f"{target}: {finding.title}"
    for path in outputs:
        profile = rendered(path, samples_in(found, target), headline)
        text = page(found, headline) if path.suffix.lower() == ".html" else f"{json.dumps(document, indent=2)}\n"
        path.write_bytes(profile if profile is not None else text.encode())
    if as_json:
        click.echo(json.dumps(document, indent=2))
    else:
        out = output()
        for line in (*found.lines(), "") if found else ():
            say(out, line)
        say(out, finding.paragraph(), begin="- ")
        for notice in measurement.notices:
            say(out, notice, begin="note: ", style="dim")
    if signal:
        return 128 + signal
    return 0 if found is not None and found.is_known else 2
