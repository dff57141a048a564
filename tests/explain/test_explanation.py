"""What `--explain` says in every output, and of growth that no line explains."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.answer.limits import Limits, find
from truemem_workbench.answer.outputs import github_annotations, github_summary, junit_document, plain_text
from truemem_workbench.answer.result import Result
from truemem_workbench.explain.attribution import Holder
from truemem_workbench.explain.explanation import UNKNOWN, Account, Explanation, likely
from truemem_workbench.explain.growth_page import page
from truemem_workbench.printed.line import Line

from tests.check.conftest import LEAK, Check, Refused, run_of
from tests.check.conftest import STEADY as STEADY_HANDLER

FUNCTIONS = Path(__file__).with_name("functions")
HERE = str(FUNCTIONS / "order_book.py")
LOOKS = (20, 40, 60, 80)


def an_explanation(measured_kib: float = 8.0) -> Explanation:
    holder = Holder(HERE, 19, 8.0, "dict of dict", "app.store.data", 1.0, ((HERE, 19),))
    account = Account.of(measured_kib, 8.0, 0.0, "by Python's tracemalloc")
    missing = ["An invocation did not end: 3 of 9 were traced."]
    return Explanation([holder], measured_kib, 320, 4.0, missing, looks=LOOKS, account=account)


def a_result(explanation: Explanation) -> Result:
    measurement = run_of(LEAK, warm_up=40)
    return Result(measurement, find(measurement, Limits()), Path("app.py"), 1, explanation)


def test_every_output_has_the_line() -> None:
    result = a_result(an_explanation())
    place = "tests/explain/functions/order_book.py"
    assert f"{place}:19" in plain_text(result)
    assert "self.data[key] = value" in plain_text(result)
    assert f"{place}:19" in (junit_document(result).find(".//failure").text or "")  # type: ignore[union-attr]
    assert github_annotations(result)[0].startswith(f"::error file={place},line=19,title=truemem%3A what grows::")
    (line,) = result.document()["explanation"]["lines"]  # type: ignore[index]
    assert (line["line"], line["perInvocationKiB"], line["share"]) == (19, 8.0, 1.0)


def test_after_too_few_looks_nothing_is_said_of_what_keeps() -> None:
    few = Explanation([], 8.0, 60, 4.0, ["The time for it was over: 60 of 330 were traced."], looks=LOOKS[:3])
    assert few.lines() == [
        "Which line keeps it is not known: 3 looks of 4 (60 invocations under a tracer, 4 s).",
        "The time for it was over: 60 of 330 were traced.",
    ]
    assert "restPattern" not in few.document()


def test_what_no_line_explains_is_said() -> None:
    said = "\n".join(an_explanation(measured_kib=20).lines())
    assert "Of 20.0 KiB that an invocation keeps: the lines 8.0 (by Python's tracemalloc), not known 12.0." in said
    assert "3 of 9 were traced" in said
    assert "320 invocations under a tracer, 4 s; 4 looks, from" in said
    two = replace(an_explanation(), first_run_s=2.0).lines()
    assert two[0].endswith(
        "(320 invocations under a tracer in 2 runs, 4 s; 4 looks in the first, from invocation 20 to 80):"
    )


def test_the_command_explains_nothing_where_nothing_grows(invoke_check: Check, tmp_path: Path) -> None:
    path = tmp_path / "growth.html"
    done = invoke_check(STEADY_HANDLER, "--invocations", 130, "--output", path)
    assert done.exit_code == 0, done.output
    assert "tracer" not in done.output
    assert "Nothing was traced: no growth was found." in path.read_text()


def test_what_cannot_be_explained_is_refused(refused: Refused, tmp_path: Path) -> None:
    assert "no tracer can be attached" in refused("--function", "my-function", "--explain")
    refusal = refused(STEADY_HANDLER, "--no-explain", "--output", tmp_path / "growth.html")
    assert "Leave out --no-explain" in refusal


def test_every_output_has_what_keeps_it_without_a_line() -> None:
    holders = [Holder("", 0, 6.0, "Array of Object", "kept"), Holder("", 0, 2.0, "Map of Object", "sent")]
    explanation = Explanation(holders, 8.0, 320, 4.0, looks=LOOKS)
    result = a_result(explanation)
    for text in (plain_text(result), junit_document(result).find(".//failure").text or "", github_summary(result)):  # type: ignore[union-attr]
        for row in ("6.0                 75%    line not seen  Array of Object kept", "Map of Object sent"):
            assert row in text
    assert "in no object that was seen" not in plain_text(result)
    assert not any("what grows" in each for each in github_annotations(result))
    first, _ = result.document()["explanation"]["lines"]  # type: ignore[index]
    assert (first["kind"], first["owner"], first["perInvocationKiB"]) == ("Array of Object", "kept", 6.0)
    assert first.keys().isdisjoint(("file", "line", "source"))
    html = page(explanation, "FAILED")
    assert "<td>line not seen" in html
    assert all(f">{each}<br>" in html for each in ("all that grew", "Array of Object kept", "Map of Object sent"))


# --- growth that no line explains -------------------------------------------------------------------------------------

PATTERNS = Path(__file__).parents[2] / "docs" / "patterns.md"


def lines(of: dict[str, Any]) -> list[Line]:
    """Of 100 invocations: a figure that is a pair begins with the first and grows by the second."""

    def at(value: Any, place: int) -> Any:
        if isinstance(value, dict):
            return {name: at(each, place) for name, each in value.items()}
        return value[0] + value[1] * place

    members = ({name: at(value, place) for name, value in of.items()} for place in range(100))
    return [Line(environment="", schema=1, current_rss=20, members=each) for each in members]


STEADY = {
    "threads": (4, 0),
    "processes": (1, 0),
    "rss": {"file": (20, 0), "shmem": (0, 0)},
    "heap": {"held": (1, 0), "inUse": (9, 0), "mapped": (2, 0)},
}


@pytest.mark.parametrize(
    ("grows", "pattern"),
    [
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


def test_what_lines_explain_is_no_part_of_the_rest() -> None:
    """Python's lists are malloc's as well."""
    grown = lines({**STEADY, "heap": {"held": (1, 0), "inUse": (9, 0.004), "mapped": (2, 0.008)}})
    assert likely(grown, 3.0, explained_kib=12.0) == UNKNOWN
    assert likely(grown, 3.0, explained_kib=9.0).pattern == "a-cache-without-bound"


def test_what_no_figure_explains_has_no_pattern() -> None:
    account = Account.of(8.0, 0.0, 0.0, "by V8's heap snapshots")
    explanation = Explanation([], 8.0, 100, 1.0, looks=LOOKS, rest=likely(lines(STEADY), 8.0), account=account)
    assert explanation.sentences() == [
        "Of 8.0 KiB that an invocation keeps: the lines 0.0 (by V8's heap snapshots), not known 8.0."
    ]
    assert "restPattern" not in explanation.document()


def test_a_figure_that_grows_by_little_names_none() -> None:
    assert likely(lines({**STEADY, "rss": {"file": (20, 0.002)}}), 8.0) == UNKNOWN
    assert likely([], 8.0) == UNKNOWN


def test_the_sentence_and_the_document_name_the_pattern() -> None:
    explanation = Explanation([], 8.0, 100, 1.0, looks=LOOKS, rest=likely(lines({**STEADY, "threads": (4, 1)}), 8.0))
    said = "\n".join(explanation.sentences())
    assert "1.00 threads more per invocation (truemem docs patterns#arenas-for-each-thread)" in said
    assert explanation.document()["restPattern"] == "arenas-for-each-thread"


def test_without_memray_the_module_that_maps_is_named(invoke_check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("truemem_workbench.explain.native.variables", lambda _: None)
    handler = f"{FUNCTIONS / 'libraries.py'}:files"
    done = invoke_check(handler, "--explain", "--invocations", 130, "--max-drift", 4)
    assert done.exit_code == 1, done.output
    assert "native block mmap" in done.stdout
