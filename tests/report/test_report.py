"""What a report says of lines whose truth is known."""

import csv
import gzip
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from truemem_workbench.judge.drift import points
from truemem_workbench.printed.line import read
from truemem_workbench.printed.reader import Job
from truemem_workbench.report import collect

from tests.report.conftest import Command, Report, Told
from tests.report.written import BEGIN_MS, life, line, log, request

LEAKY, STEADY = "1eaf1eaf", "57ead157"
LATER = datetime.fromtimestamp((BEGIN_MS + 151_000) / 1000, UTC).isoformat()
"""The time of invocation 151."""


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """An environment that grows by 1 MiB with each invocation, and a steady one."""
    return log(tmp_path, [*life(LEAKY, grows=1.0), *life(STEADY)])


def test_the_environment_that_leaks_is_named_first(truemem: Command, two: Path) -> None:
    report = truemem("report", two, "--json").document

    leaky, steady = report["environments"]
    assert leaky["environment_id"].endswith(LEAKY)
    assert (leaky["finding"]["cause"], leaky["finding"]["next"]) == ("leak", "truemem attach orders --lines")
    assert leaky["finding"]["perInvocationKiB"] == pytest.approx(1024, rel=0.02)
    assert (leaky["current_first"], leaky["current_last"]) == (pytest.approx(91, abs=0.1), pytest.approx(290, abs=0.1))
    assert steady["finding"]["cause"] == "none"
    assert report["functions"][0]["causes"] == {"leak": 1, "none": 1}
    assert report["sentences"][0] == report["functions"][0]["finding"]["sentence"] == leaky["finding"]["sentence"]
    assert report["by"] is None
    assert "NaN" not in json.dumps(report)


def test_it_is_told_who_holds_the_memory(report: Report) -> None:
    held = {"function": 80.0, "truemem": 5.0, "extensions": {"vendor-agent": 51.0}}
    lines = [
        line("a", 1, holders=held | {"extensions": {"vendor-agent": 99.0}}),
        line("a", 2, holders=held),
        line("a", 3, holders={"function": 1.0, "truemem": 5.0}, closedBy="shutdown"),
    ]
    document = report(lines)

    holders = {each["name"]: each["median"] for each in document["functions"][0]["holders"]}
    assert holders == {"function": 80, "vendor-agent": 51, "truemem": 5}
    assert document["environments"][0]["others"] == 104  # at its worst: the size must hold it


def test_out_of_memory_is_counted_and_the_requests_named(told: Told, report: Report) -> None:
    lines = [line("a", 1), line("a", 2, OutOfMemory=1, status="error"), line("b", 1)]
    assert f"1 of 3 invocations ran out of memory: {request('a', 2)}" in told(lines)
    assert report(lines)["environments"][0]["out_of_memory_requests"] == [request("a", 2)]


def ran(file: str, number: int, level: float, **more: object) -> dict[str, object]:
    """Members of a line that was killed for memory while this line of code ran."""
    running = {"file": file, "line": number, "function": "load", "level": level, "stack": [], **more}
    return {"OutOfMemory": 1, "status": "error", "outOfMemory": {"signals": ["kernel"], "running": running}}


def test_kills_are_counted_by_the_line_that_ran(told: Told, report: Report) -> None:
    lines = [line("a", number, **ran("orders.py", 31, 500.0 - number)) for number in (1, 2, 3)]
    lines += [line("a", 4, **ran("app.py", 9, 470)), line("a", 5, OutOfMemory=1, status="error"), line("b", 1)]
    sentence = (
        "When memory ran out, orders.py:31 in load ran in 3 of 5, seen at 497.0 MiB or more; app.py:9 in load in 1"
    )
    assert f"{sentence}; not known of 1." in told(lines)
    document = report(lines)
    assert document["functions"][0]["ran_out"][0] == {
        "file": "orders.py",
        "line": 31,
        "function": "load",
        "kills": 3,
        "level": 497.0,
        "place": "orders.py:31 in load",
    }
    assert ", most at orders.py:31 in load" in document["actions"][0]["text"]


