"""Growth that no line explains: the lines of the plain run say which pattern it is likely to be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.explain.explanation import Explanation
from truemem_workbench.explain.rest import UNKNOWN, likely
from truemem_workbench.lines.line import Line

from tests.check.conftest import Check
from tests.explain.test_lines import explained, names_first

PATTERNS = Path(__file__).parents[2] / "docs" / "patterns.md"


def lines(of: dict[str, Any]) -> list[Line]:
    """Of 100 invocations: a figure that is a pair begins with the first and grows by the second."""

    def at(value: Any, place: int) -> Any:
        if isinstance(value, dict):
            return {name: at(each, place) for name, each in value.items()}
        return value[0] + value[1] * place

    members = ({name: at(value, place) for name, value in of.items()} for place in range(100))
    return [Line(current_rss=20, members=each) for each in members]


STEADY = {
    "threads": (4, 0),
    "processes": (1, 0),
    "rss": {"file": (20, 0), "shmem": (0, 0)},
    "heap": {"held": (1, 0), "inUse": (9, 0), "mapped": (2, 0)},
}


@pytest.mark.parametrize(
    ("grows", "pattern"),
    [
        ({}, "fragmentation"),
        ({"threads": (4, 1)}, "arenas-for-each-thread"),
        ({"processes": (1, 0.01)}, "child-processes"),
        ({"rss": {"file": (20, 0.008)}}, "mapped-files"),
        ({"rss": {"shmem": (0, 0.008)}}, "mapped-files"),
        ({"heap": {"held": (1, 0.008)}}, "arenas"),
        ({"heap": {"inUse": (9, 0.008)}}, "a-cache-without-bound"),
        ({"heap": {"mapped": (2, 0.008)}}, "a-cache-without-bound"),
    ],
)
def test_the_figure_that_grows_as_much_names_the_pattern(grows: dict[str, Any], pattern: str) -> None:
    cause = likely(lines({**STEADY, **grows}), 8.0)
    assert cause.pattern == pattern
    heading = f"## {pattern.replace('-', ' ').capitalize()}\n"
    assert heading in PATTERNS.read_text()


def test_a_figure_that_grows_by_little_names_none() -> None:
    assert likely(lines({**STEADY, "rss": {"file": (20, 0.002)}}), 8.0) == UNKNOWN


def test_without_lines_it_is_said_that_it_is_not_known() -> None:
    assert likely([], 8.0) == UNKNOWN


def test_the_sentence_and_the_document_name_the_pattern() -> None:
    explanation = Explanation([], 8.0, 100, 1.0, rest=likely(lines({**STEADY, "threads": (4, 1)}), 8.0))
    said = "\n".join(explanation.sentences())
    assert "1.00 threads more per invocation (docs/patterns.md#arenas-for-each-thread)" in said
    assert explanation.document()["restPattern"] == "arenas-for-each-thread"


def test_without_memray_mapped_files_that_are_kept_are_told(
    invoke_check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("truemem_workbench.explain.native.can_trace", lambda _: False)
    handler = f"{Path(__file__).with_name('functions') / 'libraries.py'}:files"
    done = invoke_check(handler, "--explain", "--invocations", 130, "--max-drift", 4)
    assert done.exit_code == 1, done.output
    assert "docs/patterns.md#mapped-files" in done.stdout


@pytest.mark.nightly
def test_with_memray_the_line_that_maps_them_is_named() -> None:
    assert names_first(explained("files", module="libraries.py"), "files").kind == "native block"
