"""The flame graph, in a real browser; and what its widths add up to."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem_workbench.explain.attribution import Holder
from truemem_workbench.explain.explanation import Explanation, place
from truemem_workbench.explain.growth_page import page, stack_of, tree

from testing.browser import Browser
from tests.explain.test_explanation import HERE, an_explanation

FRAMES = st.tuples(st.sampled_from(["/task/app.py", "/task/store.py"]), st.integers(1, 3))
HOLDERS = st.builds(
    lambda stack, kib: Holder(stack[-1][0], stack[-1][1], kib, "list", stack=tuple(stack)),
    st.lists(FRAMES, min_size=1, max_size=5),
    st.floats(0.1, 100),
)


@given(st.lists(HOLDERS, min_size=1, max_size=6))
def test_a_frame_is_as_wide_as_all_that_grew_below_it(holders: list[Holder]) -> None:
    sums = tree((stack_of(each), each.kib) for each in holders)
    assert sums[()] == pytest.approx(sum(each.kib for each in holders))
    for stack, kib in sums.items():
        below = sum(each for other, each in sums.items() if other[:-1] == stack and other)
        assert below <= kib * (1 + 1e-9)


def test_c_functions_are_frames_below_the_line_that_calls_them() -> None:
    line = ("/task/app.py", 3)
    holder = Holder(*line, 8.0, "native block", stack=(line,), native=("inflate", "malloc"))
    assert stack_of(holder) == (line, ("inflate", 0), ("malloc", 0))
    assert place(("inflate", 0)) == "inflate"


def test_the_browser_draws_it_and_asks_nowhere(started: Browser, tmp_path: Path) -> None:
    started.complaints.clear()
    started.requests.clear()
    path = tmp_path / "growth.html"
    made = page(an_explanation(measured_kib=20), "app.py:handler <b>FAILED</b>")
    path.write_text(made.replace("<html ", "<html data-ready ", 1), encoding="utf-8")
    started.open(path)
    started.until("document.querySelector('.graph div')")
    shown = started.text("body")
    assert "app.py:handler <b>FAILED</b>" in shown
    assert "self.data[key] = value" in shown
    assert "the lines 8.0 (by Python's tracemalloc), not known 12.0." in shown
    drawn = started.js("[...document.querySelectorAll('.graph div')].map((each) => each.textContent).join()")
    assert f"{Path(HERE).name}:19" in drawn
    assert "8.0 KiB per invocation" in drawn
    assert (started.complaints, started.requests) == ([], [])


def test_a_frame_lies_below_the_one_that_calls_it(started: Browser, tmp_path: Path) -> None:
    begin, path = ("/task/app.py", 1), tmp_path / "growth.html"
    holders = [
        Holder("/task/app.py", line, kib, "list", stack=(begin, ("/task/app.py", line)))
        for line, kib in ((2, 4.0), (3, 6.0))
    ] + [Holder("/task/other.py", 4, 10.0, "list", stack=(("/task/other.py", 4),))]
    made = page(Explanation(holders, 20.0, 320, 4.0), "app.py:handler")
    path.write_text(made.replace("<html ", "<html data-ready ", 1), encoding="utf-8")
    started.open(path)
    boxes = started.js(
        "[...document.querySelectorAll('.graph div')].map(each => [each.offsetLeft, each.offsetWidth]"
        ".map(size => Math.round(100 * size / each.parentElement.offsetWidth)))"
    )
    assert sorted(map(tuple, boxes)) == [(0, 30), (0, 50), (0, 100), (30, 20), (50, 50)]
