"""The command `truemem bisect`."""

from __future__ import annotations

import json
import math
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..support.bad_input import BadInput, need_linux
from ..support.exit_codes import Ended, exit_with
from ..support.options import typed
from ..support.terminal import fitted, notify, output, say, steps, table
from ..support.typed_command import Command
from ..target.options import read_payloads, resolved
from .check import check

if TYPE_CHECKING:
    from ..bisect.answer import Answer
    from ..bisect.commits import Commits
    from ..bisect.gate import Trial
    from ..bisect.packages import Packages

NOT_OF_CHECK = (
    "target", "function_name", "log_group", "explain", "try_repair", "baseline", "max_growth", "write_baseline",
    "undecided_exit", "form", "as_json", "outputs",
)  # fmt: skip
"""Parameters of `truemem check` that make no sense for many versions."""
OWN = ("--good", "--bad", "--package", "--first-parent", "--build", "--json", "--no-explain")
EPILOG = """
\b
Examples:
  truemem bisect app.py:handler --good v1.4 --bad main --events events.jsonl
  truemem bisect app.py:handler --package boto3 --good 1.24 --bad 1.25
  truemem bisect dist/app.js:handler --good v1 --bad main --build 'npm ci'
\b
Exit codes:
  0  one commit or version is named
  2  none is named: --good fails or --bad passes, some could not be judged, or the input cannot be used
  130, 143  Ctrl-C or SIGTERM: what is known so far is printed, and the command that continues
"""


@click.command(epilog=EPILOG, context_settings={"max_content_width": 110})
@click.argument("target", metavar="FILE:HANDLER|BOOTSTRAP|TEMPLATE.yaml:LOGICAL_ID")
@click.option("--good", required=True, metavar="REV|VERSION", help="A commit or version that passes the gate.")
@click.option("--bad", required=True, metavar="REV|VERSION", help="A commit or version that fails it.")
@click.option(
    "--package",
    metavar="NAME",
    help="Search the versions of this package, of PyPI or npm [default: commits of the repository].",
)
@click.option("--first-parent", is_flag=True, help="Take a merge as one commit.")
@click.option(
    "--build", metavar="COMMAND", help="Run this before each one is measured: a build, or an installation of packages."
)
@click.option("--no-explain", is_flag=True, help="Do not ask which line holds what grows.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def bisect(context: click.Context, /, **given: Any) -> None:
    """Find the commit, or the version of a package, that made a function's memory grow.

    Each commit or version that is tried runs through the gate, `truemem check`, with its options, as below. Commits are
    checked out in a temporary worktree. One that cannot be judged is skipped. If --good is the newer one, the first
    that repaired it is named.
    """
    command = typed(context, "bisect")
    exit_with(context, "truemem bisect", lambda: _bisect(command, **given))


bisect.params += [each for each in check.params if each.name not in NOT_OF_CHECK]


def _bisect(
    command: Command,
    *,
    target: str,
    good: str,
    bad: str,
    package: str | None,
    first_parent: bool,
    build: str | None,
    as_json: bool,
    event: str | None,
    events: Path | None,
    no_explain: bool,
    **given: Any,
) -> int:
    need_linux("the local Lambda")
    if event == "-":
        raise BadInput("--event - is read once, and each version needs it. Try --event @FILE")
    if package and first_parent:
        raise BadInput(f"--first-parent is for commits, and --package {package} has none. Leave one out")
    read_payloads(event, events)
    from ..bisect.answer import Answer
    from ..bisect.commits import Commits
    from ..bisect.packages import Packages

    options = ("python", "cmd", "timeout_s", "env", "memory_mib", "cpu", "extensions")
    function = resolved(target, **{name: given[name] for name in options})
    if function.function.image is not None:
        raise BadInput(f"{target} is built already: no version can be put into it. Try its handler's file")
    function.settings()
    with tempfile.TemporaryDirectory(prefix="truemem-bisect-") as name:
        place = Path(name)
        place.chmod(0o755)  # the function may run as another user
        history = (
            Packages(function, package, good, bad, place, build=build)
            if package
            else Commits(function, good, bad, place, first_parent=first_parent, build=build)
        )
        answer = Answer(
            spec=target,
            command=command,
            package=package,
            is_node=function.function.language == "nodejs",
            order=history.order,
            is_repair=history.old == history.bad,
            tried={},
        )
        answer, signal = _searched(answer, history, command.without(*OWN).named("check"), explain=not no_explain)
    answer = replace(answer, notices=tuple(history.notices))
    _print(answer, as_json)
    return 128 + signal if signal else answer.exit_code


def _searched(answer: Answer, history: Commits | Packages, check: Command, *, explain: bool) -> tuple[Answer, int]:
    """The search itself: both ends, what lies between, and the line. With the signal that has ended it, or 0."""
    from ..bisect import gate
    from ..bisect.answer import not_as_given
    from ..bisect.search import Unready, search

    tried: dict[str, Trial] = {}
    named = {each.name: each for each in history.order}
    answer = replace(answer, tried=tried)

    def ask(name: str, of: int) -> Trial:
        count = f"{len(tried) + 1} of about {len(tried) + 1 + math.floor(math.log2(of))}"
        with steps() as progress:
            progress(named[name].shown, len(tried), len(tried) + of.bit_length())
            try:
                with history.ready(name) as ready:
                    trial = gate.tried(named[name], check, ready)
            except Unready as problem:
                trial = gate.Trial(version=named[name], outcome="skipped", said=str(problem), seconds=0.0)
        tried[name] = trial
        notify("truemem bisect", f"{count}: {trial.version} is {trial.outcome}: {trial.said}")
        return trial

    def is_as_new(name: str, of: int) -> bool | None:
        outcome = ask(name, of).outcome
        return None if outcome == "skipped" else outcome == tried[history.new].outcome

    try:
        for end, more in ((history.good, 2), (history.bad, 1)):
            if ask(end, more * len(named)).outcome == "skipped":
                break
        if problem := not_as_given(tried[history.good], tried.get(history.bad), answer.package is not None):
            return replace(answer, problem=problem), 0
        answer = replace(answer, found=search(history, history.old, history.new, is_as_new))
        first, before = answer.first, answer.before
        if first is not None and before is not None:
            answer = replace(answer, others=history.others(before.version.name, first.version.name))
            grows = before if answer.is_repair else first
            if explain:
                with suppress(Unready), steps() as progress, history.ready(grows.version.name) as ready:
                    progress(f"lines of {grows.version.shown}", len(tried), len(tried))
                    answer = replace(answer, line=gate.holding(check, ready))
    except Ended as ended:
        return replace(answer, problem="It was ended before one was left.", is_cut=True), ended.number
    return answer, 0


def _print(answer: Answer, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(answer.document(), indent=2))
        return
    out = output()
    say(out, answer.headline)
    about = ["date", "subject"] if answer.package is None else []
    grid = table("", [answer.one, *about], [], ["", "what the gate says"])
    for each in answer.trials:
        texts = [each.version.date, each.version.subject] if about else []
        grid.add_row(each.version.shown, *texts, each.outcome, each.said)
    out.print(fitted(grid, out))
    for notice in answer.notices:
        say(out, notice, begin="note: ", style="dim")
    following = answer.next()
    say(out, f"{answer.sentence()}{f' Next: {following}' if following else ''}", begin="- ")
