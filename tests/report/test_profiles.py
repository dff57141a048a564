"""`truemem lines --output`: what grew as profiles of other tools, read back with protocol buffers' own library."""

import base64
import gzip
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2 import ExportProfilesServiceRequest
from truemem.pprof import MOST, NO_LINE
from truemem_workbench.explain.profiles import RENDERS, otlp, pprof, samples_of, speedscope
from truemem_workbench.judge.growth_lines import Growth, merged
from truemem_workbench.printed.growth import profile_in

from tests.report.conftest import Command
from tests.report.profiled import growth_line, with_profile
from tests.report.written import life, log

MESSAGES = {
    "ValueType": "1 type int64, 2 unit int64",
    "Label": "1 key int64, 2 str int64, 3 num int64",
    "Sample": "1 location_id uint64*, 2 value int64*, 3 label Label*",
    "Line": "1 function_id uint64, 2 line int64",
    "Location": "1 id uint64, 2 mapping_id uint64, 3 address uint64, 4 line Line*",
    "Function": "1 id uint64, 2 name int64, 3 system_name int64, 4 filename int64, 5 start_line int64",
    "Profile": "1 sample_type ValueType*, 2 sample Sample*, 4 location Location*, 5 function Function*,"
    " 6 string_table string*, 9 time_nanos int64, 13 comment int64*, 14 default_sample_type int64",
}
"""Messages of pprof's profile.proto (https://github.com/google/pprof/blob/main/proto/profile.proto, Apache-2.0)."""
NOW_NS = 1_795_288_667_000_000_000
OTHER = growth_line(400.0, 7, file="lib/x.mjs", function="put", stack=["app.mjs:31 handler", "lib/x.mjs:7 put"])


