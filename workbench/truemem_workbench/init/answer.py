"""What init says: what it has written, what the gates said, and what to type next."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..support.document import known_members
from ..support.failed_answer import MISSING_MODULE, UNSET_VARIABLE
from ..support.terminal import output, say, some, table
from ..support.typed_command import following
from .gates import Ran, worst
from .plan import Plan
from .repository import File

WRITTEN = {"new": "written", "same": "as it was", "other": "left as it is, with another text (--force overwrites it)"}

OF_OTHERS = re.compile(rf"{MISSING_MODULE.pattern}|{UNSET_VARIABLE.pattern}|Cannot find (module|package)|Runtime\.")
"""Errors that no event repairs, and whose finding says what does."""
CALLS_AWS = re.compile(
    r"EndpointConnectionError|amazonaws\.com|(ENOTFOUND|ECONNREFUSED|EAI_AGAIN)|ConnectTimeout|Credentials|Region"
)
STAND_IN = "http://localhost:4566"
"""Where LocalStack listens. The SDKs take AWS_ENDPOINT_URL."""


def told(plan: Plan, states: Mapping[File, str]) -> None:
    """Print what was found and written."""
    printer = output()
    for found, command in plan.checks:
        say(printer, f"found {found.name}: {command.arguments[0]}")
        if stands := [value or "" for option, value in found.options if option == "--env"]:
            say(printer, f"  only a stack knows these variables, so a name stands for each: {some(stands)}")
    for file in plan.files:
        say(printer, f"{WRITTEN[states[file]]}: {file.path}")
    for sentence in plan.by_hand:
        say(printer, f"to do: {sentence}")


def built(new: Sequence[Path]) -> None:
    """Print which files the builds have added beside the sources."""
    if new:
        say(output(), f"written by the build: {some([*map(str, new)])}")


def dry(plan: Plan) -> None:
    """Print the files and commands of a run that does nothing."""
    printer = output()
    for file in plan.files:
        say(printer, f"--- {file.path} ({file.state})")
        lines = file.text.splitlines()
        for line in lines[:3] if file.path.suffix == ".jsonl" else lines:
            printer.print(line, soft_wrap=True)
        if file.path.suffix == ".jsonl" and len(lines) > 3:
            printer.print(f"... {len(lines)} lines")
    for build in plan.builds:
        say(printer, f"would build: {build}")
    for _, command in plan.checks:
        say(printer, f"would run: {command}")
    for sentence in plan.by_hand:
        say(printer, f"to do: {sentence}")
    say(printer, "Next: truemem init")


def answer(ran: Sequence[Ran], left: Sequence[str]) -> None:
    """Print what the gates said: one whole, of several a line each, and the whole of the worst. `left`: the functions
    that were not run."""
    printer = output()
    if not ran:
        return
    first = worst(ran)
    if len(ran) > 1 or left:
        rows = table(f"{len(ran) + len(left)} functions", ["function", "answer", "finding"], [], [])
        for each in sorted(ran, key=lambda one: one.rank, reverse=True):
            rows.add_row(each.found.name, each.outcome, each.said)
        for name in left:
            rows.add_row(name, "not run", f"its turn was too late. Try truemem init --function {name}")
        printer.print(rows)
    if trouble := _trouble(first):
        say(printer, trouble)
    if first.text:
        printer.print()
        said = following(str(first.finding.get("next", "")), str(first.finding.get("nextWhen", "")))
        text = first.text.replace(f" {said}", "")  # it is the last line
        if first.is_failing and CALLS_AWS.search(next(iter(first.finding.get("evidence", [])), "")):
            text = text.replace(f" {first.finding.get('repair')}", "")  # no event repairs that
        for line in text.rstrip("\n").splitlines():
            printer.print(line, soft_wrap=True)


def _trouble(ran: Ran) -> str:
    """Why it has no answer about memory, and what the reader can do. Empty if it has one, or if its finding says it."""
    name, said = ran.found.name, next(iter(ran.finding.get("evidence", [])), "")
    if ran.document is None:
        return f"{name} could not be run: {ran.why}"
    if not ran.is_failing or OF_OTHERS.search(said):
        return ""
    if CALLS_AWS.search(said):
        return f"{name} calls AWS, which does not answer it here. A stand-in such as LocalStack or moto would"
    stands = [value for option, value in ran.command.options if option == "--env"]
    return f"{name} may want another value than {stands[0]}, which stands for the stack's" if stands else ""


def next_step(plan: Plan, ran: Sequence[Ran]) -> tuple[str, str]:
    """The command to type next, and when, if it makes sense after something else only."""
    if not ran:
        return str(plan.checks[0][1]), ""
    first = worst(ran)
    said = next(iter(first.finding.get("evidence", [])), "")
    if first.document is None:
        return "truemem init", "after the repair"
    if first.is_failing and not OF_OTHERS.search(said):
        if CALLS_AWS.search(said):
            return str(first.command.with_option("--env", f"AWS_ENDPOINT_URL={STAND_IN}")), "with a stand-in there"
        return str(first.command), "after the edit"
    if first.outcome == "passed" and plan.is_in_git:
        return f"git add {shlex.join(str(file.path) for file in plan.files)}", ""
    is_broken = first.outcome == "failed" and first.finding.get("cause") != "undecided"
    when = str(first.finding.get("nextWhen") or ("after the repair" if is_broken else ""))
    command, rebuilt = str(first.finding.get("next") or first.command), first.found.rebuild
    is_told = when != "after the repair" or command.startswith(rebuilt)
    return (command if is_told else f"{rebuilt}{command}"), when


def document(plan: Plan, states: Mapping[File, str], ran: Sequence[Ran]) -> dict[str, object]:
    """The document of --json."""
    answers = {each.found.name: each for each in ran}
    command, when = next_step(plan, ran)
    return known_members(
        {
            "functions": [
                known_members(
                    {
                        "name": found.name,
                        "target": found.target,
                        "language": found.language,
                        "command": str(check),
                        "outcome": answers[found.name].outcome if found.name in answers else None,
                        "why": (answers[found.name].why or None) if found.name in answers else None,
                        "check": answers[found.name].document if found.name in answers else None,
                    }
                )
                for found, check in plan.checks
            ],
            "files": [{"path": str(file.path), "state": states[file]} for file in plan.files],
            "byHand": list(plan.by_hand),
            "next": command,
            "nextWhen": when or None,
        }
    )
