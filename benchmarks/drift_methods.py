"""Published methods that tell a trend or a leak from levels of memory, to compare the verdict with.

All of them get the same: at most MOST medians of equally many invocations each. So none has to bear a single outlier
or the jitter of long series, and none takes minutes. Where a method is a test, p < 0.05 and a slope above 0 count as
growing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pymannkendall
import ruptures
import statsmodels.api as sm
from numpy.typing import NDArray
from scipy import stats
from statsmodels.tsa.stattools import adfuller, kpss

Floats = NDArray[np.float64]

MOST = 256
"""Most levels that a method gets."""
P = 0.05
LEAST_PIECE = 16
"""Fewest levels between two change points: below that a line's p-value says little."""
CERTAIN_R2 = 0.8
CRITICAL_SHARE = 0.9
CRITICAL_INVOCATIONS = 16_384
"""Precog: a line counts from this R²; it must reach this share of the memory limit within so many invocations."""
RULE_OF_THUMB = 1.1
YUE_WANG_LAGS = 3
"""With the package's default, all lags, a fifth of white noise has a rising trend."""


class Sample(NamedTuple):
    """What a method gets to see."""

    levels: Floats
    """KiB, evenly spaced."""
    each: int
    """Invocations in a level."""
    limit_kib: float
    """Memory limit. Of the published methods only Precog asks for it."""


