"""What can be typed next, where a finding is printed. Pure."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

_EVENTS = re.compile(r" --events (?:'[^']*'|\S+)")
"""An option that `truemem local run` does not have."""


@dataclass(frozen=True, kw_only=True)
class Commands:
    """A command for each purpose. Empty: there is none."""

    again: str
    """Measures once more."""
    longer: str = ""
    explain: str = ""
    """Names the line."""
    heap: str = ""
    """Turns the heap's witness on."""
    repair: str = ""
    """Tries a repair that is a setting."""
    smaller_heap: str = ""
    """Ends with `--env`: a variable follows."""
    log: str = ""
    """Shows what a function says."""
    extensions: str = ""
    """Shows which extensions there are."""
    size: str = ""
    """What to do with a function whose memory is well."""


def of_deployed(function: str) -> Commands:
    """The commands for a function in AWS, by its name, which may be empty."""
    name = shlex.quote(function or "NAME")
    return Commands(
        again=f"truemem report --function {name} --since 24h",
        explain=f"truemem events {name} --since 1h --output events.jsonl",
        heap=f"truemem attach {name} --heap",
        log=f"aws logs tail /aws/lambda/{name} --since 1h",
        extensions=f"aws lambda get-function-configuration --function-name {name} --query Layers",
        size=f"truemem report --function {name} --since 7d --invocations-per-month 1000000",
    )


def of_local(command: str, *, is_probed: bool = True, can_explain: bool = True) -> Commands:
    """The commands for a function here. `command`: the one that measured it, with its options. `is_probed`: without
    the probe the next run loads it. `can_explain`: --explain can trace it."""
    spec = command.replace("truemem local run", "truemem check", 1)
    return Commands(
        again=spec,
        longer=f"{spec} --invocations 2000",
        explain=f"{spec} --explain" if can_explain else "",
        heap="" if is_probed else spec,
        repair=f"{spec} --try-repair",
        smaller_heap=f"{spec} --env",
        log=_EVENTS.sub("", spec).replace("truemem check", "truemem local run", 1)
        + ("" if " --event " in spec else " --event '{}'"),
        size=f"{spec} --write-baseline memory.json",
    )
