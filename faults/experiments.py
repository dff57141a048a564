"""All experiments, in full and in short."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from faults import (
    calls,
    collectors,
    deaths,
    exact_mode,
    injected,
    journal_paths,
    kills,
    lifecycle,
    oom,
    soak,
    stalls,
    standard_output,
)
from faults.result import Row
from faults.subject import Subject

Advance = Callable[[], None]
Step = Callable[[Advance], list[Row]]


@dataclass(frozen=True)
class Experiment:
    """Some steps, each with its own rows."""

    name: str
    steps: Sequence[Step]
    total: int
    """Number of reports of progress."""
    table: str = "faults"
    """Table of the page that has its rows."""


def _one(step: Callable[..., Row], *arguments: object, **settings: object) -> Step:
    def run(advance: Advance) -> list[Row]:
        return [step(*arguments, advance=advance, **settings)]

    return run


def experiments(subject: Subject, *, quick: bool = False) -> list[Experiment]:
    """The experiments in the order of the table."""
    return [
        _memory(subject, quick),
        _deaths(subject, quick),
        _kills(subject, quick),
        _soak(subject, quick),
        _calls(quick),
        _injected(subject, quick),
        _lifecycle(subject, quick),
        _paths(subject),
        _streams(subject, quick),
        _stalls(subject, quick),
        _exact_mode(subject, quick),
        _collectors(subject, quick),
    ]


def _memory(subject: Subject, quick: bool) -> Experiment:
    if quick:
        planned: list[tuple[int, str, int, int | None]] = [(128, "fast", 1, None), (128, "children", 2, None)]
    else:
        shares = {"fast": 20, "slow": 6, "child": 12, "children": 12}
        planned = [(mib, shape, count, None) for mib in (128, 256, 512) for shape, count in shares.items()]
        planned += [(mib, shape, 5, 0) for mib in (128, 512) for shape in ("fast", "children")]
    steps = [
        _one(oom.out_of_memory, subject, mib, shape, count, adjustment=adjustment)
        for mib, shape, count, adjustment in planned
    ]
    struck = 2 if quick else 20
    steps.append(_one(oom.killed_in_the_shutdown, subject, struck))
    return Experiment("out-of-memory", steps, sum(count for _, _, count, _ in planned) + struck)


def _deaths(subject: Subject, quick: bool) -> Experiment:
    planned, sizes = (deaths.DEATHS[::16], deaths.SIZES[:1]) if quick else (deaths.DEATHS, deaths.SIZES)
    steps = [_one(deaths.deaths, subject, death, sizes=sizes) for death in planned]
    return Experiment("deaths", steps, len(planned) * len(sizes) * 2, table="deaths")


def _kills(subject: Subject, quick: bool) -> Experiment:
    bare, shared, local = (25, 5, 2) if quick else (500, 150, 40)
    together = _one(
        kills.kills, subject, shared, variables=kills.AGGREGATE, name="the same, invocations sharing their lines"
    )
    steps = [
        _one(kills.kills, subject, bare),
        together,
        _one(kills.kills_under_the_local_lambda, subject, local),
    ]
    return Experiment("kills", steps, bare + shared + local)


def _soak(subject: Subject, quick: bool) -> Experiment:
    count, warm, long_s = (1500, 1000, 1) if quick else (100_000, soak.WARM, 150)
    return Experiment("soak", [_one(soak.soak, subject, count, warm=warm, long_s=long_s)], count + warm)


def _calls(quick: bool) -> Experiment:
    planned = calls.faults()[:: 16 if quick else 1]
    return Experiment("calls", [partial(calls.sweep, planned)], len(planned))


def _injected(subject: Subject, quick: bool) -> Experiment:
    some = slice(None, None, 8 if quick else 1)
    planned, exact = injected.faults()[some], injected.faults(injected.EXACT)[some]
    steps = [
        partial(injected.sweep, subject, planned),
        partial(injected.sweep, subject, exact, exact=True),
    ]
    return Experiment("injected", steps, len(planned) + len(exact))


def _lifecycle(subject: Subject, quick: bool) -> Experiment:
    names = ["crash", "extension"] if quick else list(lifecycle.FAULTS)
    count = 1 if quick else 10
    return Experiment("life-cycle", [_one(lifecycle.life, subject, name, count) for name in names], count * len(names))


def _paths(subject: Subject) -> Experiment:
    steps = [_one(journal_paths.in_the_way, subject, title) for title in journal_paths.PATHS]
    return Experiment("journal", steps, len(steps))


def _streams(subject: Subject, quick: bool) -> Experiment:
    some, many = (10, 450) if quick else (100, 5000)
    steps = [_one(standard_output.gone, subject, title, some) for title in standard_output.GONE]
    return Experiment(
        "stdout", [*steps, _one(standard_output.blocked, subject, many)], some * len(standard_output.GONE) + many
    )


def _stalls(subject: Subject, quick: bool) -> Experiment:
    count = 60 if quick else 800
    return Experiment(
        "stalls", [_one(stalls.stalls, subject, mode, count) for mode in stalls.MODES], count * len(stalls.MODES)
    )


def _exact_mode(subject: Subject, quick: bool) -> Experiment:
    rounds, bugs = (1, exact_mode.BUGS[:1]) if quick else (5, exact_mode.BUGS)
    titles = [*exact_mode.CLIENTS, *exact_mode.CONDITIONS]
    steps = [_one(exact_mode.held, subject, title, rounds) for title in titles]
    steps.append(_one(exact_mode.throwing, rounds, bugs=bugs))
    return Experiment("exact-mode", steps, rounds * (len(titles) + len(bugs)))


def _collectors(subject: Subject, quick: bool) -> Experiment:
    faults, seconds, count = collectors.titles(quick), 2.5 if quick else 8.0, 20 if quick else 500
    steps = [_one(collectors.sends, subject, fault, seconds) for fault in faults]
    steps += [_one(collectors.datagrams, subject, title, count) for title in collectors.AGENTS]
    return Experiment("collectors", steps, len(faults) + count * len(collectors.AGENTS), table="collectors")
