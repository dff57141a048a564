"""What grew, as a profile in the formats of other tools: pprof, OpenTelemetry's profiles, and speedscope. Pure.

A profile's values are bytes that each invocation adds. What no line keeps is in it too, so that a profile's sum is all
that grew.
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from truemem import VERSION
from truemem.pprof import NO_LINE, TYPE, UNIT, added, encoded, frame

from ..judge.growth_lines import Growth
from .attribution import Holder
from .explanation import Explanation, place
from .growth_page import stack_of

SPEEDSCOPE, PPROF, OTLP = ".speedscope.json", ".pb.gz", ".otlp.json"
"""How the names of such files end."""
MEANING = f"truemem {VERSION}: bytes that each invocation adds, by line of code"


class Frame(NamedTuple):
    function: str
    file: str
    """Empty if it is not known, and then the line is 0."""
    line: int


class Sample(NamedTuple):
    stack: Sequence[str]
    """Frames such as `app.mjs:30 handler`, outermost first."""
    kib: float
    """KiB that each invocation adds there."""
    version: str
    """The function, and its version if that is known: `orders:41`."""


def _frames(sample: Sample) -> tuple[Frame, ...]:
    return tuple(Frame(*frame(each)) for each in sample.stack)


Render = Callable[[Sequence[Sample], str, int], bytes]
"""Makes the file of what grew, one version's samples after the other's, with its headline and the time now, in epoch
ns."""


def speedscope(samples: Sequence[Sample], headline: str, now_ns: int) -> bytes:
    """For https://www.speedscope.app, in a browser. Its format:
    https://github.com/jlfwong/speedscope/wiki/Importing-from-custom-sources"""
    frames = _Table[Frame]()
    profiles = []
    for version, of_one in _by_version(samples):
        profiles.append(
            {
                "type": "sampled",
                "name": version,
                "unit": UNIT,
                "startValue": 0,
                "endValue": sum(added(each.kib) for each in of_one),
                "samples": [list(map(frames.place, _frames(each))) for each in of_one],
                "weights": [added(each.kib) for each in of_one],
            }
        )
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": f"truemem {VERSION}",
        "name": headline,
        "activeProfileIndex": 0,
        "shared": {"frames": [_speedscope_frame(each) for each in frames]},
        "profiles": profiles,
    }
    return f"{json.dumps(document)}\n".encode()


def pprof(samples: Iterable[Sample], headline: str, now_ns: int) -> bytes:
    """For `go tool pprof`, Grafana Pyroscope and most profilers: one profile, whose samples have their function and
    version as a label."""
    return gzip.compress(encoded(samples, (MEANING, headline), now_ns), mtime=0)


def otlp(samples: Sequence[Sample], headline: str, now_ns: int) -> bytes:
    """OpenTelemetry's profiles as OTLP's JSON, as a collector takes them at /v1development/profiles: a resource for
    each function and version. The signal is in development. Its format, whose tables begin with what is not known:
    https://github.com/open-telemetry/opentelemetry-proto/blob/main/opentelemetry/proto/profiles/v1development"""
    texts, frames, stacks = _Table[str](""), _Table(Frame("", "", 0)), _Table[tuple[Frame, ...]](())
    sample_type = {"typeStrindex": texts.place(TYPE), "unitStrindex": texts.place(UNIT)}
    resources = []
    for version, of_one in _by_version(samples):
        told = [{"stackIndex": stacks.place(_frames(each)), "values": [str(added(each.kib))]} for each in of_one]
        name, _, number = version.rpartition(":")
        attributes = _attributes({"service.name": name, "faas.name": name, "faas.version": number})
        profile_id = blake2b(f"{version} {now_ns}".encode(errors="replace"), digest_size=16).hexdigest()
        resources.append(
            {
                "resource": {"attributes": attributes},
                "scopeProfiles": [
                    {
                        "scope": {"name": "truemem", "version": VERSION},
                        "profiles": [
                            {
                                "sampleType": sample_type,
                                "samples": told,
                                "timeUnixNano": str(now_ns),
                                "profileId": profile_id,
                            }
                        ],
                    }
                ],
            }
        )
    stack_table = [{"locationIndices": [frames.place(each) for each in reversed(stack)]} for stack in stacks]
    lines = [{"functionIndex": place, "line": str(each.line)} for place, each in enumerate(frames)]
    functions = [
        {"nameStrindex": texts.place(each.function), "filenameStrindex": texts.place(each.file)} for each in frames
    ]
    dictionary = {
        "mappingTable": [{}],
        "locationTable": [{}, *({"lines": [line]} for line in lines[1:])],
        "functionTable": functions,
        "linkTable": [{}],
        "stringTable": list(texts),
        "attributeTable": [{}],
        "stackTable": stack_table,
    }
    return f"{json.dumps({'resourceProfiles': resources, 'dictionary': dictionary})}\n".encode()


RENDERS: Mapping[str, Render] = {SPEEDSCOPE: speedscope, PPROF: pprof, OTLP: otlp}


def rendered(path: Path, samples: Sequence[Sample], headline: str) -> bytes | None:
    """The content of a file whose name ends so; None where no other tool's does."""
    render = next((render for ending, render in RENDERS.items() if path.name.lower().endswith(ending)), None)
    return render(samples, headline, time.time_ns()) if render is not None else None


def samples_of(growths: Mapping[str, Growth]) -> list[Sample]:
    """What each line keeps, and what is in none, by function and version."""
    return [
        Sample(stack, kib, version)
        for version, growth in growths.items()
        for stack, kib in [
            *((each.line.stack or (each.line.place,), each.line.kib) for each in growth.lines),
            ((NO_LINE,), growth.rest_kib),
        ]
    ]


def samples_in(explanation: Explanation | None, name: str) -> list[Sample]:
    """What each line holds, and what is in none. `name` is the function's. The line is the innermost frame: those below
    it allocate, and keep nothing."""
    if explanation is None:
        return []
    held = [(_calls(each), each.kib) for each in explanation.holders]
    return [Sample(stack, kib, name) for stack, kib in (*held, ((NO_LINE,), explanation.rest_kib))]


def _calls(holder: Holder) -> list[str]:
    frames = stack_of(holder)
    line = holder.frame if holder.line else frames[0]
    to_line = [*map(place, frames[: frames.index(line)]), place(line)]
    return [*to_line[:-1], f"{to_line[-1]} {holder.function}"] if holder.function else to_line


def _by_version(samples: Sequence[Sample]) -> list[tuple[str, list[Sample]]]:
    """Those of each version that are a byte at least."""
    grouped = groupby(samples, key=lambda each: each.version)
    return [(version, [each for each in some if added(each.kib)]) for version, some in grouped]


def _speedscope_frame(each: Frame) -> dict[str, Any]:
    return {"name": each.function, **({"file": each.file, "line": each.line} if each.file else {})}


def _attributes(values: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]


Each = TypeVar("Each")


class _Table(dict[Each, int]):
    """Things by their place, each once."""

    def __init__(self, *first: Each) -> None:
        super().__init__((each, place) for place, each in enumerate(first))

    def place(self, each: Each) -> int:
        return self.setdefault(each, len(self))
