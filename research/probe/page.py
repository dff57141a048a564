"""Makes the tables of docs/verified.md from all documents of `python -m research.probe`: docs/verified/*.json."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from truemem_workbench.support.untrusted_text import markdown

from . import SCHEMA

BEGIN, END = "<!-- verified: made by make verified -->", "<!-- /verified -->"
NOT_YET = "**Not yet verified on the service.**"
FALL_MIB = 16
"""A watermark must fall by this much, half of the spike, to show that the reset works."""

Document = Mapping[str, Any]


def read(folder: Path) -> list[Document]:
    """The documents of a folder, newest first. Raises ValueError that names the file if it is not such a document."""
    found = []
    for path in sorted(folder.glob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(document, dict) or document.get("schema") != SCHEMA:
            raise ValueError(f"{path}: not a document of research.probe, schema {SCHEMA}. Make it again")
        found.append(document)
    return sorted(found, key=lambda document: (document["date"], document["region"]), reverse=True)


def placed(page: str, text: str) -> str:
    """`page` with `text` between the marks. Raises ValueError if it has none."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"no {BEGIN} ... {END} to put the table between")
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def tables(documents: Sequence[Document]) -> str:
    """A heading and a table in Markdown for each document; or that there is none yet."""
    return "\n\n".join(map(_table, documents)) or NOT_YET


def _table(document: Document) -> str:
    """A row for each question, a column for each architecture. A refused step shows its error, one not asked a dash."""
    results = document["results"]
    shown = [markdown(str(document[name])) for name in ("date", "region", "truemem", "memoryMiB")]
    head = [f"{result['architecture']}, {result['runtime']}" for result in results]
    lines = [
        "## {}, {}, truemem {}, {} MB".format(*shown),
        "",
        _row("question", head),
        "|---" * (len(head) + 1) + "|",
    ]
    outcomes = [result["outcomes"] for result in results]
    lines += [_row(question, [_cell(each.get(name), show) for each in outcomes]) for question, name, show in ROWS]
    marks = dict.fromkeys(when for each in outcomes for when in each.get("mark", {}).get("value", {}))
    lines += [_row(f"Max Memory Used {when}", [_mark(each.get("mark"), when) for each in outcomes]) for when in marks]
    wrapped = dict.fromkeys(name for each in outcomes for name in each if name.startswith("exec wrapper "))
    lines += [_row(name, [_cell(each.get(name), _wrapper) for each in outcomes]) for name in wrapped]
    return "\n".join(lines)


def _row(question: str, cells: Sequence[str]) -> str:
    return f"| {markdown(question)} | {' | '.join(map(markdown, cells))} |"


def _cell(outcome: Mapping[str, Any] | None, show: Callable[[Any], str]) -> str:
    if outcome is None:
        return "-"
    if not outcome["ok"]:
        return f"no: {outcome.get('errno') or outcome['error']}"
    return " ".join(show(outcome["value"]).split()) or "empty"


def _mark(outcome: Mapping[str, Any] | None, when: str) -> str:
    """Max Memory Used after that question, with what the function held."""
    value = (outcome or {}).get("value", {}).get(when, {})
    if "error" in value:
        return f"no: {value['error']}"
    if "maxMemoryUsedMiB" not in value:
        return "-"
    moved = f", {value['movedMiB']} MiB moved" if "movedMiB" in value else ""
    files = f", of it files {value['rssOfFilesMiB']}" if "rssOfFilesMiB" in value else ""
    held = f", RSS {value['rssMiB']}{files}" if "rssMiB" in value else ""
    return f"{value['maxMemoryUsedMiB']} MiB{held}{moved}"


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


def _seen(value: Sequence[Mapping[str, Any]]) -> str:
    return f"{len(value)} processes, uids {sorted({each['uid'].get('value', '?') for each in value}, key=str)}"


def _change(value: Mapping[str, int]) -> str:
    return f"yes: {value['before']} to {value['after']}"


def _order(value: Mapping[str, Any]) -> str:
    lead = value["extensionLeadUs"]
    return (
        f"the extension in {value['extensionFirst']} of {value['invocations']}; "
        f"its lead is {lead['p50']:g} µs (p50), {lead['p99']:g} (p99)"
    )


def _freeze(value: Mapping[str, Any]) -> str:
    stopped = value.get("stopped")
    if stopped is None:
        return f"no stop seen: {value['idleMs']:g} ms passed, {value['monotonicMs']:g} of them on CLOCK_MONOTONIC"
    after = f" {stopped['afterLastNextMs']:g} ms after the last next" if "afterLastNextMs" in stopped else ""
    clock = "goes on" if stopped["monotonicMs"] > value["idleMs"] / 2 else "stands still"
    return f"stops{after}; CLOCK_MONOTONIC {clock} ({stopped['monotonicMs']:g} ms of {value['idleMs']:g})"


def _hotspot(value: Mapping[str, Any]) -> str:
    return f"{'readable' if value['readable'] else 'not readable'}, {value['bytes']} bytes"


def _filter(value: Mapping[str, bool]) -> str:
    kept, dropped = ([line for line in value if value[line] is there] for there in (True, False))
    return f"kept: {', '.join(kept) or 'none'}; dropped: {', '.join(dropped) or 'none'}"


def _adapter(value: Mapping[str, Any]) -> str:
    return " ".join(["there" if value["extension"] else "not there", *value["variables"]])


def _wrapper(value: Mapping[str, Any]) -> str:
    answered = "answers" if value["answered"] else "started"
    return f"{answered}{', mode ' + value['sidecarMode'] if 'sidecarMode' in value else ''}"


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
    ("memory of another, by /proc/PID/mem", "mem other", lambda value: f"yes: {value['bytes']} bytes"),
    (
        "the same, once it has allowed it (PR_SET_PTRACER)",
        "mem other once allowed",
        lambda value: f"{value['bytes']} bytes",
    ),
    ("ptrace scope (Yama)", "ptrace scope", str),
    ("the runtime is dumpable", "dumpable", lambda value: "yes" if value else "no"),
    ("kind of environment", "kind of environment", _pairs),
    ("file systems of code", "code mounts", _pairs),
    ("AWS's Web Adapter", "adapter", _adapter),
    ("GPUs: name, memory, used, MiB", "gpus", "; ".join),
    ("SO_TIMESTAMPNS", "SO_TIMESTAMPNS", _pairs),
    ("oom_score_adj raised", "oom_score_adj raise", _change),
    ("oom_score_adj lowered below its start", "oom_score_adj lower", _change),
    ("/proc/self/cgroup", "own cgroup", str),
    ("/sys/fs/cgroup", "cgroup files", lambda value: " ".join(value["entries"])),
    ("/proc/pressure/memory", "pressure", _yes),
    ("what the sidecar itself says", "sidecar", str),
    ("who has the event first, extension or handler", "order of release", _order),
    ("a process between two invocations", "freeze", _freeze),
    ("HotSpot's counters in /tmp/hsperfdata_*", "HotSpot counters", _hotspot),
    ("NODE_OPTIONS=--require of a file in a layer", "NODE_OPTIONS preload", lambda value: f"works: {value['version']}"),
    ("log of JSON from WARN on", "log filter", _filter),
    ("all marks in one environment", "one environment", lambda value: "yes" if value else "no: ask again"),
)
"""Question, name of its outcome, and how its value is shown. Marks and wrappers follow."""


def main(docs: Path) -> None:
    page = docs / "verified.md"
    page.write_text(placed(page.read_text(encoding="utf-8"), tables(read(docs / "verified"))), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
