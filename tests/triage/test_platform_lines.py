"""REPORT lines, read as people keep them: the same figures from each form, each in its environment."""

import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.printed.platform_lines import Ended, PlatformLines, Reports
from truemem_workbench.printed.reader import Job, Reader

from tests.triage.logged import OUT_OF_MEMORY, Logged, flat, iso, life, noisy, platform, tail

GROUP = "/aws/lambda/orders"
LINES = sorted([*life([*noisy(60, 1), 600.0], "a"), *life(flat(50), "b"), *life(noisy(40, 2), "c")])


def read(path: Path) -> Reports:
    reader = Reader(Job())
    assert list(reader.read([path])) == []  # no line of the sidecar
    return Reports.joined(reader.loaded.reports)


def rows(reports: Reports) -> list[tuple[Any, ...]]:
    """What was read, by stream: mark, size, duration, init, end."""
    names = ("mark_mb", "size_mb", "duration_ms", "init_ms", "ended")
    columns = [reports.columns[name].astype(object) for name in names]
    streams = [reports.places[key].stream for key in reports.columns["place"].tolist()]
    return sorted((s, *(str(v) for v in row)) for s, *row in zip(streams, *columns, strict=True))


def cloudwatch(each: Logged, **more: Any) -> dict[str, Any]:
    return {"logStreamName": each.stream, "timestamp": each.time_ms, "message": each.text, **more}


def insights(each: Logged) -> list[dict[str, str]]:
    cells = {"@timestamp": iso(each), "@message": each.text, "@logStream": each.stream, "@log": f"1:{GROUP}"}
    return [{"field": name, "value": value} for name, value in cells.items()]


def subscription(lines: list[Logged]) -> str:
    """A document for each stream, as Firehose writes them: one after the other."""
    made = []
    for stream in dict.fromkeys(each.stream for each in lines):
        events = [{"id": "1", "timestamp": e.time_ms, "message": e.text} for e in lines if e.stream == stream]
        made.append(json.dumps({"logGroup": GROUP, "logStream": stream, "logEvents": events}))
    return "".join(made)


def aws_tail(lines: list[Logged]) -> str:
    return tail(lines)


def sam_logs(lines: list[Logged]) -> str:
    return "".join(f"{each.stream} {iso(each)} {each.text}\n" for each in lines)


