"""The benchmark of the verdict: published methods on curves that leave no doubt, and its promises."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.drift_methods import METHODS, MOST, judged, reduced
from benchmarks.drift_promises import Promise
from benchmarks.drift_series import SIDECAR, WORKBENCH

COUNT = 2 * MOST
LIMIT_KIB = 400_000
NOISE = np.random.default_rng(1).normal(0, 30, COUNT)
LEVEL_KIB = 100_000


@pytest.mark.parametrize("method", METHODS)
def test_a_steep_even_leak_is_told_by_every_method(method: str) -> None:
    assert judged(reduced(LEVEL_KIB + 200 * np.arange(COUNT) + NOISE, LIMIT_KIB))[method]


@pytest.mark.parametrize("method", METHODS)
def test_noise_around_a_level_is_told_by_no_method(method: str) -> None:
    assert not judged(reduced(LEVEL_KIB + NOISE, LIMIT_KIB))[method]


def test_a_level_without_any_noise_does_not_grow() -> None:
    assert not any(judged(reduced(np.full(COUNT, 100.0), LIMIT_KIB)).values())


def test_precog_alone_asks_for_the_limit() -> None:
    levels = LEVEL_KIB + 2 * np.arange(COUNT, dtype=np.float64)
    near, far = (judged(reduced(levels, limit)) for limit in (LEVEL_KIB + 2000, 100 * LEVEL_KIB))
    assert {method for method in METHODS if near[method] != far[method]} == {"Precog"}


def test_long_series_become_medians_of_equally_many_invocations() -> None:
    sample = reduced(np.arange(2 * MOST + 2, dtype=float), LIMIT_KIB)
    assert sample.each == 3
    assert sample.levels[:2].tolist() == [2, 5]
    assert len(sample.levels) <= MOST


@pytest.mark.parametrize(
    ("sidecar", "workbench", "kept"),
    [([0.9], [0.97], True), ([0.9], [0.98], False), ([0.9, 0.89], [0.95], False), ([0.95], [None], False)],
)
def test_a_promise_is_kept_by_both_forms_or_not_at_all(
    sidecar: list[float | None], workbench: list[float | None], kept: bool
) -> None:
    promise = Promise("intervals", 0.90, 0.97, {SIDECAR: sidecar, WORKBENCH: workbench})
    assert promise.aim() == "90 % to 97 %"
    assert promise.kept() is kept
