"""The command `truemem lines`: the lines of code that keep memory, as functions have named them where they run."""

from __future__ import annotations

import itertools
import json
import re
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import click

from ..aws.cloudwatch import Source, named, source, source_options_with, way_option
from ..judge.growth_lines import Growth, MergedLine, merged
from ..printed.growth import MEMBER, GrowthProfile, profile_in
from ..support import docs_link
from ..support.bad_input import BadInput
from ..support.options import check_outputs, chosen, format_options, output_option
from ..support.terminal import MIB, counted, fitted, output, progress, say, some, table
from ..support.untrusted_text import visible

SINCE = "24h"
"""How far back CloudWatch is read: an environment names its lines once, and only the lines that do are fetched."""
SHOWN = 10
"""Most lines of code in a table."""
ENDINGS = (".html", ".speedscope.json", ".pb.gz", ".otlp.json", ".json")
FRAME = re.compile(r"(?P<file>[^/:][^:]*):\d+ (?:(?:module\.)?exports\.)?(?P<function>[A-Za-z_$][\w$]*)")
"""A frame that may be the handler: its file is below the task root. V8 names a CommonJS one `exports.handler`."""
MAPS = (
    "The code is minified, and no source map was beside it: deploy the map, or say --source-maps FOLDER, which has the"
    " files as they were built, with their maps"
)
EPILOG = """
\b
Examples:
  truemem lines my-function
  truemem lines my-function --since 7d --version 41 --version 42
  truemem lines my-function.log --output growth.speedscope.json
\b
Exit codes:
  0  a line is named
  1  no profile names a line: it found none, or gave up
  2  there is nothing to read: no profile, no file, no access to CloudWatch
"""


class Profiled(NamedTuple):
    """One version of a function."""

    function: str
    version: str
    growth: Growth

    @property
    def name(self) -> str:
        return f"{self.function}:{self.version}"


@dataclass(frozen=True)
class Change:
    """What the lines of one function of the code keep, before and after, in KiB per invocation."""

    before: Sequence[MergedLine]
    after: Sequence[MergedLine]

    @property
    def kib(self) -> tuple[float, float]:
        return sum(each.line.kib for each in self.before), sum(each.line.kib for each in self.after)

    def document(self) -> dict[str, Any]:
        line = (*self.after, *self.before)[0].line
        before, after = self.kib
        return {
            "file": line.file,
            "function": line.function,
            "beforeKiB": round(before, 3),
            "afterKiB": round(after, 3),
            "beforeLines": [each.line.line for each in self.before],
            "afterLines": [each.line.line for each in self.after],
        }


@click.command(epilog=EPILOG)
@source_options_with(SINCE)
@way_option
@click.option(
    "--version",
    "versions",
    multiple=True,
    metavar="N",
    help="Only this version. Given twice: compare these two [default: the last two].",
)
@click.option(
    "--source-maps",
    "maps",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Node.js: folder of the built code and its source maps, if they were not deployed.",
)
@format_options("text", "json")
@output_option(*ENDINGS)
def lines(
    files: tuple[Path, ...],
    function_name: str | None,
    log_group: str | None,
    since: str | None,
    way: Any,
    versions: tuple[str, ...],
    maps: Path | None,
    form: str | None,
    as_json: bool,
    outputs: tuple[Path, ...],
) -> int:
    """Name the lines of code that keep memory, as the environments of a function have found them under `truemem attach
    NAME --lines`. NAME is a function in AWS, FILEs have log lines (`-` is standard input).

    A .html file is a flame graph. The other files are for other tools: .pb.gz for `go tool pprof` and Grafana
    Pyroscope, .otlp.json for an OpenTelemetry collector, .speedscope.json for https://www.speedscope.app.
    """
    form = chosen(form, as_json)
    check_outputs(outputs, *ENDINGS)
    files, function_name = named(files, function_name, log_group)
    where = source(files, function_name, log_group, since or (None if files else SINCE))
    profiles = _read(where, way)
    if maps is not None:
        from ..explain.source_maps import profiles_in_source

        for key, timed in profiles.items():
            mapped = profiles_in_source((profile for _, profile in timed), maps)
            profiles[key] = [(at, profile) for (at, _), profile in zip(timed, mapped, strict=True)]
    found = _by_version(profiles, versions)
    if not found:
        raise BadInput(_nothing(where, versions))
    compared = _compared(found)
    following = _next(found, where)
    document = _document(found, compared, following)
    for path in outputs:
        _write(path, found, document)
    if form == "json":
        click.echo(json.dumps(document, indent=2))
    else:
        for each in found:
            _print(each)
        for before, after, changes in compared:
            _print_changes(before, after, changes)
        shown = {each.name for each in found}
        if not versions and (others := [name for key in profiles if (name := ":".join(key)) not in shown]):
            click.echo(visible(f"Older versions were profiled too: {some(others)}. --version N chooses them."))
        click.echo(f"Next: {visible(following)}")
    return 0 if any(each.growth.lines for each in found) else 1