FORMS: dict[str, Callable[[list[Logged]], str]] = {
    "aws logs tail": aws_tail,
    "sam logs": sam_logs,
    "filter-log-events": lambda lines: json.dumps({"events": [cloudwatch(each) for each in lines]}, indent=4),
    "a line of JSON for each": lambda lines: "".join(json.dumps(cloudwatch(each)) + "\n" for each in lines),
    "get-query-results": lambda lines: json.dumps({"results": [*map(insights, lines)], "status": "Complete"}, indent=2),
    "subscription": subscription,
    "JSON format": lambda lines: "".join(f"{iso(e)} {e.stream} {json.dumps(platform(e))}\n" for e in lines),
    "JSON format, wrapped": lambda lines: json.dumps(
        {"events": [cloudwatch(each, message=json.dumps(platform(each))) for each in lines]}
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_has_the_same_figures(form: str, tmp_path: Path) -> None:
    path = tmp_path / "orders.log"
    path.write_text(FORMS[form](LINES), encoding="utf-8")
    plain = tmp_path / "plain.log"
    plain.write_text(aws_tail(LINES), encoding="utf-8")
    assert rows(read(path)) == rows(read(plain))
    assert len(rows(read(path))) == len(LINES)


def test_a_folder_of_an_export_names_the_stream(tmp_path: Path) -> None:
    for stream in dict.fromkeys(each.stream for each in LINES):
        folder = tmp_path / stream.replace("/", "-")
        folder.mkdir()
        text = "".join(f"{iso(each)} {each.text}\n" for each in LINES if each.stream == stream)
        (folder / "000000.gz").write_bytes(gzip.compress(text.encode()))
    files = sorted(tmp_path.glob("*/000000.gz"))
    reader = Reader(Job())
    list(reader.read(files))
    plain = tmp_path / "plain.log"
    plain.write_text(aws_tail(LINES), encoding="utf-8")
    assert rows(Reports.joined(reader.loaded.reports)) == rows(read(plain))


def test_the_log_group_names_the_function(tmp_path: Path) -> None:
    path = tmp_path / "all.json"
    path.write_text(subscription(LINES))
    assert {place.function for place in read(path).places.values()} == {"orders"}


def test_a_stream_of_a_shared_log_group_names_the_function() -> None:
    stream = f"2026/11/21/orders[41]{'0' * 32}"
    for group in ("all.log", "/aws/lambda/shared"):
        lines = PlatformLines()
        lines.begin_file(group)
        lines.read_event({"logGroup": group, "logStream": stream, "message": LINES[0].text})
        lines.read_block(f"{stream} {LINES[0].text}\n".encode())
        (place,) = lines.taken().places.values()
        assert (place.function, place.stream) == ("orders", stream)


@pytest.mark.parametrize(
    ("text", "ended"),
    [
        (OUT_OF_MEMORY, Ended.OUT_OF_MEMORY),
        ("Status: timeout", Ended.TIMEOUT),
        ("Status: error\tError Type: Runtime.ExitError", Ended.EXITED),
        ("Status: failure", Ended.FAILED),
        ("Status: success", Ended.WELL),
        ("XRAY TraceId: 1-5e1b4151-5ac6c58f5b5dbd62\tSegmentId: 1\tSampled: true", Ended.WELL),
    ],
)
def test_the_end_of_a_report_says_how_it_ended(text: str, ended: Ended) -> None:
    lines = PlatformLines()
    lines.begin_file("a.log")
    lines.read_block(f"{LINES[0].text}\t{text}\n".encode())
    assert lines.taken().columns["ended"].tolist() == [ended]


@pytest.mark.parametrize(
    ("text", "ended"),
    [
        ("RequestId: {0} Error: Runtime exited with error: signal: killed", Ended.KILLED),
        ("RequestId: {0} Error: Runtime exited without providing a reason", Ended.EXITED),
        ("2026-11-21T10:00:00.000Z {0} Task timed out after 3.00 seconds", Ended.TIMEOUT),
    ],
)
def test_an_older_log_says_it_in_another_line(text: str, ended: Ended) -> None:
    request = LINES[0].text.split()[2]
    lines = PlatformLines()
    lines.begin_file("a.log")
    lines.read_block(f"{text.format(request)}\n{LINES[0].text}\n".encode())
    made = lines.taken()
    assert [made.killed[key] for key in made.columns["request"].tolist()] == [ended]


@pytest.mark.parametrize(
    "times", ["2026-11-21T10:00:00.123Z", "2026-11-21T11:00:00.123+01:00", "2026-11-21 10:00:00.123"]
)
def test_a_time_is_read_in_any_zone(times: str) -> None:
    lines = PlatformLines()
    lines.begin_file("a.log")
    lines.read_block(f"{times} {LINES[0].text}\n".encode())
    (read_ms,) = lines.taken().columns["time_ms"].tolist()
    assert read_ms == datetime(2026, 11, 21, 10, 0, 0, 123_000, tzinfo=UTC).timestamp() * 1000


def test_figures_that_are_none_are_left_out(tmp_path: Path) -> None:
    """A log may be hostile or damaged."""
    path = tmp_path / "a.log"
    damaged = LINES[0].text.replace("Memory Size: 512 MB", "Memory Size: 99999999999999 MB")
    wrong = {"type": "platform.report", "record": {"requestId": "x", "metrics": {"maxMemoryUsedMB": "many"}}}
    path.write_text(f"{damaged}\n{json.dumps(wrong)}\nREPORT RequestId: \n{LINES[1].text}\n")
    assert len(read(path)) == 1


@pytest.mark.parametrize(
    "metrics",
    [
        {"memorySizeMB": 10**14, "maxMemoryUsedMB": 100},
        {"memorySizeMB": 0, "maxMemoryUsedMB": 0},
        {"memorySizeMB": 512, "maxMemoryUsedMB": -1},
    ],
)
def test_sizes_that_cannot_be_are_left_out(metrics: dict[str, int]) -> None:
    lines = PlatformLines()
    lines.begin_file("a.log")
    lines.read_block(json.dumps({"type": "platform.report", "record": {"requestId": "x", "metrics": metrics}}).encode())
    text = LINES[0].text.replace("Memory Size: 512 MB", f"Memory Size: {metrics['memorySizeMB']} MB")
    if metrics["memorySizeMB"] != 512:
        lines.read_block(f"{text}\n".encode())
    assert len(lines.taken()) == 0


def test_an_init_duration_that_is_no_number_is_none() -> None:
    lines = PlatformLines()
    lines.begin_file("a.log")
    lines.read_block(f"{LINES[0].text.replace('250.10', '1.2.3')}\n{LINES[1].text}\n".encode())
    assert len(lines.taken()) == 2


def test_a_line_of_many_words_is_read_once() -> None:
    """A hostile log has them: looked at from its begin for each word, it takes minutes."""
    lines = PlatformLines()
    lines.begin_file("a.log")
    lines.read_block(b"REPORT RequestId: a " * 200_000 + f"\n{LINES[0].text}\n".encode())
    assert len(lines.taken()) == 1
