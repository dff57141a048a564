"""The benchmark of the verdict: published methods on curves that leave no doubt, and its promises."""

import numpy as np
import pytest

from benchmarks.drift import SIDECAR, WORKBENCH, Promise
from benchmarks.drift_methods import METHODS, MOST, judged, reduced
from benchmarks.drift_oracle import Trees, found

COUNT = 2 * MOST
LIMIT_KIB = 400_000
NOISE = np.random.default_rng(1).normal(0, 30, COUNT)
LEVEL_KIB = 100_000


@pytest.mark.parametrize("method", METHODS)
def test_every_method_tells_a_steep_leak_from_noise(method: str) -> None:
    for kib in (200, 0):
        assert bool(judged(reduced(LEVEL_KIB + kib * np.arange(COUNT) + NOISE, LIMIT_KIB))[method]) is (kib > 0)


@pytest.mark.parametrize(
    ("sidecar", "workbench", "kept"), [(0.9, 0.97, True), (0.9, 0.98, False), (0.89, 0.95, False), (0.95, None, False)]
)
def test_a_promise_is_kept_by_every_form_or_not_at_all(
    sidecar: float | None, workbench: float | None, kept: bool
) -> None:
    promise = Promise("intervals", 0.90, 0.97, {SIDECAR: sidecar, WORKBENCH: workbench})
    assert promise.aim() == "90% to 97%"
    assert promise.kept() is kept


def test_the_oracle_learns_what_can_be_told_and_no_more() -> None:
    random = np.random.default_rng(1)
    classes = random.integers(3, size=2000)
    rows = random.normal(size=(2000, 4))
    rows[:, 2] += np.where(classes == 0, 3, 0)
    names = np.array(["alone", "bounded", "filling"])[classes].tolist()
    names[:100] = ["beside" if name == "alone" else name for name in names[:100]]
    half = 1000
    likely = Trees(rows[:half], classes[:half]).likely(rows)
    assert np.allclose(likely.sum(axis=1), 1)
    shares = found(likely[:half], names[:half], 0.05, 0.05)
    assert shares["alone"] > 0.7
    assert max(shares["bounded"], shares["filling"]) <= 0.06
    blind = Trees(rows[:half, :2], classes[:half]).likely(rows[half:, :2])
    assert float(np.mean(blind.argmax(axis=1) == classes[half:])) < 0.45