Key = tuple[str, str]
Found = Mapping[Key, Sequence[tuple[float, GrowthProfile]]]
"""Profiles with their times, by function and version."""


def _read(where: Source, way: Any) -> dict[Key, Sequence[tuple[float, GrowthProfile]]]:
    from ..printed.line import read
    from ..printed.log_files import refuse_summaries, size_of
    from ..printed.packed import on_disk

    found: dict[Key, list[tuple[float, GrowthProfile]]] = {}
    with tempfile.TemporaryDirectory(prefix="truemem-lines-") as folder:
        paths = on_disk(where.paths(Path(folder), way, containing=MEMBER), Path(folder))
        with progress("reading (MiB)", sum(map(size_of, paths)), MIB) as done:
            for line in read(paths, containing=MEMBER, done=done):
                profile = profile_in(line.members)
                if profile is not None and where.wants(line.function, line.time_ms):
                    key = (line.function or "", line.function_version or "")
                    found.setdefault(key, []).append((line.time_ms or 0.0, profile))
        if not found and where.log_group is None and next(iter(read(paths)), None) is None:
            refuse_summaries(paths)
            raise BadInput(f"no line of the sidecar in {where.place}. Try {where.doctor}")
    return {**found}


def _by_version(found: Found, versions: Sequence[str]) -> list[Profiled]:
    """Of each function the wanted versions, else the last two, in the order in which they were first profiled."""
    made: list[Profiled] = []
    for function in sorted({function for function, _ in found}):
        ordered = sorted((min(at for at, _ in found[key]), key[1]) for key in found if key[0] == function)
        wanted = [version for _, version in ordered if not versions or version in versions]
        if versions:
            wanted.sort(key=versions.index)
        made += [
            Profiled(function, version, merged(profile for _, profile in found[function, version]))
            for version in wanted[-2:]
        ]
    return made


def _compared(found: Sequence[Profiled]) -> list[tuple[Profiled, Profiled, Sequence[Change]]]:
    """Two versions of a function, the earlier first, by functions of the code: in a release lines move."""
    made: list[tuple[Profiled, Profiled, Sequence[Change]]] = []
    for before, after in itertools.pairwise(found):
        if before.function != after.function:
            continue
        places: dict[Key, tuple[list[MergedLine], list[MergedLine]]] = {}
        for side, growth in enumerate((before.growth, after.growth)):
            for each in growth.lines:
                places.setdefault((each.line.file, each.line.function), ([], []))[side].append(each)
        changes = [Change(*sides) for sides in places.values()]
        made.append((before, after, sorted(changes, key=lambda change: (-max(change.kib), change.kib))))
    return made


def _nothing(where: Source, versions: Sequence[str]) -> str:
    of = f" of version {' or '.join(versions)}" if versions else ""
    name = (where.log_group or "").removeprefix("/aws/lambda/") or where.function or "NAME"
    attach = f"truemem attach {shlex.quote(name)} --lines"
    earlier = ", wait, or an earlier --since" if where.log_group or where.since_ms is not None else ", and wait"
    return f"no profile{of} in {where.place}. An environment makes one when its memory grows: try {attach}{earlier}"


def _next(found: Sequence[Profiled], where: Source) -> str:
    """The command to type next: of the function whose first line keeps most."""
    first = max(found, key=lambda each: each.growth.lines[0].line.kib if each.growth.lines else 0.0)
    name = shlex.quote(first.function or where.function or "NAME")
    line = next((each.line for each in first.growth.lines if each.line.line or each.line.stack), None)
    if line is None:  # a class has no file
        return f"truemem events {name} --since 1h --output events.jsonl"
    handler = FRAME.match(line.stack[0]) if line.stack else None
    file, function = (handler["file"], handler["function"]) if handler else (line.file, "HANDLER")
    if first.growth.runtime == "nodejs" and not file.endswith((".js", ".mjs", ".cjs")):  # a source: another file runs
        file = f"BUILT/{Path(file).stem if handler else 'FILE'}.js"
    return f"truemem explain {shlex.quote(f'{file}:{function}')}"


