"""The runner of benchmarks: its list, its pages, and the marks of the tables that it writes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType

import click
import pytest

from benchmarks.__main__ import measure, texts
from benchmarks.kit.bench import Bench, in_turn
from testing import pages
from testing.pages import Result, Table

ROOT = Path(__file__).parents[2]
FIGURES = Table("Figures", ("", "ms"), [["a start", "3.5"]])


def test_every_benchmark_says_in_one_line_what_it_asks() -> None:
    assert len(texts()) > 20
    assert [name for name, text in texts().items() if not 20 < len(text.partition("\n")[0]) < 100] == []


def test_every_page_of_results_has_a_benchmark_that_writes_it() -> None:
    written = {path.stem for path in (ROOT / "benchmarks" / "results").iterdir()}
    assert written - set(texts()) == {"faults"}


def test_every_command_that_a_page_names_exists() -> None:
    page_of = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("*/*.md"), *ROOT.glob("benchmarks/results/*.md")]
    named = {name for page in page_of for name in re.findall(r"python -m benchmarks[ .](\w+)", page.read_text())}
    assert named - set(texts()) == set()


def module(broken: tuple[str, ...] = ()) -> ModuleType:
    made = ModuleType("benchmarks.made")

    def run(bench: Bench) -> Result:
        if bench.only:
            raise OSError("no perf here")
        return Result([FIGURES], broken)

    vars(made).update(TITLE="Made", run=run)
    return made


@pytest.mark.parametrize(("broken", "only", "code"), [((), (), 0), (("too slow",), (), 1), ((), ("x",), 2)])
def test_exit_code_says_kept_broken_or_not_measured(
    broken: tuple[str, ...], only: tuple[str, ...], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        measure(module(broken), 1.0, only, True, False)
        ended = 0
    except SystemExit as end:
        ended = int(str(end.code))
    assert ended == code
    if code < 2:
        told = json.loads(capsys.readouterr().out)
        assert (told["tables"][0]["rows"], told["broken"]) == ([["a start", "3.5"]], list(broken))


def test_a_table_is_put_between_its_marks_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- a: made by make bench -->\nold\n<!-- /a -->\nafter\n")
    pages.replace(page, "a", FIGURES.markdown())
    table = "|  | ms |\n| --- | --: |\n| a start | 3.5 |"
    assert page.read_text() == f"before\n<!-- a: made by make bench -->\n{table}\n<!-- /a -->\nafter\n"
    with pytest.raises(click.ClickException):
        pages.replace(page, "b", "")


def test_sides_take_turns_in_both_orders() -> None:
    order: list[str] = []
    in_turn({name: lambda name=name: order.append(name) for name in "ab"}, 2)  # type: ignore[misc]
    assert order == ["a", "b", "b", "a"]