def pprof_types() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", package="pprof", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, field, kind in (each.split() for each in fields.split(", ")):
            plain = kind.rstrip("*")
            label = "LABEL_REPEATED" if plain != kind else "LABEL_OPTIONAL"
            made = message.field.add(name=field, number=int(number), label=label)
            if plain in MESSAGES:
                made.type, made.type_name = made.TYPE_MESSAGE, f".pprof.{plain}"
            else:
                made.type = made.Type.Value(f"TYPE_{plain.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("pprof.Profile"))


PROFILE = pprof_types()
Told = dict[tuple[str, ...], int]
"""Bytes by stack, outermost first: `FUNCTION VERSION` and then `FILE:LINE FUNCTION` of each frame."""


def told_by_pprof(data: bytes) -> Told:
    made = PROFILE.FromString(gzip.decompress(data))
    texts = made.string_table
    assert texts[0] == ""
    assert [(texts[each.type], texts[each.unit]) for each in made.sample_type] == [("inuse_space", "bytes")]
    functions = {each.id: each for each in made.function}
    frames = {}
    for location in made.location:
        (line,) = location.line
        function = functions[line.function_id]
        frames[location.id] = f"{texts[function.filename]}:{line.line} {texts[function.name]}"
    return {
        (texts[each.label[0].str], *(frames[place] for place in reversed(each.location_id))): each.value[0]
        for each in made.sample
    }


def told_by_otlp(data: bytes) -> Told:
    document = json.loads(data)
    for resource in document["resourceProfiles"]:  # OTLP writes ids in hexadecimal, protocol buffers in base64
        (made,) = resource["scopeProfiles"][0]["profiles"]
        made["profileId"] = base64.b64encode(bytes.fromhex(made["profileId"])).decode()
    made = json_format.ParseDict(document, ExportProfilesServiceRequest())
    known = made.dictionary
    for table in ("location_table", "function_table", "stack_table", "mapping_table", "link_table", "attribute_table"):
        first = getattr(known, table)[0]
        assert first == type(first)()  # what is not known
    told = {}
    for resource in made.resource_profiles:
        values = {each.key: each.value.string_value for each in resource.resource.attributes}
        assert values["service.name"] == values["faas.name"]
        for sample in resource.scope_profiles[0].profiles[0].samples:
            stack = []
            for place in reversed(known.stack_table[sample.stack_index].location_indices):
                (line,) = known.location_table[place].lines
                function = known.function_table[line.function_index]
                texts = (known.string_table[each] for each in (function.filename_strindex, function.name_strindex))
                file, name = texts
                stack.append(f"{file}:{line.line} {name}")
            told[f"{values['faas.name']}:{values['faas.version']}", *stack] = sample.values[0]
    return told


def told_by_speedscope(data: bytes) -> Told:
    document = json.loads(data)
    frames = [f"{each.get('file', '')}:{each.get('line', 0)} {each['name']}" for each in document["shared"]["frames"]]
    return {
        (profile["name"], *(frames[place] for place in stack)): weight
        for profile in document["profiles"]
        for stack, weight in zip(profile["samples"], profile["weights"], strict=True)
    }


TOLD_BY: dict[Any, Callable[[bytes], Told]] = {pprof: told_by_pprof, otlp: told_by_otlp, speedscope: told_by_speedscope}


def growth(*lines: Any, **profile: Any) -> Growth:
    found = [profile_in(json.loads(text)) for text in with_profile(life("a", 3), *lines, at=2, **profile)]
    return merged([each for each in found if each is not None])


@pytest.mark.parametrize("render", TOLD_BY)
def test_a_profile_has_all_that_grew(render: Any) -> None:
    growths = {"orders:41": growth(growth_line(), OTHER), "orders:42": growth()}
    assert TOLD_BY[render](render(samples_of(growths), "orders", NOW_NS)) == {
        ("orders:41", "app.mjs:30 handler", "app.mjs:12 save"): 1_024_000,
        ("orders:41", "app.mjs:31 handler", "lib/x.mjs:7 put"): 409_600,
        ("orders:41", f":0 {NO_LINE}"): 410,
        ("orders:42", f":0 {NO_LINE}"): 410,
    }


FRAMES = st.lists(st.text(max_size=12) | st.sampled_from(["a.py:1 f", "b.py:999999999999 g", "a.py:3"]), max_size=4)
LINES = st.builds(
    lambda kib, line, stack: growth_line(kib, line, stack=stack),
    st.floats(0.01, 3e38),
    st.integers(0, 1 << 40),
    FRAMES,
)


@given(st.lists(LINES, max_size=5))
def test_whatever_a_log_says_each_tool_reads_the_same(lines: list[Any]) -> None:
    growths = {"a b:$LATEST": growth(*lines)}
    first, *others = (TOLD_BY[render](render(samples_of(growths), "\udc80", NOW_NS)) for render in TOLD_BY)
    assert all(each == first for each in others)
    assert all(0 < each <= MOST for each in first.values())


@pytest.mark.parametrize("ending", RENDERS)
def test_the_command_writes_each(truemem: Command, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"growth{ending}"
    lines = with_profile(life("a", 3, functionVersion="41"), growth_line(), at=2)
    assert truemem("lines", log(tmp_path, lines), "--output", path).code == 0
    told = TOLD_BY[RENDERS[ending]](path.read_bytes())
    assert told["orders:41", "app.mjs:30 handler", "app.mjs:12 save"] == 1_024_000


def top(path: Path) -> str:
    """What `go tool pprof` says of a profile, by line. Skips the test where there is no Go."""
    if shutil.which("go") is None:
        pytest.skip("there is no Go")
    command = ["go", "tool", "pprof", "-top", "-lines", "-unit=B", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_gos_own_tool_has_the_line_on_top(truemem: Command, tmp_path: Path) -> None:
    path = tmp_path / "growth.pb.gz"
    lines = with_profile(life("a", 3, functionVersion="41"), growth_line(), OTHER, at=2)
    assert truemem("lines", log(tmp_path, lines), "--output", path).code == 0
    said = top(path)
    assert "Type: inuse_space" in said
    first, second = (words for words in map(str.split, said.splitlines()) if "mjs" in words[-1] and words[0] != "0")
    assert [first[0], *first[-2:]] == ["1024000B", "save", "app.mjs:12"]
    assert [second[0], *second[-2:]] == ["409600B", "put", "lib/x.mjs:7"]
