"""The view of a soak that runs: memory by environment, latency, errors, throttles, and the finding so far."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from ..support.terminal import at_terminal, console, counted, mib, steps, table
from .result import clock_time, percentiles
from .tally import Tally

JUDGED_EVERY_S = 20.0
SHARE = 50
"""The finding so far is not made anew before so many times the time that it takes."""
ROWS = 12
"""Most environments that are shown: those that live, the youngest last."""


@contextmanager
def live(spec: str, for_s: float, judged: Callable[[Tally], str]) -> Iterator[Callable[[Tally], None]]:
    """A view on stderr. Yields what draws it anew, of the figures and the finding so far, which `judged` makes: now and
    then, as that takes CPU from the requests. Without a terminal the finding is not made, and a line says how far it
    is."""
    if not at_terminal():
        with steps() as show:
            yield lambda tally: show(
                f"{counted(tally.invocations, 'request')} served (seconds)", int(tally.seconds), int(for_s)
            )
        return
    said, next_s = "", JUDGED_EVERY_S
    with Live(console=console(stderr=True), auto_refresh=False, transient=True) as view:

        def draw(tally: Tally) -> None:
            nonlocal said, next_s
            if tally.seconds >= next_s:
                begun = time.monotonic()
                said = judged(tally)
                next_s = tally.seconds + max(JUDGED_EVERY_S, SHARE * (time.monotonic() - begun))
            view.update(shown(spec, for_s, tally, said), refresh=True)

        yield draw


def shown(spec: str, for_s: float, tally: Tally, said: str) -> RenderableType:
    """The view as it is now. `said`: the finding so far."""
    alive = [each for each in tally.environments if not each.ended]
    latency = "  ".join(f"{name} {value:,.0f} ms" for name, value in percentiles(tally.latency).items())
    failed = sum(tally.errors.values())
    made = table("", ("environment",), ("served", "current", "peak"), ())
    for each in alive[-ROWS:]:
        made.add_row(each.id[:12], f"{each.served:,}", mib(each.last_mib), mib(each.peak_mib))
    served = f"{tally.invocations:,} served, {failed:,} failed, {tally.throttled:,} throttled"
    figures = f"{served}, {counted(tally.cold, 'cold start')}; {counted(len(alive), 'environment')}"
    head = f"{spec}: {clock_time(tally.seconds)} of {clock_time(for_s)} (Ctrl-C ends it with the report)"
    return Group(Text(head, style="bold"), Text(figures), Text(latency), made, Text(said))
