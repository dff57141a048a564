"""Writes the answers into docs/verified.md as a table: one row per question, one column per variant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

BEGIN, END = "<!-- probe: made by make probe -->", "<!-- /probe -->"

FALL_MIB = 16
"""A watermark must fall by this much, half of the spike, to show that the reset works."""

Results = Mapping[str, Mapping[str, Any]]
"""Results of `questions.ask`, by variant."""


def table(results: Results, day: str, region: str) -> str:
    """The table in Markdown. A refused step shows its errno; a step that was not asked, a dash."""
    names = list(results)
    lines = [f"| question | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    lines += [_row(question, [_step(results[name], step, shown) for name in names]) for question, step, shown in ROWS]
    lines.append(_row("what the sidecar itself says", [_code(results[name].get("sidecar")) for name in names]))
    lines += [_row(question, [_mark(results[name]["answers"], at) for name in names]) for question, at in MARKS.items()]
    lines.append(_row("all in one environment", [_one_environment(results[name]["answers"]) for name in names]))
    return "\n".join([f"Verified on the service on {day}, in {region}.", "", *lines])


def placed(page: str, text: str) -> str:
    """`page` with `text` between the marks. Raises ValueError if it has none."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"no {BEGIN} ... {END} to put the table between")
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def _row(question: str, cells: list[str]) -> str:
    return f"| {question} | {' | '.join(cells)} |"


def _code(text: str | None) -> str:
    return f"`{text.replace('|', '/')}`" if text else "-"


def _step(result: Mapping[str, Any], step: str, shown: Callable[[Any], str]) -> str:
    outcome = result["answers"][0].get("steps", {}).get(step)
    if outcome is None:
        return "-"
    if not outcome["ok"]:
        return f"no: {outcome.get('errno') or outcome['error']}"
    return shown(outcome["value"]).replace("|", "/").replace("\n", " ") or "empty"


def _mark(answers: list[Mapping[str, Any]], at: int) -> str:
    """Max Memory Used after that question, with the function's RSS beside it."""
    if at >= len(answers) or "maxMemoryUsedMiB" not in answers[at]:
        return "-"
    answer = answers[at]
    moved = f", {answer['bytes'] >> 20} MiB moved" if "bytes" in answer else ""
    held = f", RSS {answer['rss']['value']['VmRSS'] >> 10}" if answer["rss"]["ok"] else ""
    return f"{answer['maxMemoryUsedMiB']} MiB{held}{moved}"


def _one_environment(answers: list[Mapping[str, Any]]) -> str:
    """Say whether one process gave all answers. Only then can the marks be compared."""
    return "yes" if len({(answer["logStream"], answer["born"]) for answer in answers}) == 1 else "no: ask again"


def _reset(value: Any) -> str:
    """Describe a reset. It says `works` only if a mark fell; otherwise it only shows that the write is permitted."""
    before, after = value["before"]["VmHWM"] >> 10, value["after"]["VmHWM"] >> 10
    if value.get("works", before - after > FALL_MIB):
        word = "works"
    else:
        word = "accepted, but the mark does not follow" if "works" in value else "accepted"
    return f"{word}: {before} to {after} MiB in {value['us']:g} µs"


def _yes(_: Any) -> str:
    return "yes"


def _pairs(value: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {' '.join(str(each).split())}" for name, each in value.items())


def _total(value: Mapping[str, int]) -> str:
    return f"{value['MemTotal'] >> 10} MiB of {value['configuredMiB']}"


def _seen(value: list[Mapping[str, Any]]) -> str:
    return f"{len(value)} processes, uids {sorted({each['uid'].get('value', '?') for each in value}, key=str)}"


def _change(value: Mapping[str, int]) -> str:
    return f"yes: {value['before']} to {value['after']}"


ROWS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("kernel", "kernel", lambda value: f"{value['release']} {value['machine']}"),
    ("C library of the runtime", "libc", str),
    ("MemTotal, configured size", "memory total", _total),
    ("uid, NoNewPrivs, Seccomp, capabilities", "identity", _pairs),
    ("mount options of /proc", "proc options", str),
    ("processes that can be seen", "processes", _seen),
    ("reset of a process's own watermark", "clear_refs own", _reset),
    ("reset of another's, same uid", "clear_refs other", _reset),
    ("reset of a child's", "clear_refs other by its parent", _reset),
    ("/proc/PID/status of another", "status other", _yes),
    ("smaps_rollup of another", "smaps_rollup other", _yes),
    ("environ of another", "environ other", lambda value: " ".join(value) or "yes"),
    ("fd of another: sockets", "fd other", str),
    ("SO_TIMESTAMPNS", "SO_TIMESTAMPNS", _pairs),
    ("oom_score_adj raised", "oom_score_adj raise", _change),
    ("oom_score_adj lowered below its start", "oom_score_adj lower", _change),
    ("/proc/self/cgroup", "own cgroup", str),
    ("/sys/fs/cgroup", "cgroup files", lambda value: " ".join(value["entries"])),
    ("/proc/pressure/memory", "pressure", _yes),
)
"""Question, step, and how its value is shown."""

MARKS = {
    "Max Memory Used at the start": 1,
    "after files of the runtime were read": 2,
    "after that, nothing done": 3,
    "after a file was written to /tmp": 4,
    "after it was read": 5,
}
"""Question of each mark, and the place of its answer."""
