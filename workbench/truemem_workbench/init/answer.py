"""What init says: what it has written, what the gates said, and what to type next."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from ..support.document import known_members
from ..support.terminal import output, say, table
from .gates import Ran, worst
from .plan import Plan
from .repository import File

WRITTEN = {"new": "written", "same": "as it was", "other": "left as it is: it has another text (--force writes it)"}


def told(plan: Plan, states: Mapping[File, str]) -> None:
    """Print what was found and written."""
    printer = output()
    for found, command in plan.checks:
        say(printer, f"found {found.name}: {command.arguments[0]}")
    for file in plan.files:
        say(printer, f"{WRITTEN[states[file]]}: {file.path}")
    for sentence in plan.by_hand:
        say(printer, f"to do: {sentence}")


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


def answer(ran: Sequence[Ran], left: int) -> None:
    """Print what the gates said: one whole, of several a line each, and the whole of the worst. `left`: how many were
    not run."""
    printer = output()
    if not ran:
        return
    first = worst(ran)
    if len(ran) > 1 or left:
        rows = table(f"{len(ran) + left} functions", ["function", "answer", "finding"], [], [])
        for each in sorted(ran, key=lambda one: one.rank, reverse=True):
            rows.add_row(each.found.name, each.outcome, each.said)
        printer.print(rows)
    if first.is_failing:
        file = dict(first.command.options)["--events"]
        said = next(iter(first.finding.get("evidence", [])), "its invocations fail")
        say(printer, f"{first.found.name} fails with the events of {file}: {said}. They are samples: put there what it"
                     " really gets, one event on each line (one is enough)")  # fmt: skip
    if first.text:
        printer.print()
        for line in first.text.rstrip("\n").splitlines():
            printer.print(line, soft_wrap=True)


def following(plan: Plan, ran: Sequence[Ran]) -> tuple[str, str]:
    """The command to type next, and when, if it makes sense after something else only."""
    if not ran:
        return str(plan.checks[0][1]), ""
    first = worst(ran)
    if first.is_failing:
        return str(first.command), "after the edit"
    if first.outcome == "failed":
        finding = first.finding
        return str(finding.get("next") or first.command), str(finding.get("nextWhen") or "after the repair")
    if first.outcome == "unknown":
        return str(first.finding.get("next") or first.command), str(first.finding.get("nextWhen") or "")
    return f"git add {shlex.join(str(file.path) for file in plan.files)}", ""


def document(plan: Plan, states: Mapping[File, str], ran: Sequence[Ran]) -> dict[str, object]:
    """The document of --json."""
    answers = {each.found.name: each for each in ran}
    command, when = following(plan, ran)
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


def last(command: str, when: str) -> str:
    """The last line."""
    return f"Next, {when}: {command}" if when else f"Next: {command}"
