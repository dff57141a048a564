"""The function's own profile and `explain` mean the same by steady growth."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem_workbench.explain import attribution

from layer.python.truemem_lines.rising import rising

LEVELS = st.integers(-2, 6)


@given(st.lists(LEVELS, min_size=1, max_size=12), st.booleans(), st.integers(1, 10))
def test_steady_growth_is_the_same_for_both(numbers: list[int], rises: bool, step: int) -> None:
    """`numbers` are levels, or what is added at each look."""
    values = [sum(numbers[: place + 1]) for place in range(len(numbers))] if rises else numbers
    at = [step * (place + 1) for place in range(len(values))]
    assert rising(at, values) == pytest.approx(attribution.rising(at, values))
