"""Lines with a profile of what keeps memory, as the sidecar prints them under TRUEMEM_LINES."""

import json
from collections.abc import Sequence
from typing import Any

STACK = ("app.mjs:30 handler", "app.mjs:12 save")


def growth_line(kib: float = 1000.0, line: int = 12, **members: Any) -> dict[str, Any]:
    """A member of `growthLines`."""
    usual = {"file": "app.mjs", "line": line, "function": "save", "share": 0.97, "stack": list(STACK)}
    return {**usual, "perInvocationKiB": kib, **members}


PROFILE = {
    "runtime": "nodejs",
    "invocations": 60,
    "looks": 6,
    "cpuPercent": 12.5,
    "memoryKiB": 410,
    "lookMs": 85,
    "gaveUp": "",
    "restKiB": 0.4,
}
"""What a profile says beside its lines."""


def with_profile(lines: Sequence[str], *growth_lines: Any, at: int = 150, **profile: Any) -> list[str]:
    """The lines, of which that at `at` has a profile with these lines of code."""
    members = json.loads(lines[at])
    members["growthLines"] = list(growth_lines)
    members["growthProfile"] = {**PROFILE, **profile}
    return [*lines[:at], json.dumps(members, separators=(",", ":")), *lines[at + 1 :]]
