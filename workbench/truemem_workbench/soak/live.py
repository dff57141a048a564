"""The view of a soak that runs: memory by environment, latency, errors, throttles, and the finding so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from ..support.terminal import console, counted, mib, table
from .result import clock_time, percentiles
from .tally import Tally

EVERY_S = 1.0
ROWS = 12
"""Most environments that are shown: those that live, the youngest last."""


@contextmanager
def live(spec: str, for_s: float) -> Iterator[Callable[[Tally, str], None] | None]:
    """A view on stderr. Yields what draws it anew, of the figures and the finding so far; None without a terminal."""
    stderr = console(stderr=True)
    if not stderr.is_terminal:
        yield None
        return
    with Live(console=stderr, auto_refresh=False, transient=True) as view:
        yield lambda tally, said: view.update(shown(spec, for_s, tally, said), refresh=True)


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