@pytest.mark.parametrize(
    ("running", "place"),
    [
        ({"file": "a\x1b[1m.py", "line": 3, "function": "f"}, "a\\x1b[1m.py:3 in f"),
        ({"level": 480, "stack": ["<frozen runpy>:88 _run_code", "/opt/agent.py:7 send"]}, "/opt/agent.py:7 send"),
        ({"file": "a.py", "line": -3, "level": "much"}, "a.py"),
        ({"file": 7, "line": [], "stack": 5}, None),
        ([], None),
    ],
)
def test_what_ran_is_read_as_far_as_it_is_of_its_kind(running: object, place: str | None, report: Report) -> None:
    lines = [line("a", 1, OutOfMemory=1, outOfMemory={"signals": ["kernel"], "running": running})]
    assert [each["place"] for each in report(lines)["functions"][0]["ran_out"]] == ([] if place is None else [place])


def test_mark_that_rises_over_steady_memory_is_named(told: Told) -> None:
    out = told([*life("a", 200, MaxMemoryUsed=200), line("a", 201, MaxMemoryUsed=700)])
    assert "Max Memory Used rose in 1 environment whose memory has settled well below it" in out


def test_an_environment_or_a_time_can_be_chosen(truemem: Command, two: Path) -> None:
    chosen = truemem("report", two, "--environment", LEAKY, "--json").document
    later = truemem("report", two, "--since", LATER, "--json").document

    assert [each["environment_id"][-8:] for each in chosen["environments"]] == [LEAKY]
    assert chosen["elsewhere"] == 200
    assert later["lines"] == 2 * 50


def test_csv_has_a_row_for_each_environment(truemem: Command, two: Path) -> None:
    leaky, steady = csv.DictReader(io.StringIO(truemem("report", two, "--format", "csv").out))
    names = ("cause", "holder", "hidden", "invocations")
    assert (leaky["environmentId"][-8:], *map(leaky.get, names)) == (LEAKY, "leak", "function", "False", "200")
    assert (steady["environmentId"][-8:], *map(steady.get, names)) == (STEADY, "none", "", "False", "200")
    assert float(leaky["lowKiB"]) < float(leaky["perInvocationKiB"]) < float(leaky["highKiB"])
    assert int(leaky["invocationsLeft"]) > 0


def test_standard_input_is_read_packed_or_not(truemem: Command, two: Path) -> None:
    content = two.read_bytes()

    for given in (content, gzip.compress(content)):
        assert truemem("report", "-", "--json", stdin=given).document["lines"] == 400


def test_a_reset_begins_a_new_curve(tmp_path: Path) -> None:
    """Memory that falls with new processes is no plateau of the old ones, and theirs no leak of the new."""
    lives = [*life("a", 200, grows=1.0), *life("a", 400)[200:]]
    lives[200] = line("a", 201, suppressedInit=True)
    report = collect.collect([log(tmp_path, lives)], Job())

    assert report.environments[0].finding.cause == "leak"
    assert [point.begins for point in points(list(read([tmp_path / "log.txt"])))].index(True) == 200


def test_versions_of_a_function_stand_apart(truemem: Command, tmp_path: Path) -> None:
    lines = [*life("a", functionVersion="41"), *life("b", grows=1.0, functionVersion="42")]
    path = log(tmp_path, lines)
    report = truemem("report", path, "--compare", "41:42", "--json").document

    assert [each["version"] for each in report["functions"]] == ["41", "42"]
    comparison = report["comparison"]
    rows = {row["name"]: row for row in comparison["rows"]}
    assert rows["growth, KiB per invocation"]["after"] == pytest.approx(1024, rel=0.02)
    assert comparison["sentence"] == "Version 42 brought growth that 41 did not have."
    assert "Before and after" in truemem("report", path, "--compare", "41:42").out


