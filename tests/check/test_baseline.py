"""The committed file."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from truemem_workbench.answer.baseline import AllowedGrowth, Baseline, read_baseline, write_baseline
from truemem_workbench.local import BadInput

ONE, TWO = Baseline(55.0, 50.0, {"events": "a"}), Baseline(90.0, 40.0)


def test_what_is_written_is_read_in_either_order(tmp_path: Path) -> None:
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    write_baseline(first, "app.py:one", ONE)
    write_baseline(first, "app.py:two", TWO)
    assert read_baseline(first, "app.py:one") == ONE
    assert read_baseline(first, "app.py:two") == TWO

    write_baseline(second, "app.py:two", TWO)
    write_baseline(second, "app.py:one", ONE)
    assert first.read_text() == second.read_text()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is no baseline of truemem check"),
        ('{"schema": 2, "functions": {}}', "is no baseline of truemem check"),
        ('{"schema": 1, "functions": {}}', "no baseline of app.py:one in"),
        (json.dumps({"schema": 1, "functions": {"app.py:one": {"peak": "?"}}}), "has no peak and current, in MiB"),
        ('{"schema": 1, "functions": {"app.py:one": {"peak": NaN, "current": 1}}}', "has no peak and current, in MiB"),
        (None, "No such file or directory"),
    ],
)
def test_what_is_no_baseline_is_refused_in_one_line(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "memory.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(BadInput) as refused:
        read_baseline(path, "app.py:one")
    assert said in str(refused.value)
    assert f"Try --write-baseline {path}" in str(refused.value)


def test_a_file_of_something_else_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "package.json"
    path.write_text('{"name": "app"}')
    with pytest.raises(BadInput, match="is no baseline"):
        write_baseline(path, "app.py:one", ONE)
    assert path.read_text() == '{"name": "app"}'


def test_it_says_where_figures_are_not_alike() -> None:
    assert ONE.differs({"events": "a", "runtime": "python3.13"}) == []
    assert ONE.differs({"events": "b"}) == ["not as in the baseline: events (was a, is b)"]


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ({"events": "a", "sent": 130}, "130 different events were sent, for the baseline 200: try --invocations 200"),
        ({"events": "a", "sent": 300}, None),
        ({"events": "b", "sent": 130}, "not as in the baseline: events (was a, is b)"),
    ],
)
def test_fewer_events_than_for_the_baseline_are_told(now: dict[str, object], said: str | None) -> None:
    told = replace(ONE, about={"events": "a", "sent": 200}).differs(now)
    assert ([] if said is None else [said]) == [each.removesuffix(" or more") for each in told]


def test_growth_is_a_share_or_mib() -> None:
    for text, mib in (("10%", 5.0), ("8", 8.0), ("0", 0.0), ("2.5%", 1.25)):
        assert AllowedGrowth.parse(text).mib(50) == pytest.approx(mib)
    for text in ("", "%", "-1", "nan", "inf", "8 MiB"):
        with pytest.raises(ValueError, match=r".*"):
            AllowedGrowth.parse(text)
