"""The command `truemem triage`: which functions of an account to attach first, from what Lambda logs itself."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import click

from ..aws.cloudwatch import way_option
from ..aws.selection import Selection, selected, selection_options
from ..support.bad_input import BadInput
from ..support.options import Finite, chosen, format_options, since_ms

EPILOG = """
\b
Examples:
  truemem triage
  truemem triage --tag team=ml --since 7d
  truemem triage --match 'api-*' --json
\b
Exit codes:
  0  the answer is printed
  2  bad input: no function, no REPORT line in that time, no access, or --most-usd is too little
"""


@click.command(epilog=EPILOG)
@selection_options
@click.option("--since", default="24h", show_default=True, metavar="AGO|TIME", help="`90m`, `3h`, `2d`, or ISO 8601.")
@way_option
@click.option(
    "--most-usd",
    default=1.0,
    show_default=True,
    type=Finite(0),
    metavar="USD",
    help="Read nothing if Logs Insights could cost more.",
)
@click.option("--top", default=10, show_default=True, type=click.IntRange(1), metavar="N", help="Most functions shown.")
@click.option("--all", "everything", is_flag=True, help="All functions.")
@format_options("text", "json", "line")
def triage(
    functions: tuple[str, ...],
    pattern: str | None,
    tag: str | None,
    stack: str | None,
    since: str,
    way: str,
    most_usd: float,
    top: int,
    everything: bool,
    form: str | None,
    as_json: bool,
) -> int:
    """Say which functions to attach first: of all in the region, or of those that are named or chosen.

    Reads what Lambda logs of each invocation (REPORT): no function is touched, and none needs the sidecar. `truemem
    report` does the same with files.
    """
    from ..judge.prices import dollars
    from ..support.terminal import counted, notify, output, progress
    from ..triage import account
    from ..triage.function import judged
    from ..triage.render import in_one_line, show

    form = chosen(form, as_json)
    now_ms = int(time.time() * 1000)
    begin_ms = int(since_ms(since, now_ms))
    if not (functions or pattern or tag or stack):
        pattern = "*"
    groups = account.groups_of(selected(Selection(functions, pattern, tag, stack)))
    if not groups:
        raise BadInput("no function that was chosen has a log group: none has run yet. Try others, or truemem check")
    read: Any = account.read_lines
    if way == "insights":
        read = account.count_lines
        usd = account.most_usd(groups)
        stored = sum(group.stored_bytes for group in groups) / 1e9
        said = f"{counted(len(groups), 'log group')} with {stored:,.1f} GB: Logs Insights costs {dollars(usd)} at most"
        if usd > most_usd:
            raise BadInput(
                f"{said}. Nothing was read. Try --most-usd {usd:.2f}, fewer functions, or --source filter (slow, free)"
            )
        notify("truemem triage", said)
    with progress("reading log groups", len(groups)) as done:
        found = judged(read(groups, begin_ms, now_ms, done))
    if not found:
        raise BadInput(f"no REPORT line since {since} in {counted(len(groups), 'log group')}. Try an earlier --since")
    if form == "json":
        document = {"summary": in_one_line(found), "functions": [each.document() for each in found]}
        json.dump(document, sys.stdout, indent=2)
        sys.stdout.write("\n")
    elif form == "line":
        output().print(in_one_line(found), soft_wrap=True)
    else:
        show(found, output(), None if everything else top)
    return 0