SAID = {
    "Powertools": '{{"level":"INFO","message":"done","function_request_id":"{id}","model_id":"{model}"}}',
    "Lambda's JSON format": '{{"timestamp":"2026","requestId":"{id}","message":{{"model_id":"{model}"}}}}',
    "plain JSON": '{{"request_id":"{id}","model_id":"{model}"}}',
    "Lambda's text format": '[INFO]\t2026-11-21T12:00:00.123Z\t{id}\t{{"model_id":"{model}"}}',
}


@pytest.mark.parametrize("form", SAID)
def test_memory_is_told_by_what_the_function_says(form: str, report: Report) -> None:
    def lines() -> Iterator[str]:
        for number in range(1, 41):
            model = "big" if number % 4 == 0 else "small"
            peak = 300.0 if model == "big" else 100.0
            yield SAID[form].format(id=request("a", number), model=model)
            left = 92.0 if model == "big" else 90.0
            yield line("a", number, PeakRSS=peak, CurrentRSS=left, baselineRSS=90.0)
        yield line("a", 41)
        yield SAID[form].format(id=request("other", 1), model="big")

    document = report(lines(), "--by", "model_id")

    big, small, not_told = document["parts"]
    assert (big["value"], big["peaks"]["invocations"], big["peaks"]["p50"]) == ("big", 10, 300)
    assert (big["added_p50"], big["left_mean"], big["left_sum"]) == (210, 2, 20)
    assert (small["value"], small["peaks"]["invocations"], small["left_sum"]) == ("small", 30, 0)
    assert (not_told["value"], not_told["peaks"]["invocations"]) == (None, 1)
    assert document["by_left_out"] == {"without_request_id": 0, "without_line": 1}


def test_what_by_leaves_out_is_told_with_the_reason(told: Told) -> None:
    lines = [line("a", 1), json.dumps({"model_id": "big"}), SAID["plain JSON"].format(id=request("b"), model="big")]
    lines.append(SAID["plain JSON"].format(id=request("a", 1), model="big"))
    out = told(lines, "--by", "model_id")
    assert "left out: 1 log line without a request id; left out: 1 request without a line of the sidecar here" in out


@pytest.mark.parametrize(("fail_on", "code"), [([], 0), (["leak"], 1), (["oom"], 0), (["leak", "oom"], 1)])
def test_a_leak_is_a_failure_only_when_asked_for(fail_on: list[str], code: int, truemem: Command, two: Path) -> None:
    options = [word for name in fail_on for word in ("--fail-on", name)]

    assert truemem("report", two, *options).code == code


def test_many_environments_are_judged_in_parts_on_all_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, truemem: Command
) -> None:
    monkeypatch.setattr(collect, "WORTH_A_POOL", 1)
    lines = [each for number in range(12) for each in life(f"{number:08x}", 150, grows=2.0 if number == 7 else 0.0)]
    path = log(tmp_path, sorted(lines, key=hash))
    report = truemem("report", path, "--json").document

    (leaky,) = (each for each in report["environments"] if each["finding"]["cause"] == "leak")
    assert leaky["environment_id"].endswith("00000007")
    assert report["functions"][0]["peaks"]["invocations"] == 12 * 150
    monkeypatch.setattr(collect, "WORTH_A_POOL", 1 << 30)
    assert truemem("report", path, "--json").document == report  # in one part, in this process


def test_the_lines_that_were_asked_for_are_drawn(truemem: Command, two: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert truemem("report", two, "--since", LATER, "--output", page).code == 0
    assert page.read_text().lstrip().lower().startswith("<!doctype html>")
    assert page.read_text().count('"count":50') == 2
    refused = truemem("report", two, "--output", tmp_path / "none" / "page.html")
    assert (refused.code, "cannot write" in refused.err) == (2, True)
