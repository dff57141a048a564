"""Events from a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from truemem_workbench.check.events import read_events
from truemem_workbench.local import BadInput


@pytest.mark.parametrize(
    ("text", "events"),
    [
        ('[{"id": 1}, {"id": 2}]', [{"id": 1}, {"id": 2}]),
        ('{"id": 1}\n\n{"id": 2}\n', [{"id": 1}, {"id": 2}]),
        ('{\n  "id": 1\n}', [{"id": 1}]),
        ('"text"', ["text"]),
        ('{"id": 1}', [{"id": 1}]),
    ],
)
def test_an_array_lines_or_a_single_one(tmp_path: Path, text: str, events: list[object]) -> None:
    (tmp_path / "events").write_text(text)
    assert read_events(tmp_path / "events") == events


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[]", "the array is empty"),
        (b"\n\n", "it is empty"),
        (b'{"id": 1}\n{"id"', "events line 2 is not JSON"),
        (b"\xff\xfe", "it is not text"),
        (None, "No such file or directory"),
    ],
)
def test_a_file_without_events_is_refused_in_one_line(tmp_path: Path, content: bytes | None, said: str) -> None:
    if content is not None:
        (tmp_path / "events").write_bytes(content)
    with pytest.raises(BadInput, match=said) as refused:
        read_events(tmp_path / "events")
    assert "Try " in str(refused.value)
