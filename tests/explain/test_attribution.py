"""What grows steadily, and what has only grown. And the words for it."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from pytest import approx
from truemem_workbench.check import github, junit
from truemem_workbench.check.limits import Limits, find
from truemem_workbench.check.result import Result
from truemem_workbench.explain.attribution import Holder, attribute, rising
from truemem_workbench.explain.explanation import Explanation
from truemem_workbench.explain.growth_page import page
from truemem_workbench.explain.run import looked_at

from tests.check.conftest import LEAK, STEADY, Check, Refused, run_of

AT = list(range(10, 110, 10))
HERE = str(Path(__file__).parent / "functions" / "order_book.py")


def test_a_straight_line_rises() -> None:
    assert rising(AT, [8192 * at for at in AT]) == 8192


def test_a_cache_that_has_filled_does_not() -> None:
    assert rising(AT, [8192 * min(at, 50) for at in AT]) == 0


def test_a_single_step_does_not() -> None:
    assert rising(AT, [0] * 5 + [10**6] * 5) == 0


def test_what_is_emptied_at_equal_distances_does_not_rise() -> None:
    accused = [
        (invocations, period)
        for invocations in range(130, 600, 7)
        for at in [looked_at(invocations)]
        for period in range(2, min(at[3], 60))
        if rising(at, [8192 * (each % period) for each in at]) > 0
    ]
    assert len(accused) <= 3, accused  # of 3,700


def test_what_is_emptied_beside_a_leak_hides_it_not() -> None:
    at = looked_at(210)
    assert rising(at, [8192 * each + 20_000 * (each % 7) for each in at]) == approx(8192, rel=0.3)


@given(st.integers(1, 5000))
def test_looks_follow_each_other(invocations: int) -> None:
    at = looked_at(invocations)
    assert at == sorted(at)
    assert len(set(at)) == len(at) or invocations < 3 * len(at)


def test_three_looks_are_too_few() -> None:
    assert rising(AT[:3], [1, 2, 3]) == 0


@given(st.lists(st.integers(0, 10**9), max_size=10))
def test_nothing_rises_that_falls(values: list[int]) -> None:
    assert rising(AT, sorted(values, reverse=True) + [0] * (10 - len(values))) == 0


def test_growth_below_a_fifth_of_a_kib_is_not_told() -> None:
    stack = {"frames": [["/task/app.py", 3]], "bytes": [50 * at for at in AT], "blocks": AT}
    found = {"invocations": AT, "stacks": [stack], "containers": [], "types": []}
    assert attribute(found, Path("/task"), 0.1) == []


def an_explanation(measured_kib: float = 8.0) -> Explanation:
    holder = Holder(HERE, 19, 8.0, "dict of dict", "app.store.data", 1.0, ((HERE, 19),))
    return Explanation([holder], measured_kib, 320, 4.0, ["An invocation did not end: 3 of 9 were traced."])


def a_result(explanation: Explanation) -> Result:
    measurement = run_of(LEAK, warm_up=40)
    return Result(measurement, find(measurement, Limits()), Path("app.py"), 1, explanation)


def test_every_output_has_the_line() -> None:
    result = a_result(an_explanation())
    place = "tests/explain/functions/order_book.py"
    assert f"{place}:19" in result.text()
    assert "self.data[key] = value" in result.text()
    assert f"{place}:19" in (junit.document(result).find(".//failure").text or "")  # type: ignore[union-attr]
    assert github.errors(result)[0].startswith(f"::error file={place},line=19,title=truemem")
    (line,) = result.document()["explanation"]["lines"]  # type: ignore[index]
    assert (line["line"], line["perInvocationKiB"], line["share"]) == (19, 8.0, 1.0)


def test_what_no_line_explains_is_said() -> None:
    said = "\n".join(an_explanation(measured_kib=20).lines())
    assert "12.0 KiB per invocation, 60% of the growth, are in no object that was seen" in said
    assert "3 of 9 were traced" in said


def test_the_command_explains_what_grows(invoke_check: Check) -> None:
    leak = f"{Path(__file__).with_name('functions') / 'planted.py'}:module_list"
    done = invoke_check(leak, "--explain", "--invocations", 130)
    assert done.exit_code == 1, done.output
    assert "under a tracer, for " in done.stderr
    assert "ORDERS.append(order)" in done.stdout


def test_the_command_explains_nothing_where_nothing_grows(invoke_check: Check) -> None:
    done = invoke_check(STEADY, "--explain", "--invocations", 130)
    assert done.exit_code == 0, done.output
    assert "tracer" not in done.output


def test_a_deployed_function_cannot_be_explained(refused: Refused) -> None:
    assert "no tracer can be attached" in refused("--function", "my-function", "--explain")


def test_a_bootstrap_cannot_be_explained(refused: Refused) -> None:
    bootstrap = Path(__file__).parents[1] / "local" / "functions" / "bootstrap"
    assert "no handler in Python or Node.js" in refused(bootstrap, "--explain")


# Without a line


def test_every_output_has_what_keeps_it_without_a_line() -> None:
    holders = [Holder("", 0, 6.0, "Array of Object", "kept"), Holder("", 0, 2.0, "Map of Object", "sent")]
    explanation = Explanation(holders, 8.0, 320, 4.0)
    result = a_result(explanation)
    for text in (result.text(), junit.document(result).find(".//failure").text or "", github.summary(result)):  # type: ignore[union-attr]
        for row in ("6.0                 75%    line not seen  Array of Object kept", "Map of Object sent"):
            assert row in text
    assert "in no object that was seen" not in result.text()
    assert not any("what grows" in each for each in github.errors(result))
    first, _ = result.document()["explanation"]["lines"]  # type: ignore[index]
    assert (first["kind"], first["owner"], first["perInvocationKiB"]) == ("Array of Object", "kept", 6.0)
    assert first.keys().isdisjoint(("file", "line", "source"))
    html = page(explanation, "FAILED")
    assert "<td>line not seen" in html
    assert '"labels":["all that grew","Array of Object kept","Map of Object sent"]' in html
