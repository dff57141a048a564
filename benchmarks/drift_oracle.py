"""An oracle for the composed curves: how many leaks could be found at the promised false alarms?

It knows what the verdict cannot: the very mix that the curves are drawn from. Trees, boosted by gradients, learn from
the labels of curves of other seeds, with many figures of each curve, and for each group how likely it is. The best test
of two mixes is their likelihood ratio (Neyman and Pearson), which these probabilities estimate.

What it finds is a lower bound of the best possible, by how much is not known: more curves, or figures that it does not
have, may find more. The exact ratio has no closed form: the parts are not Gaussian, and their number, kinds and
parameters are unknown.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from truemem.verdict import all_slopes, levels_of, middle, tail, trend
from truemem_workbench.analysis.thresholds import LAST_LEVELS

from testing.drift.compositions import ALONE, BESIDE, BOUNDED, FILLING, Floats

Indices = NDArray[np.intp]

BINS = 32
DEPTH, ROUNDS, RATE = 5, 250, 0.06
LEAST_ROWS = 30
"""In a leaf, at least."""
RIDGE = 1.0
CLASSES = {ALONE: 0, BESIDE: 0, BOUNDED: 1, FILLING: 2}
WEIGHTS = np.logspace(-2, 2.5, 40)
"""How much a filling curve may count against a bounded one: that which finds most is taken."""


def features(current: Floats) -> list[float]:
    """Figures of a curve, KiB after each invocation: its course, in levels and floors, and what is never given back."""
    count = len(current)
    found: list[float] = []
    for levels in levels_of(current.tolist(), LAST_LEVELS):
        array, first = np.array(levels), max(2, len(levels) // 6)
        judged, each = levels[first:], count / len(levels)
        seen, size = trend(judged, len(judged) * each), len(judged)
        half, third = size // 2, size // 3
        slopes = [middle(all_slopes(part)) for part in (judged[:half], judged[-half:], judged[:third], judged[-third:])]
        scale = abs(seen.slope) + 0.5
        off = array[first:] - seen.slope * np.arange(size)
        span = max(float(np.ptp(array[1:])), 16.0)
        rises = np.diff([np.median(part) for part in np.array_split(array[1:], 9)])
        top = np.maximum.accumulate(array)
        found += [seen.slope / each, seen.low / each, seen.high / each, seen.low / scale]
        found += [slope / scale for slope in slopes] + [slope / each for slope in slopes]
        found += [tail(levels[1:]), tail(judged), np.log(span)]
        found += [float(np.ptp(off)) / scale / size, float(off.std()) / scale / size, float((rises > 0).mean())]
        found += (np.sort(rises) / span).tolist() + ((array[::2] - array[1]) / span).tolist()
        found += [float((top - array).max()) / span, float(np.mean(np.diff(top[len(top) // 2 :]) > 0))]
    steps = np.diff(current[count // 6 :])
    kept = np.minimum.accumulate(current[::-1])[::-1]
    grown = np.diff(kept[count // 6 :])
    found += [np.log1p(steps.std()), np.log1p(np.median(np.abs(steps))), (steps > 0).mean(), (steps == 0).mean()]
    found += [np.log1p(grown.max()), (grown > 0).mean(), (grown**2).sum() / (grown.sum() ** 2 + 1)]
    found += [(kept[-count // 8] - kept[count // 2]) / count, (kept[count // 2] - kept[count // 6]) / count]
    return [float(one) for one in found]


class Trees:
    """Boosted trees for three classes (Friedman 2001), on features in bins."""

    def __init__(self, rows: Floats, classes: Indices) -> None:
        self._edges = [np.unique(np.quantile(column, np.linspace(0, 1, BINS + 1)[1:-1])) for column in rows.T]
        binned = self._binned(rows)
        self._start = np.log(np.bincount(classes, minlength=3) / len(classes))
        self._trees: list[list[tuple[Indices, Indices, Floats]]] = []
        scores = np.tile(self._start, (len(rows), 1))
        random = np.random.default_rng(0)
        for _ in range(ROUNDS):
            likely = softmax(scores, axis=1)
            grown = []
            for number in range(3):
                pull = (classes == number) - likely[:, number]
                sample = random.random(len(rows)) < 0.6
                tree = _grow(binned[sample], pull[sample], (likely * (1 - likely))[sample, number])
                scores[:, number] += RATE * _leaves(tree, binned)
                grown.append(tree)
            self._trees.append(grown)

    def likely(self, rows: Floats) -> Floats:
        """Probability of each class, one row each."""
        binned = self._binned(rows)
        scores = np.tile(self._start, (len(rows), 1))
        for grown in self._trees:
            for number, tree in enumerate(grown):
                scores[:, number] += RATE * _leaves(tree, binned)
        return np.asarray(softmax(scores, axis=1))

    def _binned(self, rows: Floats) -> Indices:
        return np.column_stack(
            [np.searchsorted(edges, column) for edges, column in zip(self._edges, rows.T, strict=True)]
        )


def _grow(binned: Indices, pull: Floats, curve: Floats) -> tuple[Indices, Indices, Floats]:
    """A tree as a heap: for each node its feature, and the last bin that goes left (BINS: all do); values of leaves."""
    width = binned.shape[1]
    nodes = 2**DEPTH
    feature, limit = np.zeros(nodes, np.intp), np.full(nodes, BINS, np.intp)
    at = np.ones(len(binned), np.intp)
    columns = np.arange(width) * BINS
    for level in range(DEPTH):
        first = 2**level
        keys = ((at - first)[:, None] * width * BINS + columns + binned).ravel()
        size = first * width * BINS
        sums = [
            np.bincount(keys, np.repeat(values, width), size).reshape(first, width, BINS).cumsum(axis=2)
            for values in (pull, curve, np.ones(len(binned)))
        ]
        pulled, curved, number = sums
        right = [one[:, :, -1:] - one for one in sums]
        gain = pulled**2 / (curved + RIDGE) + right[0] ** 2 / (right[1] + RIDGE)
        gain -= pulled[:, :, -1:] ** 2 / (curved[:, :, -1:] + RIDGE)
        gain[(number < LEAST_ROWS) | (right[2] < LEAST_ROWS)] = 0
        best = gain.reshape(first, -1).argmax(axis=1)
        splits = gain.reshape(first, -1).max(axis=1) > 0
        feature[first : 2 * first] = best // BINS
        limit[first : 2 * first] = np.where(splits, best % BINS, BINS)
        at = 2 * at + (binned[np.arange(len(at)), feature[at]] > limit[at])
    pulled, curved = (np.bincount(at - nodes, values, nodes) for values in (pull, curve))
    return feature, limit, pulled / (curved + RIDGE)


def _leaves(tree: tuple[Indices, Indices, Floats], binned: Indices) -> Floats:
    feature, limit, values = tree
    at, rows = np.ones(len(binned), np.intp), np.arange(len(binned))
    for _ in range(DEPTH):
        at = 2 * at + (binned[rows, feature[at]] > limit[at])
    return values[at - len(values)]


def found(likely: Floats, groups: Sequence[str], bounded: float, filling: float) -> dict[str, float]:
    """By group, the share that is called a leak if at most these shares of the bounded and of the filling are. The
    limits are set on the very curves that are asked: that favours the oracle a little."""
    named = np.array(groups)
    best: dict[str, float] = {}
    for weight in WEIGHTS:
        ratio = likely[:, 0] / (likely[:, 1] + weight * likely[:, 2] + 1e-12)
        limit = max(
            np.quantile(ratio[named == BOUNDED], 1 - bounded), np.quantile(ratio[named == FILLING], 1 - filling)
        )
        shares = {group: float((ratio[named == group] > limit).mean()) for group in CLASSES}
        if not best or shares[ALONE] + shares[BESIDE] > best[ALONE] + best[BESIDE]:
            best = shares
    return best
