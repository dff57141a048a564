"""Whatever stands in one line of a log, each output of each command that reads logs is made, and shows it as text."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from truemem_workbench.commands.__main__ import cli
from truemem_workbench.mcp.answer import bounded, text_of
from truemem_workbench.printed.line import Line, parse_event

from tests.fuzz.test_outside import TEXT, TOKENS, Elements, is_seen
from tests.records import full, line_of
from tests.report.profiled import PROFILE, growth_line
from tests.report.written import life

Path_ = tuple[str | int, ...]
TEXTS = ["\ud800.py", "a\0b", "\x1b]52;c;eA==\x07", "a\u2028b\u2029", "</title><script>", "\u202e", "x" * 5000, "=1+1"]
DEEP = "[" * 300 + "]" * 300
NUMBERS = ["1" + "0" * 400, "9" * 5000, "-1", "1e400", "NaN", "-Infinity", DEEP, '{"a":1,"a":{}}', "null"]
VALUES = [*map(json.dumps, TEXTS), *NUMBERS]
HEAP = {"runtime": "nodejs", "used": 9.0, "committed": 20.0, "limit": 90.0, "source": "x", "gc": [1, 2]}
TMP = {"used": 400.0, "size": 512.0, "verdict": "growing", "perInvocationKiB": 9.0, "invocationsLeft": 9}


def rich_line() -> dict[str, Any]:
    """A line with each member that has a text, and with all that is read of a line."""
    members = json.loads(line_of(full(), {b"TRUEMEM_PROPERTIES": b"model=7b"}))
    usual = json.loads(life("a", 1)[0])
    of_code = {"growthLines": [growth_line(500.0)], "growthProfile": {**PROFILE, "gaveUp": "", "libraries": ["a.so"]}}
    holders = {"function": 90.0, "truemem": 5.0, "extensions": {"agent": 20.0}}
    more = {"heap": HEAP, "resources": {"tmp": TMP, "descriptors": {"open": 900, "limit": 1024, "holders": {"x": 1}}}}
    texts = {"tenantId": "t", "traceId": "t", "timestamp": "2026-11-21T12:00:00Z", "initializationType": "snap-start"}
    texts |= {"errorType": "Runtime.ExitError", "status": "error", "mode": "exact"}
    return {**members, **usual, **more, **of_code, **texts, "holders": holders, "processes": 1}


RICH = rich_line()


def places(value: Any, *path: str | int) -> Iterator[Path_]:
    """Paths of all that is no object and no list."""
    if isinstance(value, dict | list):
        for name, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(each, *path, name)
    else:
        yield path


PLACES = [path for path in places(RICH) if "CloudWatchMetrics" not in path]


def changed(values: dict[Path_, str]) -> str:
    """The line with other JSON at some places, and with the names of objects as they are."""

    def written(value: Any, *path: str | int) -> str:
        if path in values:
            return values[path]
        if isinstance(value, dict):
            return (
                "{" + ",".join(f"{json.dumps(name)}:{written(each, *path, name)}" for name, each in value.items()) + "}"
            )
        if isinstance(value, list):
            return "[" + ",".join(written(each, *path, at) for at, each in enumerate(value)) + "]"
        return json.dumps(value)

    return written(RICH)


OUTPUTS = [
    ["report"],
    ["report", "--all", "--format", "line"],
    ["report", "--json", "--output", "{}/a.html", "--output", "{}/a.csv", "--output", "{}/a.json"],
    ["report", "--format", "csv", "--by", "tenantId"],
    ["lines", "--output", "{}/b.html", "--output", "{}/b.speedscope.json", "--output", "{}/b.json"],
    ["lines", "--output", "{}/d.pb.gz", "--output", "{}/d.otlp.json"],
    ["lines", "--json"],
    ["page", "--output", "{}/c.html"],
    ["doctor"],
]


def check_outputs(folder: Path, texts: list[str]) -> None:
    """Make all outputs of a log with these lines. None may fail, nor have what a terminal or a page would obey."""
    path = folder / "one.log"
    path.write_text("\n".join([*life("b", 3), *texts, *life("a", 3)]), encoding="utf-8")
    for name, *options in OUTPUTS:
        arguments = [name, str(path), *(each.format(folder) for each in options)]
        ran = CliRunner(env={"COLUMNS": "200"}).invoke(cli, arguments, standalone_mode=False)
        has_none = "no profile" in ran.stderr or "--by tenantId: no JSON line has it" in ran.stderr
        assert ran.exception is None, (arguments, ran.exception)
        assert ran.return_value != 2 or has_none, (arguments, ran.stderr)
        assert all(map(is_seen, ran.stdout.replace("\r\n", "").replace("\n", "")))
        if "--json" in options and not has_none:
            document = json.loads(ran.stdout, parse_constant=pytest.fail)
            text = text_of(document.get("sentences", []), [], [document.get("next", "")], "truemem")
            assert all(map(is_seen, text.replace("\n", "")))
            json.dumps(bounded(document, "truemem")).encode()
    for made in folder.iterdir():
        if made.suffix == ".gz":
            continue  # tests/report/test_profiles.py reads it
        content = made.read_text(encoding="utf-8")
        if made.suffix == ".html":
            title = "".join(re.findall("<title>(.*?)</title>", content, re.DOTALL))
            assert all(map(is_seen, title))
            assert Elements(content).begun.count("title") == 1
        elif made.suffix == ".json" and content:  # empty where no line has a profile: the place was tried
            json.loads(content, parse_constant=pytest.fail)
        made.unlink()


@pytest.mark.parametrize("values", [VALUES[: len(TEXTS)], VALUES[len(TEXTS) :]], ids=["texts", "numbers"])
def test_each_member_of_a_line_may_have_any_value(values: list[str], tmp_path: Path) -> None:
    named = [path for path in PLACES if path not in (("environmentId",), ("schema",))]
    alone = [changed({path: value}) for value in values for path in named]
    check_outputs(tmp_path, [*alone, *(changed(dict.fromkeys(named, value)) for value in values)])


@settings(max_examples=10)
@given(st.dictionaries(st.sampled_from(PLACES), st.sampled_from(VALUES + TOKENS) | TEXT.map(json.dumps), max_size=9))
def test_any_values_of_a_line_stop_no_output(
    tmp_path_factory: pytest.TempPathFactory, values: dict[Path_, str]
) -> None:
    check_outputs(tmp_path_factory.mktemp("values"), [changed(values)])


ODD = ["heap.gc.9999", "heap..", ".", "PeakRSS.0", "heap.gc.x"]
NAMES = st.sampled_from([*(".".join(map(str, path)) for path in PLACES), *ODD]) | TEXT


@given(st.dictionaries(NAMES, st.sampled_from(VALUES + TOKENS), max_size=6))
def test_any_members_that_were_taken_apart_are_a_line(values: dict[str, str]) -> None:
    members = {"environmentId": '"a"', "schema": '"1"', **values}
    text = ",".join(f"{json.dumps(name)}:{value}" for name, value in members.items())
    assert all(isinstance(each, Line) for each in parse_event(f"{{{text}}}"))
