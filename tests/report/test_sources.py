"""Logs as people have them: whatever stands around a line, it is found, once, and as it was."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from truemem_workbench.analysis.drift import points
from truemem_workbench.lines.line import read
from truemem_workbench.lines.log_events import parsed_event
from truemem_workbench.lines.log_files import kind_of
from truemem_workbench.report.store import Store
from truemem_workbench.support.bad_input import BadInput

from tests.attach.captured import FILE as CAPTURED
from tests.report.conftest import Command
from tests.report.written import BEGIN_MS, line, log, request

STREAM = "2026/11/21/[$LATEST]8f73da1af051865902f94f95f6c5dbbf"
TIME = "2026-11-21T12:00:00.123000+00:00"
OTHERS = ["START RequestId: 52fdfc07 Version: $LATEST", '{"message":"hello","requestId":"x"}', "a { brace", ""]
MESSAGES = [OTHERS[0], line("a", 1), OTHERS[1], OTHERS[2], line("a", 2), line("b", 1), OTHERS[3]]


def spread(prefix: str) -> str:
    """JSON with its members on lines of their own, as `sam logs` and `aws logs tail --format json` print it."""
    texts = [json.dumps(json.loads(each), indent=2) if each.startswith("{") else each for each in MESSAGES]
    return "".join(f"{prefix}{text}\n" for text in texts)


def as_csv(header: Sequence[str]) -> str:
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(header)
    writer.writerows([BEGIN_MS, message] for message in MESSAGES)
    return file.getvalue()


def as_local_run() -> str:
    """`truemem local run --json`."""
    return "".join(json.dumps({"log": {"source": "extension:truemem", "text": text}}) + "\n" for text in MESSAGES)


FORMS = {
    "lines": "".join(f"{each}\n" for each in MESSAGES),
    "lines, no newline at the end": "\n".join(MESSAGES[:-1]),
    "lines of Windows": "".join(f"{each}\r\n" for each in MESSAGES),
    "aws logs tail": "".join(f"{TIME} {STREAM} {each}\n" for each in MESSAGES),
    "aws logs tail, short": "".join(f"2026-11-21T12:00:00 {each}\n" for each in MESSAGES),
    "aws logs tail, json": spread(f"{TIME} {STREAM} "),
    "sam logs": spread(f"{STREAM} {TIME} "),
    "truemem local run": "".join(f"  truemem | {each}\n" for each in MESSAGES),
    "truemem local run, json": as_local_run(),
    "console, CSV": as_csv(["timestamp", "message"]),
    "Insights, CSV": as_csv(["@timestamp", "@message"]),
    "Insights, CSV with a mark": "\ufeff" + as_csv(["@timestamp", "@message"]),
    "Insights, JSON": json.dumps([{"@timestamp": "2026", "@message": each} for each in MESSAGES], indent=1),
    "filter-log-events": json.dumps({"events": [{"message": each, "timestamp": 1} for each in MESSAGES]}, indent=4),
    "get-query-results": json.dumps({"results": [[{"field": "@message", "value": each}] for each in MESSAGES]}),
    "subscription": json.dumps({"messageType": "DATA_MESSAGE", "logEvents": [{"message": e} for e in MESSAGES]}) + "\n",
    "records as a list": json.dumps([json.loads(line(*each)) for each in (("a", 1), ("a", 2), ("b", 1))]),
}


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be"])  # as PowerShell writes
@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_the_same_lines(
    form: str, encoding: str, packed: bool, truemem: Command, tmp_path: Path
) -> None:
    path = tmp_path / ("log [*].gz" if packed else "it's a log [*]")
    content = (("\ufeff" if encoding == "utf-16-be" else "") + FORMS[form]).encode(encoding)
    path.write_bytes(gzip.compress(content) if packed else content)

    one_by_one = [(each.environment, each.invocation, each.request_id) for each in read([path])]
    with Store() as store:
        loaded = store.load([path])
        in_the_store = store.rows(
            "SELECT environment_id, invocation, request::VARCHAR AS r, peak FROM line ORDER BY ALL"
        )

    assert one_by_one == [(f"2026/11/21/[$LATEST]{e}", i, request(e, i)) for e, i in (("a", 1), ("a", 2), ("b", 1))]
    assert [(each["environment_id"], each["invocation"], each["r"]) for each in in_the_store] == one_by_one
    assert (loaded.lines, loaded.unreadable) == (3, 0)
    assert "3 lines of the sidecar" in truemem("doctor", path).out


def test_the_captured_logs_of_real_runs_are_read_whole() -> None:
    lines = list(read([CAPTURED]))

    printed = [parsed_event(each) or {} for each in CAPTURED.read_text().splitlines() if '"schema"' in each]
    assert len(lines) == sum(each.get("aggregate", {}).get("invocations", 1) for each in printed)
    assert all(each.function and each.function_version and each.time_ms for each in lines)


def test_the_verdict_gets_what_each_invocation_left_behind(tmp_path: Path) -> None:
    path = log(tmp_path, [line("a", 1), line("a", 2, CurrentRSS=95.5, raced=True), line("a", 3, closedBy="shutdown")])

    first, raced, last = points(list(read([path])))

    assert (first.current_kib, first.peak_kib, first.certain) == (90 * 1024, 100 * 1024, True)
    assert (raced.current_kib, raced.invocation, raced.certain) == (95.5 * 1024, 2, False)
    assert not last.certain


def one_by_one(paths: list[Path]) -> int:
    return len(list(read(paths)))


def in_the_store(paths: list[Path]) -> int:
    with Store() as store:
        store.load(paths)
        for _ in store.batches():
            return int(store.value("SELECT count(*) FROM batch"))
    return 0


AGAIN = line("a", 2, recovered=True, mayRepeat=True, _aws=None)
"""As the next process prints it."""


@pytest.mark.parametrize("count", [one_by_one, in_the_store])
@pytest.mark.parametrize(
    "lines",
    [[line("a", 1), line("a", 2), AGAIN], [AGAIN, line("a", 1), line("a", 2)], [line("a", 1), AGAIN]],
    ids=["the line came", "the line comes later", "the line never came"],
)
def test_a_line_that_may_repeat_counts_once(
    count: Callable[[list[Path]], int], lines: list[str], tmp_path: Path
) -> None:
    path = log(tmp_path, lines)

    assert count([path]) == 2
    assert count([path, path]) == 2  # the same log twice


def test_a_line_of_a_later_version_is_read(truemem: Command, tmp_path: Path) -> None:
    later = [line("a", n, schema=2, largestRSS=80.0, shards={"a": [1]}) for n in (1, 2)]
    ran = truemem("report", log(tmp_path, [*later, line("a", 3)]), "--json")
    assert ran.document["lines"] == 3
    assert ran.document["environments"][0]["peaks"]["highest"] == 100
    for command in ("doctor", "page"):
        assert (
            truemem(command, log(tmp_path, later), *["--output", tmp_path / "x.html"] * (command == "page")).code == 0
        )


def test_a_line_cut_off_is_counted_and_harms_nothing(tmp_path: Path) -> None:
    cut = line("a", 2)[:200] + '"environmentId":"schema","schema"'
    path = log(tmp_path, [line("a", 1), cut, '{"schema": "of something else", "environmentId": 7}', line("a", 3)])
    with path.open("ab") as file:
        file.write(b'\xff\xfe{"schema":1,"environmentId":"\xff"}\n')

    with Store() as store:
        loaded = store.load([path])

    assert (loaded.lines, loaded.unreadable) == (2, 1)


@pytest.mark.parametrize(
    ("content", "kind"),
    [(b"", "lines"), (b"{\n", "spread"), (b"[", "json"), (b'{"message":"hi","level":"INFO"}\n{}', "lines")],
)
def test_odd_files_have_a_kind(content: bytes, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "odd"
    path.write_bytes(content)

    assert kind_of(path) == kind


def test_a_broken_gzip_file_is_bad_input(tmp_path: Path) -> None:
    path = tmp_path / "broken.gz"
    path.write_bytes(gzip.compress(line().encode() * 100)[:200])

    with pytest.raises(BadInput, match=r"broken.gz cannot be read"):
        list(read([path]))