def _document(found: Sequence[Profiled], compared: Sequence[Any], following: str) -> dict[str, Any]:
    return {
        "versions": list(map(_version_document, found)),
        "compared": [
            {
                "function": before.function,
                "before": before.version,
                "after": after.version,
                "changes": [change.document() for change in changes],
            }
            for before, after, changes in compared
        ],
        "next": following,
    }


def _version_document(each: Profiled) -> dict[str, Any]:
    growth = each.growth
    members = {
        "function": each.function,
        "version": each.version,
        "runtime": growth.runtime,
        "environments": growth.environments,
        "invocations": growth.invocations,
        "lines": [line.document() for line in growth.lines],
        "restKiB": round(growth.rest_kib, 3),
        "libraries": list(growth.libraries),
        "cpuPercent": growth.cpu_percent,
        "memoryKiB": growth.memory_kib,
        "lookMs": growth.look_ms,
        "gaveUp": dict(growth.gave_up),
    }
    return {name: value for name, value in members.items() if value is not None}


def _write(path: Path, found: Sequence[Profiled], document: Mapping[str, Any]) -> None:
    """Write one --output. Raises BadInput if it cannot be written."""
    growths = {each.name: each.growth for each in found}
    headline = some(list(growths))
    from ..explain.growth_page import page_of_profiles
    from ..explain.profiles import rendered, samples_of

    profile = rendered(path, samples_of(growths), headline)
    if profile is not None:
        made = profile
    elif path.suffix.lower() == ".html":
        sentences = [sentence for each in found for sentence in _sentences(each)]
        made = page_of_profiles(growths, headline, sentences).encode()
    else:
        made = f"{json.dumps(document, indent=2)}\n".encode()
    try:
        path.write_bytes(made)
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}") from error


def _sentences(each: Profiled) -> Iterator[str]:
    """What is in no line, what it cost, and how often it was given up."""
    growth = each.growth
    if growth.rest_kib >= 0.05:
        native = f": native, perhaps of {some(growth.libraries)}" if growth.libraries else ""
        yield f"{growth.rest_kib:,.1f} KiB per invocation are in no line{native}."
    costs = [
        f"{growth.cpu_percent:,.1f}% more CPU in an invocation" if growth.cpu_percent is not None else "",
        f"{growth.memory_kib:,.0f} KiB" if growth.memory_kib is not None else "",
        f"{growth.look_ms:,.0f} ms of looks" if growth.look_ms is not None else "",
    ]
    if any(costs):
        yield f"The profile cost, at most: {', '.join(filter(None, costs))}."
    if any(line.line.column for line in growth.lines):
        yield f"{MAPS} ({docs_link.command('heap#source-maps')})."
    if growth.gave_up:
        reasons = ", ".join(f"{reason} ({count:,})" for reason, count in growth.gave_up.items())
        gave_up = sum(growth.gave_up.values())
        yield f"{gave_up:,} of {counted(growth.environments, 'environment')} gave up: {reasons}."


def _print(each: Profiled) -> None:
    growth, console = each.growth, output()
    over = f"{counted(growth.environments, 'environment')}, {counted(growth.invocations, 'invocation')}"
    if not growth.lines:
        say(console, f"{each.name}: no line is named (profiled: {over}).")
    else:
        say(console, f"{each.name}: what grew, by line of code (profiled: {over})")
        made = table("", ("line", "function"), ("KiB per invocation", "share", "environments"), ())
        for line in growth.lines[:SHOWN]:
            figures = f"{line.line.kib:,.1f}", f"{line.line.share:.0%}", f"{line.environments:,} of {growth.counted:,}"
            made.add_row(line.line.place, line.line.function, *figures)
        console.print(fitted(made, console))
        for line in growth.lines[:SHOWN]:
            if len(line.line.stack) > 1:
                console.print(f"  {line.line.place}: {' > '.join(line.line.stack)}", soft_wrap=True)
        if len(growth.lines) > SHOWN:
            click.echo(f"{len(growth.lines) - SHOWN} more lines keep less: --json has them.")
    for sentence in _sentences(each):
        say(console, sentence)
    click.echo()


def _print_changes(before: Profiled, after: Profiled, changes: Sequence[Change]) -> None:
    if not changes:
        return
    console = output()
    click.echo(visible(f"{after.function}: KiB per invocation, before and after"))
    made = table("", ("line", "function"), (before.version, after.version, "change"), ())
    for change in changes[:SHOWN]:
        line = (*change.after, *change.before)[0].line
        was, now = change.kib
        made.add_row(line.place, line.function, f"{was:,.1f}", f"{now:,.1f}", f"{now - was:+,.1f}")
    console.print(fitted(made, console))
    click.echo()