def reduced(current: Floats, limit_kib: float) -> Sample:
    """At most MOST medians of equally many invocations. The first few that fill no block are left out."""
    each = -(-len(current) // MOST)
    blocks = current[len(current) % each :].reshape(-1, each)
    return Sample(np.median(blocks, axis=1), each, limit_kib)


def judged(sample: Sample) -> dict[str, bool]:
    """Does it grow? By method."""
    if np.ptp(sample.levels) == 0:  # some divide by the variance
        return dict.fromkeys(METHODS, False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # KPSS: "the p-value is smaller than the table's smallest"
        return {name: bool(method(sample)) for name, method in METHODS.items()}


def _mann_kendall(test: Callable[..., Any], **settings: int) -> Callable[[Sample], bool]:
    def method(sample: Sample) -> bool:
        told = test(sample.levels, alpha=P, **settings)
        return bool(told.p < P and told.slope > 0)

    return method


def _least_squares(sample: Sample) -> bool:
    """Newey and West's errors, with the lags of their rule of thumb."""
    count = len(sample.levels)
    lags = int(4 * (count / 100) ** (2 / 9))
    line = sm.OLS(sample.levels, sm.add_constant(np.arange(count, dtype=float)))
    fitted = line.fit(cov_type="HAC", cov_kwds={"maxlags": lags})
    return bool(fitted.pvalues[1] < P and fitted.params[1] > 0)


def _kpss(sample: Sample) -> bool:
    """It is not stationary around a level, and its line rises."""
    return bool(kpss(sample.levels, "c", nlags="auto")[1] < P) and _line(sample.levels)[0] > 0


def _adf_and_kpss(sample: Sample) -> bool:
    """As well, a unit root cannot be ruled out."""
    return _kpss(sample) and bool(adfuller(sample.levels, regression="c")[1] >= P)


def _theil_sen(sample: Sample) -> bool:
    """The 95 % interval of the median slope is above 0."""
    return bool(stats.theilslopes(sample.levels, alpha=0.95)[2] > 0)


def _pelt(sample: Sample) -> bool:
    """The last of the linear pieces rises. Penalty: BIC, for the two numbers of a line, and its end."""
    levels = sample.levels
    count = len(levels)
    signal = np.column_stack([levels, np.arange(count), np.ones(count)])
    model = ruptures.Pelt(model="linear", min_size=LEAST_PIECE, jump=4).fit(signal)
    ends = model.predict(pen=3 * _variance(levels) * np.log(count))
    slope, _, p = _line(levels[ends[-2] if len(ends) > 1 else 0 :])
    return slope > 0 and p < P


def _precog(sample: Sample) -> bool:
    """From some change point until now a line fits well, and reaches the critical level within the critical time."""
    levels = sample.levels
    model = ruptures.KernelCPD(kernel="linear", min_size=LEAST_PIECE).fit(levels)
    ends = model.predict(pen=2 * _variance(levels) * np.log(len(levels)))
    for begin in [0, *ends[:-1]]:
        slope, r, _ = _line(levels[begin:])
        reached = levels[-1] + slope * CRITICAL_INVOCATIONS / sample.each
        if slope > 0 and r**2 >= CERTAIN_R2 and reached >= CRITICAL_SHARE * sample.limit_kib:
            return True
    return False


def _rule_of_thumb(sample: Sample) -> bool:
    tenth = max(1, len(sample.levels) // 10)
    return bool(sample.levels[-tenth:].mean() > RULE_OF_THUMB * sample.levels[:tenth].mean())


def _line(levels: Floats) -> tuple[float, float, float]:
    """Slope, correlation and p-value of a straight line."""
    if np.ptp(levels) == 0:
        return 0.0, 0.0, 1.0
    fitted = stats.linregress(np.arange(len(levels), dtype=float), levels)
    return float(fitted.slope), float(fitted.rvalue), float(fitted.pvalue)


def _variance(levels: Floats) -> float:
    """Of the noise, KiB², from the differences of neighbours: a trend and single jumps cancel out."""
    deviation = float(np.median(np.abs(np.diff(levels)))) * 1.4826
    return max(deviation**2 / 2, 1.0)


METHODS: dict[str, Callable[[Sample], bool]] = {
    "Mann-Kendall": _mann_kendall(pymannkendall.original_test),
    "Mann-Kendall, Hamed and Rao": _mann_kendall(pymannkendall.hamed_rao_modification_test),
    "Mann-Kendall, Yue and Wang": _mann_kendall(pymannkendall.yue_wang_modification_test, lag=YUE_WANG_LAGS),
    "Mann-Kendall, trend-free pre-whitening": _mann_kendall(pymannkendall.trend_free_pre_whitening_modification_test),
    "least squares, HAC errors": _least_squares,
    "KPSS": _kpss,
    "ADF and KPSS": _adf_and_kpss,
    "Theil-Sen": _theil_sen,
    "PELT, last piece": _pelt,
    "Precog": _precog,
    "a tenth more at the end": _rule_of_thumb,
}

ABOUT = f"""\
All get the same levels: series longer than {MOST} invocations are reduced to at most {MOST} medians of equally many
invocations. p < {P} and a slope above 0 count as growing. Settings are the packages' defaults, or those below; none was
tuned with these curves. None is made to be asked again and again over a life, so that table is without them.

- *Mann-Kendall* and its variants against autocorrelation: `pymannkendall`; Yue and Wang's with {YUE_WANG_LAGS} lags,
  because with the default, all of them, a fifth of white noise rises.
- *least squares, HAC errors*: `statsmodels`, Newey and West's lags.
- *KPSS*: `statsmodels`; stationarity around a level is rejected, and the fitted line rises. *ADF and KPSS*: as well,
  ADF does not reject a unit root.
- *Theil-Sen*: `scipy`; the 95 % interval of the slope is above 0.
- *PELT, last piece*: `ruptures`; piecewise linear, penalty by BIC, pieces of at least {LEAST_PIECE} levels; the last
  one rises.
- *Precog*: our reading of Jindal, Staab, Cardoso, Gerndt and Podolskiy (2021), "Online memory leak detection in the
  cloud-based infrastructures". From a change point to the end a line has R² of {CERTAIN_R2} or more, and reaches
  {CRITICAL_SHARE * 100:.0f} % of the memory limit within {CRITICAL_INVOCATIONS:,} invocations; the change points are of
  `ruptures`. Of the published methods it alone is told the limit. A leak that is too slow to reach it within that time
  is none to Precog. What it learns from earlier lives is left out: there are none.
- *a tenth more at the end*: the mean of the last tenth is more than {RULE_OF_THUMB:.1f} times that of the first.
"""
"""For the page."""
