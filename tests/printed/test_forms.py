"""Logs as people have them, in each of their forms: the same figures, and nothing that is lost in silence."""

import json
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.judge.log_diagnosis import TMP_UNKNOWN
from truemem_workbench.printed.line import read
from truemem_workbench.printed.log_files import events
from truemem_workbench.printed.packed import on_disk
from truemem_workbench.printed.parts import merged
from truemem_workbench.printed.reader import Job, Reader
from truemem_workbench.printed.wrapped import Unread, inside
from truemem_workbench.support.untrusted_text import parsed

from tests.local.conftest import HANDLER, run
from tests.report.conftest import Command
from tests.report.forms import DISCOVERED, FORMS, MESSAGES, WITH_STREAM, Message, payload, subscription
from tests.report.written import life, line, log, request

Told = Callable[[Path], dict[str, Any]]


@pytest.fixture
def told(truemem: Command) -> Told:
    """All that the report says of a file."""
    return lambda path: truemem("report", path, "--json").document


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The file of a form, under a name that is none for a pattern."""
    folder = tmp_path_factory.mktemp("it's a log [*]")

    @cache
    def write(form: str) -> Path:
        path = folder / form
        path.write_bytes(FORMS[form](MESSAGES))
        return path

    return write


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_the_same_figures(form: str, told: Told, written: Callable[[str], Path]) -> None:
    found = told(written(form))
    if "local run" in form:  # it is known to be of a Lambda that does not measure /tmp
        found["sentences"].remove(TMP_UNKNOWN)
        found["functions"][0]["tmp_unknown"] = False
    assert found == told(written("lines"))


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_the_platforms_lines(form: str, written: Callable[[str], Path], tmp_path: Path) -> None:
    """The doctor and triage read these."""
    paths = on_disk([written(form)], tmp_path)
    texts = [each for path in paths for event in events(path) for each in inside(event) if isinstance(each, str)]
    wanted = {each.text for each in MESSAGES if "platform." in each.text or "RequestId: " in each.text}
    if form in DISCOVERED:
        wanted = {text for text in wanted if text.startswith("{")}
    documents = {json.dumps(parsed(text[text.index("{") :])) for text in texts if '"type":"platform.' in text}

    assert {each for each in wanted if each in documents or any(each in text for text in texts)} == wanted


Row = tuple[str, int, float, int]


def reports(path: Path, folder: Path) -> list[Row]:
    """What REPORT says of each invocation, as it is judged where the sidecar is not attached: the stream, the request,
    duration and mark."""
    reader = Reader(Job())
    merged(reader.read(on_disk([path], folder)))
    (found,) = reader.loaded.reports
    columns = (found.columns[name].tolist() for name in ("place", "request", "duration_ms", "mark_mb"))
    return sorted((found.places[place].stream, *rest) for place, *rest in zip(*columns, strict=True))


@pytest.mark.parametrize("form", [form for form in FORMS if form not in DISCOVERED])
def test_every_form_has_the_same_reports(form: str, written: Callable[[str], Path], tmp_path: Path) -> None:
    found, expected = reports(written(form), tmp_path), reports(written("aws logs tail"), tmp_path)

    assert [each[1:] for each in sorted(found, key=lambda each: each[1])] == [
        each[1:] for each in sorted(expected, key=lambda each: each[1])
    ]
    if form in WITH_STREAM:
        assert found == expected


# --- what cannot be read ----------------------------------------------------------------------------------------------

NO_END = [form for form in FORMS if form in ("gzip", "export task", "tar", "tar.gz", "zip", "zst") or "packed" in form]
"""A file that is packed has no end that is known before it was read."""
BEGUN = MESSAGES[: max(at for at, each in enumerate(MESSAGES[:80]) if '"schema"' in each.text) + 1]
"""The last of them is a line of the sidecar."""


def counted(path: Path) -> tuple[int, Unread]:
    reader = Reader(Job())
    merged(reader.read([path]))
    one_by_one, unread = len(list(read([path], unread=Unread()))), reader.loaded.unread
    assert one_by_one == reader.loaded.lines
    return one_by_one, unread


@pytest.mark.parametrize("form", [form for form in FORMS if form not in (*NO_END, "subscription, base64 alone")])
def test_a_file_cut_in_the_middle_of_a_line_says_so(form: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(FORMS[form](BEGUN)[:-300])
    lines, unread = counted(path)

    assert unread.total() >= 1
    assert lines + unread.total() <= 28
    if "event" not in form and "subscription" not in form and "failed" not in form and "get-query" not in form:
        assert (lines, unread.total()) == (26, 1)  # of others many lines are in what was packed together


@pytest.mark.parametrize("form", NO_END)
def test_a_packed_file_that_is_cut_off_is_refused(form: str, truemem: Command, tmp_path: Path) -> None:
    path = tmp_path / "log"
    content = FORMS[form](BEGUN)
    path.write_bytes(content[: len(content) // 2])

    assert f"{path} " in truemem("report", path).refusal


def test_nothing_of_a_damaged_payload_is_believed(tmp_path: Path) -> None:
    whole = payload(subscription(*life("a", 400)))
    half = len(whole) // 2
    damaged = whole[:half] + "A" * 24 + whole[half + 24 :]
    payloads = [{"awslogs": {"data": each}} for each in (whole, damaged)]

    assert counted(log(tmp_path, map(json.dumps, payloads))) == (400, {"cut_off": 1})


@pytest.mark.parametrize("of", ["view", "json-table"])
def test_athenas_columns_are_refused_with_what_to_ask(of: str, truemem: Command, tmp_path: Path) -> None:
    """Objects without quotes, as Athena prints them: where a text ends that has a comma or a brace is not known."""
    columns = {
        "view": {"begun": "2026-11-21 12:00:00.000", "environment_id": "x", "peak_rss": "100.0"},
        "json-table": {"emf": "{begun=1795}", "environment_id": "x", "peak_rss": "100.0", "holders": "{function=9.0}"},
    }[of]
    rows = [",".join(f'"{each}"' for each in row) for row in (columns.keys(), columns.values())]

    said = truemem("report", log(tmp_path, rows)).refusal
    assert "has Athena's columns, in which no line is whole. Try SELECT text FROM truemem_log WHERE" in said


def test_a_local_run_is_read_as_the_page_says_and_as_it_is_told(truemem: Command, tmp_path: Path) -> None:
    ran = run(HANDLER, "--event", "{}", "--invocations", "3")
    summary = log(tmp_path, [ran.stdout])
    for command in ("report", "lines", "page"):
        assert "summary of a local run, without the sidecar's lines. Try truemem local run --raw ... > my.log" in (
            truemem(command, summary).refusal
        )
    assert truemem("doctor", summary).out.endswith(
        "✗ This is the summary of a local run, without the sidecar's lines.\n  → truemem local run --raw ... > my.log\n"
    )
    page = (Path(__file__).parents[2] / "docs/report.md").read_text()
    assert "`truemem local run --raw ... > my.log`" in page

    raw = run(HANDLER, "--event", "{}", "--invocations", "3", "--raw")
    assert truemem("report", log(tmp_path, [raw.stdout]), "--json").document["lines"] == 3


def test_without_zstd_it_is_said_how_to_unpack(
    truemem: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.zst"
    path.write_bytes(FORMS["zst"](BEGUN))
    monkeypatch.setenv("PATH", str(tmp_path))

    assert "is packed with zstd, and that is not here. Install zstd" in truemem("report", path).refusal


# --- by the other commands --------------------------------------------------------------------------------------------

PACKED = ("subscription, as the function gets it", "Kinesis event", "journalctl -o json, bytes", "console, CSV, tabs")


@pytest.mark.parametrize("form", [*PACKED, "zip", "subscriptions, over many lines"])
def test_other_commands_read_what_is_packed(form: str, truemem: Command, written: Callable[[str], Path]) -> None:
    path = written(form)
    version = truemem("lines", path, "--json").document["versions"][0]
    assert [each["file"] for each in version["lines"]] == ['lib/"a" b.py']
    assert "264 lines of the sidecar, of 300 invocations" in truemem("doctor", path).out


@pytest.mark.parametrize("form", PACKED)
def test_by_joins_what_the_function_said_inside(form: str, truemem: Command, tmp_path: Path) -> None:
    own = [json.dumps({"model": f"m{n % 2}", "environmentIds": 1, "requestId": request("a", n)}) for n in range(1, 5)]
    texts = [each for n in range(1, 5) for each in (line("a", n), own[n - 1])]
    path = tmp_path / "log"
    path.write_bytes(FORMS[form]([Message(text, "2026/11/21/[$LATEST]a") for text in texts]))

    parts = truemem("report", path, "--by", "model", "--json").document["parts"]
    assert {part["value"]: part["peaks"]["invocations"] for part in parts} == {"m0": 2, "m1": 2}


def test_an_archive_with_what_is_no_log_says_which(truemem: Command, tmp_path: Path) -> None:
    path = tmp_path / "logs.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.log", line("a", 1))
        archive.writestr("picture.png", bytes(range(32)) * 40)

    assert "picture.png is not a log" in truemem("report", path).refusal
