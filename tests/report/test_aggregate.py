"""Lines of many invocations: to a reader they are the lines that each would have had."""

import json
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.judge.drift import points
from truemem_workbench.printed.line import parse_event, read

from tests.records import printed, record, succeeded
from tests.report.conftest import Command
from tests.report.written import log

TOGETHER = {b"TRUEMEM_AGGREGATE": b"60"}
ENVIRON = {b"TRUEMEM_PROPERTIES": b"model=7b"}
STREAM = "2026/11/21/[7]a"


@pytest.fixture
def logs(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> tuple[Path, Path]:
    """250 invocations of an environment that grows: a line for each, and together."""

    def made(environ: dict[bytes, bytes], name: str) -> Path:
        records = []
        for number in range(1, 251):
            peak_mib = 240 + number % 9 + 40 * (number == 77)
            report = succeeded(10 + number / 8)
            records.append(record(number, 90 + number / 2, peak_mib, raced=number % 50 == 3, report=report))
        lines = printed(capfd, records, ENVIRON | environ)
        return log(tmp_path, (json.dumps(json.loads(each) | {"environmentId": STREAM}) for each in lines), name)

    return made({b"TRUEMEM_DETAIL": b"always"}, "alone.log"), made(TOGETHER, "together.log")


def test_the_verdict_gets_the_same_points(logs: tuple[Path, Path]) -> None:
    alone, together = ([*read([path])] for path in logs)
    assert points(alone) == points(together)
    assert [(each.request_id, each.duration_ms, each.peak_upper, each.max_memory_used) for each in alone] == [
        (each.request_id, each.duration_ms, each.peak_upper, each.max_memory_used) for each in together
    ]
    assert sum(len(parse_event(text)) for text in logs[1].read_text().splitlines()) == len(together) == 250


@pytest.mark.parametrize("more", [(), ("--by", "model"), ("--since", "2023-11-14T22:13:35Z")])
def test_a_report_says_the_same(more: tuple[str, ...], logs: tuple[Path, Path], truemem: Command) -> None:
    alone, together = (truemem("report", path, "--json", *more).document for path in logs)
    assert len(logs[1].read_text().splitlines()) == 3
    assert alone["lines"] == together["lines"] > 0
    assert alone["elsewhere"] == together["elsewhere"]
    for part in (*alone["parts"], *together["parts"]):
        # what an invocation found is on no common line
        del part["added_p50"], part["left_mean"], part["left_sum"]
    (dear,), (cheap,) = log_costs(alone), log_costs(together)
    assert cheap < dear / 5
    assert alone == together


def log_costs(document: Any) -> list[float]:
    """What the lines of each function cost. Takes it, and what includes it, out of the report."""
    for each in document["environments"]:
        del each["line_bytes"]
    document["sentences"] = [each for each in document["sentences"] if "log lines" not in each]
    costs = [each.pop("cost") for each in document["functions"]]
    return [each["log_lines"] for each in costs]


def test_one_that_may_repeat_counts_once(logs: tuple[Path, Path], tmp_path: Path, truemem: Command) -> None:
    """The process was killed while it printed them together: the next one cannot know, and tells of each again."""
    alone, together = logs
    again = []
    for text in alone.read_text().splitlines()[:100]:
        document = json.loads(text) | {"recovered": True, "mayRepeat": True}
        del document["_aws"]
        again.append(json.dumps(document))
    both = log(tmp_path, [*together.read_text().splitlines(), *again], "both.log")
    assert len([*read([both])]) == 250
    report = truemem("report", both, "--json").document
    assert report["environments"][0]["peaks"]["invocations"] == 250
    assert report["repeated"] == 100


@pytest.mark.parametrize(
    "aggregate",
    [
        {},
        {"requestId": 7},
        {"requestId": "a b", "invocation": "x", "startMs": [None], "durationMs": {}, "raced": [9]},
        {"requestId": "", "invocation": []},
        {"requestId": "a", "invocation": [1, 2, 3]},
    ],
)
def test_columns_of_another_kind_harm_nothing(
    aggregate: object, logs: tuple[Path, Path], tmp_path: Path, truemem: Command
) -> None:
    *_, last = logs[0].read_text().splitlines()
    odd = json.dumps(json.loads(last) | {"aggregate": aggregate, "invocation": 251})
    path = log(tmp_path, [*logs[0].read_text().splitlines(), odd], "odd.log")
    assert 250 <= len([*read([path])]) <= 252
    assert truemem("report", path, "--json").document["environments"][0]["finding"]["cause"] == "leak"


# Lines without metadata


@pytest.mark.parametrize("environ", [{}, TOGETHER], ids=["alone", "together"])
def test_lines_without_metadata_are_reported_as_lines_with_it(
    environ: dict[bytes, bytes], tmp_path: Path, capfd: pytest.CaptureFixture[str], truemem: Command
) -> None:
    def made(output: bytes) -> Path:
        records = [record(number, 90 + number / 2, 240 + number % 9) for number in range(1, 151)]
        lines = printed(capfd, records, {**environ, b"TRUEMEM_OUTPUT": output})
        return log(
            tmp_path, (json.dumps(json.loads(each) | {"environmentId": "env"}) for each in lines), output.decode()
        )

    usual, plain = made(b"emf"), made(b"json")
    assert "_aws" not in plain.read_text()
    found = [[(line.request_id, line.time_ms, line.may_repeat) for line in read([path])] for path in (usual, plain)]
    assert found[0] == found[1]
    assert len(found[0]) == sum(len(parse_event(text)) for text in plain.read_text().splitlines()) == 150
    of_plain, of_usual = (truemem("report", each, "--json").document for each in (plain, usual))
    assert log_costs(of_plain) < log_costs(of_usual)
    assert of_plain == of_usual
