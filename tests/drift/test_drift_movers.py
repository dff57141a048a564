"""What moves with something else on the lines is taken away before the rest is judged, and a leak never is."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import Generator
from numpy.typing import NDArray
from truemem_workbench.analysis.drift import Point, Value, Verdict, judge, without_mover

COUNT = 1024
AT = np.arange(COUNT)
MIB = 1024.0
FAR = 10_240
LEAK = 8.0 * AT
SEEDS = range(20)


def verdict(held: NDArray[np.float64], **beside: Sequence[Value]) -> Verdict:
    points = [Point(number, number * 1000.0, level, level) for number, level in enumerate(held.tolist(), 1)]
    columns = {name: dict(enumerate(values, 1)) for name, values in beside.items()}
    return judge(points, FAR, beside=columns)


def base(random: Generator) -> NDArray[np.float64]:
    return 150 * MIB + random.uniform(0, 500, COUNT)


def swaps(random: Generator) -> tuple[list[Value], NDArray[np.float64]]:
    """Which of five models is loaded, some dozen invocations each, and what it holds in KiB."""
    models = np.repeat(random.integers(5, size=COUNT), random.geometric(1 / 15, COUNT))[:COUNT]
    return [f"model {one}" for one in models], random.uniform(5, 60, 5)[models] * MIB


def test_leak_beside_model_swaps_is_found_by_the_model() -> None:
    without = with_names = 0
    for seed in SEEDS:
        random = np.random.default_rng(seed)
        models, loaded = swaps(random)
        held = base(random) + loaded + LEAK
        without += verdict(held).name == "growing"
        found = verdict(held, model=models)
        with_names += found.name == "growing" and found.explained in (None, "model")
    assert without <= 3
    assert with_names >= 12


def test_swaps_alone_are_not_accused() -> None:
    for seed in SEEDS:
        random = np.random.default_rng(seed)
        models, loaded = swaps(random)
        assert verdict(base(random) + loaded, model=models).name != "growing"


def test_large_model_asked_for_more_often_is_no_leak() -> None:
    for seed in SEEDS:
        random = np.random.default_rng(seed)
        large = random.random(COUNT) < (AT / COUNT).clip(0.2, 0.8)
        found = verdict(base(random) + 40 * MIB * large, model=["large" if one else "small" for one in large])
        assert found.name != "growing"


def test_growth_of_what_grows_as_well_is_not_explained() -> None:
    random = np.random.default_rng(1)
    threads = 10 + AT // 40  # they leak, with 320 KiB of stack each
    found = verdict(base(random) + 320.0 * threads, threads=threads.tolist())
    assert found.name == "growing"
    assert found.explained is None


def test_of_several_that_which_explains_most_counts() -> None:
    random = np.random.default_rng(3)
    models, loaded = swaps(random)
    chance: list[Value] = random.integers(4, size=COUNT).tolist()
    explained = without_mover((base(random) + loaded).tolist(), {"chance": chance, "model": models})
    assert explained is not None
    assert explained[0] == "model"


@pytest.mark.parametrize("values", [[None], ["one"], [1.0], [float("nan")], ["", None]])
def test_what_says_nothing_explains_nothing(values: list[Value]) -> None:
    held = (200 * MIB + 20 * MIB * (AT % 7)).tolist()
    assert without_mover(held, {"nothing": values * (COUNT // len(values))}) is None


@given(st.lists(st.one_of(st.none(), st.text(max_size=3), st.floats(), st.integers()), min_size=32, max_size=64))
def test_any_values_can_stand_beside_the_levels(values: list[Value]) -> None:
    held = [100 * MIB + 10 * MIB * (number % 3) for number in range(len(values))]
    explained = without_mover(held, {"any": values})
    assert explained is None or np.isfinite(explained[1]).all()
