"""The form in which long curves are kept."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from truemem_workbench.analysis.drift import Point
from truemem_workbench.testing.drift.compositions import PAGE_KIB
from truemem_workbench.testing.drift.kept import points_of, text_of


@st.composite
def curves(draw: st.DrawFn) -> list[Point]:
    """Draw points as they are stored: of whole pages, of whole milliseconds from 0, in order."""
    made = []
    at = 0
    pages = st.one_of(st.just(5000), st.integers(1, 200_000))
    for number in range(1, draw(st.integers(0, 60)) + 1):
        current = draw(pages)
        peak = current + draw(st.one_of(st.just(0), st.integers(-500, 50_000)))
        certain = draw(st.booleans())
        made.append(Point(number, float(at), float(current * PAGE_KIB), float(peak * PAGE_KIB), certain))
        at += draw(st.integers(0, 100_000))
    return made


@given(curves())
def test_a_curve_is_read_as_it_was_kept(curve: list[Point]) -> None:
    assert points_of(text_of(curve)) == curve


def test_a_curve_that_stays_level_is_kept_in_few_bytes() -> None:
    assert len(text_of([Point(number, 0.0, 4000.0, 4000.0) for number in range(1, 2001)])) < 100
