"""The sample's page says what the code does."""

from __future__ import annotations

import re
from typing import Any
from unittest.mock import Mock

import pytest
from events import BATCH_MAX, ROWS_MAX
from settings import Settings, read_settings

from benchmarks.sample_settings import CHANGES, FIGURES, SETTINGS, changes
from tests.sample.conftest import SAMPLE

PAGE = (SAMPLE / "README.md").read_text()


def test_every_variable_is_on_the_page_with_its_default() -> None:
    empty = Mock()
    empty.get.return_value = ""
    settings = read_settings(empty)
    documented = dict(re.findall(r"^\| `([A-Z_]+)` \| `?([^|`]+)`? \|", PAGE, re.MULTILINE))

    assert sorted(documented) == sorted(call.args[0] for call in empty.get.call_args_list)
    shape = {"MODEL_LAYERS": settings.shape.layers, "MODEL_WIDTH": settings.shape.width}
    for name, default in documented.items():
        value = shape[name] if name in shape else getattr(settings, name.lower())
        assert default == ("unset" if value is None else str(value).lower())


def test_the_bounds_of_an_event_are_those_on_the_page() -> None:
    assert f"1 (default) to {BATCH_MAX}" in PAGE
    assert f"1 to {ROWS_MAX} lists of {Settings().shape.width} numbers" in PAGE


LINKS = re.findall(r"\[`(\w+)`\]\((\w+\.py)#L(\d+)\)", PAGE)


@pytest.mark.parametrize(("name", "file", "line"), sorted(set(LINKS)))
def test_a_link_to_a_line_hits_what_it_names(name: str, file: str, line: str) -> None:
    text = (SAMPLE / file).read_text().splitlines()[int(line) - 1]
    assert re.match(rf"\s*(def|class) {name}\b", text), f"README.md: {file}#L{line} is now: {text}"


def test_every_setting_of_the_table_has_the_line_that_reads_it() -> None:
    assert {name for name, _, _ in LINKS} >= {change.name for change in CHANGES} - {"read_settings"}


def test_the_changes_are_steps_between_rows_of_the_table() -> None:
    rows: list[dict[str, Any]] = [
        {"settings": settings, **dict.fromkeys(FIGURES, 100 + number)} for number, settings in enumerate(SETTINGS)
    ]
    lines = changes(rows).splitlines()
    assert len(lines) == 2 + len(CHANGES)
    assert re.fullmatch(
        r"\| a file, not its bytes \| \[`open_session`\]\(sessions\.py#L\d+\) \|( 100 → 103 \|){5}", lines[3]
    )
    for settings in SETTINGS:
        read_settings(settings)
