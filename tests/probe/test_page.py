"""docs/verified.md: made from the files that users have contributed. tests/probe/example.json is invented."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from research.probe import page
from tests.probe.test_command import identifying

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLE = Path(__file__).with_name("example.json")
X86_64, ARM64 = 0, 1
"""Columns of the example."""


@pytest.fixture
def example() -> Any:
    return json.loads(EXAMPLE.read_text())


def rows(document: Any) -> dict[str, list[str]]:
    """The cells of each row of the document's table, by its question."""
    lines = [line for line in page.tables([document]).splitlines() if line.startswith("| ")]
    cells = [line.strip("| ").split(" | ") for line in lines]
    return {question: answers for question, *answers in cells}


def test_the_page_is_made_from_the_contributed_files() -> None:
    text = (DOCS / "verified.md").read_text()
    documents = page.read(DOCS / "verified")
    assert page.placed(text, page.tables(documents)) == text, "run make verified"
    assert (page.NOT_YET in text) == (not documents)
    assert [found for document in documents for found in identifying(json.dumps(document))] == []


def test_make_verified_writes_all_tables_newest_first(tmp_path: Path, example: Any) -> None:
    (tmp_path / "verified").mkdir()
    shutil.copy(DOCS / "verified.md", tmp_path)
    shutil.copy(EXAMPLE, tmp_path / "verified" / "a.json")
    (tmp_path / "verified" / "b.json").write_text(json.dumps({**example, "date": "2026-03-01", "region": "us-east-1"}))
    page.main(tmp_path)
    text = (tmp_path / "verified.md").read_text()
    assert page.NOT_YET not in text
    headings = [line for line in text.splitlines() if line.startswith("## 2026")]
    assert headings == [
        "## 2026-03-01, us-east-1, truemem 0.1.0, 512 MB",
        "## 2026-01-31, eu-central-1, truemem 0.1.0, 512 MB",
    ]
    assert "| question | x86_64, python3.13 | arm64, python3.13 |" in text


@pytest.mark.parametrize(
    ("question", "column", "shown"),
    [
        ("kernel", ARM64, "5.10.240-238.959.amzn2.aarch64 aarch64"),
        ("reset of a process's own watermark", X86_64, "works: "),
        ("Max Memory Used after these files were mapped", X86_64, "167 MiB, RSS 247, of it files 237, 228 MiB moved"),
        ("who has the event first, extension or handler", X86_64, "the extension in 27 of 50; its lead is 169.7 µs"),
        ("a process between two invocations", X86_64, "stops 0 ms after the last next; CLOCK_MONOTONIC goes on"),
        ("a process between two invocations", ARM64, "no stop seen: 3000 ms passed, "),
        ("exec wrapper nodejs22.x", X86_64, "answers, mode exact"),
        ("exec wrapper java21", X86_64, "started"),
        (
            "log of JSON from WARN on",
            X86_64,
            "kept: function error, extension error, line of truemem; dropped: function plain",
        ),
        ("all marks in one environment", ARM64, "no: ask again"),
    ],
)
def test_an_outcome_is_shown_in_words(question: str, column: int, shown: str, example: Any) -> None:
    assert rows(example)[question][column].startswith(shown)


def test_a_refusal_shows_its_error(example: Any) -> None:
    found = rows(example)
    assert found["reset of another's, same uid"][ARM64] == "no: EACCES"
    assert found["exec wrapper dotnet8"] == ["no: its line is not in the log"] * 2
    assert found["who has the event first, extension or handler"][ARM64] == "-"


def test_text_of_a_file_cannot_break_the_table(example: Any) -> None:
    example["results"][0]["outcomes"]["libc"]["value"] = "glibc | 2.34\n<script>"
    assert rows(example)["C library of the runtime"][X86_64] == "glibc &#124; 2.34 &#60;script&#62;"
