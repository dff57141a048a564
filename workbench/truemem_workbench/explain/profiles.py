"""What grew, as a profile in the formats of other tools: pprof, OpenTelemetry's profiles, and speedscope. Pure.

A profile's values are bytes that each invocation adds. What no line keeps is in it too, so that a profile's sum is all
that grew.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar

from truemem import VERSION

from ..judge.growth_lines import Growth

SPEEDSCOPE, PPROF, OTLP = ".speedscope.json", ".pb.gz", ".otlp.json"
"""How the names of such files end."""
TYPE, UNIT = "inuse_space", "bytes"
"""What pprof and Pyroscope call memory that is kept."""
MOST = (1 << 63) - 1
"""The largest int64: a log may say any figure."""
NO_LINE = "(in no line)"
MEANING = f"truemem {VERSION}: bytes that each invocation adds, by line of code"
_FRAME = re.compile(r"(?P<file>.+?):(?P<line>[0-9]{1,9})(?::[0-9]{1,9})?(?: (?P<function>.+))?")


class Frame(NamedTuple):
    function: str
    file: str
    """Empty if it is not known, and then the line is 0."""
    line: int


class Sample(NamedTuple):
    stack: tuple[Frame, ...]
    """Outermost first."""
    added: int
    """Bytes per invocation."""


Render = Callable[[Mapping[str, Growth], str, int], bytes]
"""Makes the file of what grew by function and version, with its headline and the time now, in epoch ns."""


def speedscope(growths: Mapping[str, Growth], headline: str, now_ns: int) -> bytes:
    """For https://www.speedscope.app, in a browser. Its format:
    https://github.com/jlfwong/speedscope/wiki/Importing-from-custom-sources"""
    frames = _Table[Frame]()
    profiles = []
    for version, growth in growths.items():
        samples = _samples(growth)
        profiles.append(
            {
                "type": "sampled",
                "name": version,
                "unit": UNIT,
                "startValue": 0,
                "endValue": sum(each.added for each in samples),
                "samples": [list(map(frames.place, each.stack)) for each in samples],
                "weights": [each.added for each in samples],
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


def pprof(growths: Mapping[str, Growth], headline: str, now_ns: int) -> bytes:
    """For `go tool pprof`, Grafana Pyroscope and most profilers: one profile, whose samples have their function and
    version as a label. Its format: https://github.com/google/pprof/blob/main/proto/profile.proto"""
    texts, locations = _Table[str](""), _Table[Frame]()
    value_type = _fields((1, texts.place(TYPE)), (2, texts.place(UNIT)))
    profile: list[tuple[int, int | bytes]] = [(1, value_type)]
    for version, growth in growths.items():
        label = _fields((1, texts.place("function")), (2, texts.place(version)))
        for each in _samples(growth):
            places = [locations.place(frame) + 1 for frame in reversed(each.stack)]  # 0 is no location
            profile.append((2, _fields(*((1, place) for place in places), (2, each.added), (3, label))))
    for number, frame in enumerate(locations, 1):  # a function for each: only frames of one line are the same
        profile.append((4, _fields((1, number), (4, _fields((1, number), (2, frame.line))))))
        name = texts.place(frame.function)
        profile.append((5, _fields((1, number), (2, name), (3, name), (4, texts.place(frame.file)))))
    profile += [(9, now_ns), *((13, texts.place(text)) for text in (MEANING, headline)), (14, texts.place(TYPE))]
    profile += [(6, text.encode(errors="replace")) for text in texts]
    return gzip.compress(_fields(*profile), mtime=0)


def otlp(growths: Mapping[str, Growth], headline: str, now_ns: int) -> bytes:
    """OpenTelemetry's profiles as OTLP's JSON, as a collector takes them at /v1development/profiles: a resource for
    each function and version. The signal is in development. Its format, whose tables begin with what is not known:
    https://github.com/open-telemetry/opentelemetry-proto/blob/main/opentelemetry/proto/profiles/v1development"""
    texts, frames, stacks = _Table[str](""), _Table(Frame("", "", 0)), _Table[tuple[Frame, ...]](())
    sample_type = {"typeStrindex": texts.place(TYPE), "unitStrindex": texts.place(UNIT)}
    resources = []
    for version, growth in growths.items():
        samples = [{"stackIndex": stacks.place(each.stack), "values": [str(each.added)]} for each in _samples(growth)]
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
                                "samples": samples,
                                "timeUnixNano": str(now_ns),
                                "profileId": profile_id,
                            }
                        ],
                    }
                ],
            }
        )
    stack_table = [{"locationIndices": [frames.place(each) for each in reversed(stack)]} for stack in stacks]
    lines = [{"functionIndex": place, "line": str(frame.line)} for place, frame in enumerate(frames)]
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


def _samples(growth: Growth) -> list[Sample]:
    """What each line keeps, and what is in none."""
    found = [(each.line.stack or (each.line.place,), each.line.kib) for each in growth.lines]
    return [
        Sample(tuple(map(_frame, stack)), added)
        for stack, kib in [*found, ((NO_LINE,), growth.rest_kib)]
        if (added := min(round(kib * 1024), MOST))
    ]


def _frame(text: str) -> Frame:
    found = _FRAME.fullmatch(text)
    if found is None:
        return Frame(text, "", 0)
    return Frame(found["function"] or text, found["file"], int(found["line"]))


def _speedscope_frame(frame: Frame) -> dict[str, Any]:
    return {"name": frame.function, **({"file": frame.file, "line": frame.line} if frame.file else {})}


def _attributes(values: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]


Each = TypeVar("Each")


class _Table(dict[Each, int]):
    """Things by their place, each once."""

    def __init__(self, *first: Each) -> None:
        super().__init__((each, place) for place, each in enumerate(first))

    def place(self, each: Each) -> int:
        return self.setdefault(each, len(self))


def _fields(*fields: tuple[int, int | bytes]) -> bytes:
    """A message of protocol buffers, of these numbers of fields and their values
    (https://protobuf.dev/programming-guides/encoding)."""
    made = bytearray()
    for number, value in fields:
        made += _varint(number << 3 | (0 if isinstance(value, int) else 2))
        made += _varint(value) if isinstance(value, int) else _varint(len(value)) + value
    return bytes(made)


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])
