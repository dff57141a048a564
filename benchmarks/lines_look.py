"""What `--lines` takes of an invocation that is not profiled, timed where it is spent. For lines_cost.

Two processes of one kind differ by some percent, so what differs by 0.5 % does not show between them. In the function
one process sends eight answers with the preload's look and eight without, by turns; in the sidecar a clock is around
what the lines do. Both are CPU time of the place alone: other programs on the machine hardly change it.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from truemem_workbench.local import LocalLambda

from benchmarks.contenders import EXTENSIONS

EACH = 8
"""Answers of a turn in benchmarks/functions/lines/timed.*; from one look of the preload to the next."""
WARM_UP = 6
"""Turns."""
MOST = 60


@dataclass
class Look:
    """CPU, µs of an invocation."""

    function: list[float] = field(default_factory=list)
    """With the look less without it, of each two turns."""
    sidecar: list[float] = field(default_factory=list)
    """Mean of each environment."""

    @property
    def added(self) -> tuple[float, float]:
        """In both, and the standard error."""
        function, sidecar = middle(self.function), statistics.fmean(self.sidecar)
        return function[0] + sidecar, (function[1] ** 2 + statistics.variance(self.sidecar) / len(self.sidecar)) ** 0.5


def middle(values: Sequence[float]) -> tuple[float, float]:
    """Median and its standard error, from the median deviation: an interrupt in one turn changes neither. 0 of none."""
    if not values:
        return 0.0, 0.0
    found = statistics.median(values)
    return found, 1.2533 * 1.4826 * statistics.median([abs(value - found) for value in values]) / len(values) ** 0.5


def take(environment: Callable[[Path, dict[str, str]], LocalLambda], look: Look, has_preload: bool) -> None:
    """One environment, until it is profiled. `environment` makes it with an extension and its variables."""
    with tempfile.TemporaryDirectory(prefix="truemem-look-", dir="/tmp") as name:
        extension, file = Path(name) / "truemem", Path(name) / "timed.json"
        extension.write_text(f'#!/bin/sh\nexec {sys.executable} -IS {EXTENSIONS / "timed_lines.py"} "$0"\n')
        extension.chmod(0o755)
        with environment(extension, {"TIMED": str(file)}) as local:
            turns = 0
            while turns < WARM_UP + MOST and not is_asked(local):
                for _ in range(EACH):
                    answer = local.invoke({"keep": False})
                    assert answer.function_error is None, answer
                turns += 1
            turns -= is_asked(local)
            assert turns > WARM_UP + 1, "it is profiled at once"
            if has_preload:
                spent: Any = local.invoke({"keep": False, "spent": True}).payload
                pairs = zip(spent[WARM_UP:turns:2], spent[WARM_UP + 1 : turns : 2], strict=False)
                look.function += [(looked - past) / EACH for looked, past in pairs]
        look.sidecar.append(statistics.fmean(json.loads(file.read_text())[EACH * WARM_UP : EACH * turns]))


def is_asked(local: LocalLambda) -> bool:
    """Has the sidecar asked for a profile?"""
    return any((local.environment_dir / "tmp").glob(".truemem-asked-*"))
