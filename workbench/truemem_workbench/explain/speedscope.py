"""`--output growth.speedscope.json`: what grew as a profile for https://www.speedscope.app, in a browser. Pure.

Its format: https://github.com/jlfwong/speedscope/wiki/Importing-from-custom-sources
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from truemem import VERSION

from ..judge.growth_lines import Growth

_FRAME = re.compile(r"(?P<file>.+?):(?P<line>\d+)(?: (?P<function>.+))?")


def speedscope(growths: Mapping[str, Growth], name: str) -> dict[str, Any]:
    """The document: a sampled profile for each function and version, whose weights are bytes per invocation."""
    frames: dict[str, int] = {}
    profiles = []
    for version, growth in growths.items():
        stacks = [each.line.stack or (each.line.place,) for each in growth.lines]
        weights = [round(each.line.kib * 1024) for each in growth.lines]
        profiles.append(
            {
                "type": "sampled",
                "name": version,
                "unit": "bytes",
                "startValue": 0,
                "endValue": sum(weights),
                "samples": [[frames.setdefault(frame, len(frames)) for frame in stack] for stack in stacks],
                "weights": weights,
            }
        )
    return {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": f"truemem {VERSION}",
        "name": name,
        "activeProfileIndex": 0,
        "shared": {"frames": list(map(_frame, frames))},
        "profiles": profiles,
    }


def _frame(text: str) -> dict[str, Any]:
    found = _FRAME.fullmatch(text)
    if found is None:
        return {"name": text}
    return {"name": found["function"] or text, "file": found["file"], "line": int(found["line"])}
