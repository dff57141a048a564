"""What a report says of functions: percentiles over all their invocations. Counts of values are added up, not values:
their number is bounded by Lambda's largest size in hundredths of a MiB."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..judge.growth_lines import Growth, merged
from ..judge.size_prediction import Invocations
from ..printed.growth import profile_in
from ..printed.parts import Rows
from ..printed.running import MARK, RunningLine, running_in
from ..support.untrusted_text import parsed
from .judging import PROFILED, Sorted
from .summary import Durations, Part, Payload, Peaks, RanOut

Floats = NDArray[np.float64]
Key = tuple[str, str]
"""A function and its version."""

LARGE_MIB = 0.25
"""Least size of event and answer together. With less, other memory counts for more."""
PAYLOAD_MANY = 20
"""Least number of such invocations."""
PAYLOAD_ALIKE = 1.5
"""The middle half must not differ by more than this factor. Otherwise the payload does not explain the peak."""
PAYLOAD_TIMES = (0.5, 50.0)
"""Values outside of this range are not caused by the payload."""

Kind = Literal["peak", "times", "ms", "part peak", "part more", "computed"]
_HUNDREDTHS = 1 << 40
"""Values in hundredths are below."""


class Counts:
    """Counts of the invocations of many environments."""

    def __init__(self) -> None:
        self._values: dict[tuple[Kind, Any], list[tuple[Floats, Floats]]] = {}
        """Different values, or rows of them, and how often each was there, or what belongs to each."""
        self._totals: dict[tuple[Literal["function", "part"], Any], Floats] = {}
        """Invocations, and those that ran out of memory; of a part also those with a known rest, and its sum."""
        self._profiles: dict[Key, list[bytes]] = {}
        self._ran: dict[Key, dict[RunningLine, list[float]]] = {}
        """Levels in MiB at which each line was seen before memory ran out; NaN where that is not said."""

    def count(self, found: Sorted, by: str | None) -> None:
        """Count these invocations."""
        if not len(found.rows):
            return
        of_environments = [(name.function, name.version) for name in found.names]
        functions = list(dict.fromkeys(of_environments))
        number = {key: at for at, key in enumerate(functions)}
        of = np.repeat([number[key] for key in of_environments], np.diff(found.starts))
        self._count(functions, of, found.rows)
        texts = found.part.texts
        for at in np.flatnonzero(found.rows["text"] >= 0).tolist() if texts else ():
            text = texts[found.rows["text"][at]]
            if PROFILED in text:
                self._profiles.setdefault(functions[of[at]], []).append(text)
            if MARK in text and (ran := running_in(parsed(text) or {})) is not None:
                line, level = ran
                self._ran.setdefault(functions[of[at]], {}).setdefault(line, []).append(
                    np.nan if level is None else level
                )
        if by is not None:
            self._count_parts(found.rows, found.part.words)

    def _count(self, keys: Sequence[Key], of: NDArray[np.intp], rows: Rows) -> None:
        """Count by function: `of` has its place in `keys`."""
        peak, duration, payload = (rows[name].astype(float) for name in ("peak_rss", "duration_ms", "payload"))
        counted, killed = np.bincount(of), np.bincount(of, rows["out_of_memory"])
        for at, key in enumerate(keys):
            self._total(("function", key), counted[at], killed[at])
        self._tally("peak", keys, of, peak)
        is_large = np.flatnonzero(rows["exact"] & ~rows["raced"] & (payload >= LARGE_MIB))
        times = (peak[is_large] - rows["opening_rss"][is_large]) / payload[is_large]
        self._tally("times", keys, of[is_large], times)
        # three digits are enough, and keep their number small
        digits = 10.0 ** (2 - np.floor(np.log10(np.fmax(duration, 1.0))))
        self._tally("ms", keys, of, np.rint(duration * digits) / digits)
        self._compute(keys, of, rows, duration)

    def _compute(self, keys: Sequence[Key], of: NDArray[np.intp], rows: Rows, duration: Floats) -> None:
        """Bins of about 5 %, with their sums: in hundredths of a ms, so that their order does not matter. The CPU time
        of an environment's last invocation is not known where the runtime has ended first; it is like those before."""
        at = np.flatnonzero((duration > 0) & (rows["memory_limit"] > 0) & np.isnan(rows["shared_by"]))
        ms, cpu, size = (rows[name][at].astype(float) for name in ("duration_ms", "cpu_ms", "memory_limit"))
        is_any = np.isnan(cpu) & (rows["invocation"][at] > 1) & rows["is_last"][at] & rows["succeeded"][at]
        cpu_bin = np.where(np.isnan(cpu), -511, np.rint(20 * np.log(np.fmax(cpu, 0.01))))
        code = of[at] << 20 | np.minimum(np.rint(size).astype(np.int64), (1 << 20) - 1)
        for values, bits in ((cpu >= 0, 1), (is_any, 1), (np.rint(20 * np.log(ms)) + 512, 10), (cpu_bin + 512, 10)):
            code = code << bits | np.clip(values, 0, (1 << bits) - 1).astype(np.int64)
        different, place = np.unique(code, return_inverse=True)
        sums = (
            np.bincount(place, each)
            for each in (np.ones(len(at)), np.rint(100 * ms), np.rint(100 * np.nan_to_num(cpu)))
        )
        bins = np.column_stack(
            [different >> 22 & (1 << 20) - 1, different >> 21 & 1, different >> 20 & 1, different & (1 << 20) - 1]
        )
        self._put("computed", keys, different >> 42, bins.astype(float), np.column_stack(list(sums)))

    def _count_parts(self, rows: Rows, words: Mapping[int, str]) -> None:
        different, of = np.unique(rows["by_value"], return_inverse=True)
        keys = [words.get(value) for value in different.tolist()]
        left = rows["current_rss"].astype(float) - rows["opening_rss"]
        sums = (rows["out_of_memory"], ~np.isnan(left), np.nan_to_num(left))
        totals = [np.bincount(of), *(np.bincount(of, each) for each in sums)]
        for key, *total in zip(keys, *totals, strict=True):
            self._total(("part", key), *total)
        self._tally("part peak", keys, of, rows["peak_rss"].astype(float))
        self._tally("part more", keys, of, (rows["peak_rss"].astype(float) - rows["opening_rss"]).round(1))

    def _tally(self, kind: Kind, keys: Sequence[Hashable], of: NDArray[np.intp], values: Floats) -> None:
        """Count values, to hundredths."""
        hundredths = np.rint(np.clip(100 * values, -_HUNDREDTHS, _HUNDREDTHS - 1))
        known = ~np.isnan(values)
        codes = of[known] * (2 * _HUNDREDTHS) + hundredths[known].astype(np.int64) + _HUNDREDTHS
        different, counts = np.unique(codes, return_counts=True)
        of_those, rest = np.divmod(different, 2 * _HUNDREDTHS)
        self._put(kind, keys, of_those, (rest - _HUNDREDTHS) / 100, counts.astype(float))

    def _put(self, kind: Kind, keys: Sequence[Hashable], of: NDArray[np.int64], values: Floats, counts: Floats) -> None:
        """`of` is in order."""
        for key, (first, last) in zip(
            keys, pairwise(np.searchsorted(of, np.arange(len(keys) + 1)).tolist()), strict=True
        ):
            if first < last:
                self._values.setdefault((kind, key), []).append((values[first:last], counts[first:last]))

    def _total(self, place: tuple[Any, Any], *counts: float) -> None:
        self._totals[place] = self._totals.get(place, np.zeros(len(counts))) + np.array(counts, float)

    def add(self, other: Counts) -> None:
        for place, counts in other._values.items():
            self._values.setdefault(place, []).extend(counts)
        for of, total in other._totals.items():
            self._total(of, *total)
        for key, texts in other._profiles.items():
            self._profiles.setdefault(key, []).extend(texts)
        for key, lines in other._ran.items():
            for line, levels in lines.items():
                self._ran.setdefault(key, {}).setdefault(line, []).extend(levels)

    def _quantiles(self, kind: Kind, key: Hashable, *shares: float) -> list[float | None]:
        """Nearest ranks; None without a value."""
        tallies = self._values.get((kind, key), [])
        if not tallies:
            return [None] * len(shares)
        values, counts = (np.concatenate(each) for each in zip(*tallies, strict=True))
        order = np.argsort(values)
        upto = np.cumsum(counts[order])
        places = [min(int(np.searchsorted(upto, share * upto[-1])), len(order) - 1) for share in shares]
        found: list[float | None] = values[order][places].tolist()
        return found

    def _peaks(self, of: tuple[Any, Any], kind: Kind) -> Peaks:
        invocations, out_of_memory = self._totals[of][:2].astype(int).tolist()
        p50, p99, highest = (
            None if each is None else round(each, 2) for each in self._quantiles(kind, of[1], 0.5, 0.99, 1.0)
        )
        return Peaks(invocations=invocations, p50=p50, p99=p99, highest=highest, out_of_memory=out_of_memory)

    def peaks(self) -> dict[Key, Peaks]:
        """Of each function."""
        return {key: self._peaks((kind, key), "peak") for kind, key in self._totals if kind == "function"}

    def durations(self, key: Key) -> Durations:
        p50, p99 = self._quantiles("ms", key, 0.5, 0.99)
        return Durations(p50=p50, p99=p99)

    def payload(self, key: Key) -> Payload | None:
        """The ratio of peak growth to payload, if the payload explains the peak."""
        low, middle, high = self._quantiles("times", key, 0.25, 0.5, 0.75)
        count = int(sum(counts.sum() for _, counts in self._values.get(("times", key), [])))
        if count < PAYLOAD_MANY or low is None or middle is None or high is None:
            return None
        if not PAYLOAD_TIMES[0] <= low <= high <= min(PAYLOAD_TIMES[1], PAYLOAD_ALIKE * low):
            return None
        return Payload(times=round(middle, 2), invocations=count)

    def computed(self, key: Key) -> dict[float, Invocations]:
        """Durations and CPU times by memory size. An environment's last invocation, if it succeeded, has the share of
        CPU time that the others have."""
        tallies = self._values.get(("computed", key), [])
        if not tallies:
            return {}
        bins, sums = (np.concatenate(each) for each in zip(*tallies, strict=True))
        different, place = np.unique(bins, axis=0, return_inverse=True)
        counts, ms, cpu = (np.bincount(place.ravel(), each) for each in sums.T)
        found = {}
        for size in np.unique(different[:, 0]).tolist():
            at = different[:, 0] == size
            known, is_any = different[at, 1] > 0, different[at, 2] > 0
            n, of_ms, of_cpu = counts[at], ms[at], cpu[at]
            share = of_cpu[known].sum() / of_ms[known].sum() if known.any() else np.nan
            mean = of_ms / n / 100
            mean_cpu = np.where(known, of_cpu / n / 100, np.where(is_any, mean * share, np.nan))
            order = np.lexsort((mean_cpu, n, mean))
            found[size] = Invocations(size, mean[order], mean_cpu[order], n[order].astype(np.int64))
        return found

    def growths(self) -> dict[Key, Growth]:
        """The lines of code that keep memory, of each function and version that was profiled."""
        found = {key: [profile_in(parsed(text) or {}) for text in texts] for key, texts in self._profiles.items()}
        known = {key: [each for each in profiles if each is not None] for key, profiles in found.items()}
        return {key: merged(profiles) for key, profiles in known.items() if profiles}

    def ran(self, key: Key) -> list[RanOut]:
        """The lines that ran when memory ran out, the most frequent first."""
        made = [
            RanOut(
                file=line.file,
                line=line.line,
                function=line.function,
                kills=len(levels),
                level=None if np.isnan(levels).all() else round(float(np.nanmin(levels)), 2),
                place=line.place,
            )
            for line, levels in self._ran.get(key, {}).items()
        ]
        return sorted(made, key=lambda each: (-each.kills, each.place))

    def parts(self) -> list[Part]:
        """Of --by, what most was left behind by first."""
        made = []
        for kind, word in self._totals:
            if kind != "part":
                continue
            _, _, count, left = self._totals["part", word].tolist()
            (added,) = self._quantiles("part more", word, 0.5)
            made.append(
                Part(
                    value=word,
                    peaks=self._peaks(("part", word), "part peak"),
                    added_p50=None if added is None else round(added, 2),
                    left_mean=left / count if count else None,
                    left_sum=round(left, 2) if count else None,
                )
            )
        return sorted(made, key=lambda part: (part.value is None, -(part.left_sum or 0.0), part.value or ""))
