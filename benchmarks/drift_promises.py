"""What is promised of the verdict on drift, and whether it was kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from truemem_workbench.testing.drift import synthetic
from truemem_workbench.testing.drift.corpus import BOUNDED, FILLING

from benchmarks import drift_shares as shares
from benchmarks.drift_series import ALONE, BESIDE, FORMS, LENGTHS, LIFE, SIDECAR, Real, Result, Short
from benchmarks.drift_shares import percent
from benchmarks.publish import markdown

AT_LENGTHS = {
    1024: {ALONE: (0.85, 1.0), BESIDE: (0.60, 1.0), BOUNDED: (0.0, 0.05), FILLING: (0.0, 0.08)},
    4096: {ALONE: (0.93, 1.0), BESIDE: (0.80, 1.0), BOUNDED: (0.0, 0.01), FILLING: (0.0, 0.02)},
}
"""Least and most called growing."""
MOST_ACCUSED = 0.10
LEAST_TOLD = 0.90
COVERAGE = (0.90, 0.97)
LEAST_REAL = 0.85
MOST_REAL = 1 / 20
MOST_SHORT = 0.01


class Promise(NamedTuple):
    """A line of the table."""

    what: str
    least: float
    most: float
    measured: dict[str, list[float | None]]
    """By form of the verdict; several where several have to be within."""

    def kept(self) -> bool:
        """Is all within the bounds? What is not measured any more is not kept."""
        values = [value for said in self.measured.values() for value in said]
        return all(value is not None and self.least <= value <= self.most for value in values)

    def aim(self) -> str:
        """The bounds, for the table."""
        if self.most == self.least:
            return _whole(self.least)
        if self.most == 1:
            return f"at least {_whole(self.least)}"
        if self.least == 0:
            return f"at most {_whole(self.most)}"
        return f"{_whole(self.least)} to {_whole(self.most)}"

    def shown(self, form: str) -> str:
        """What was measured of that form, for the table."""
        said = [value for value in self.measured.get(form, []) if value is not None]
        if not said:
            return "" if form not in self.measured else "not measured"
        if len(said) == 1:
            return percent(said[0])
        return f"{min(said) * 100:.1f} to {percent(max(said))}"


def promises(results: Sequence[Result], real: Sequence[Real], short: Sequence[Short]) -> list[Promise]:
    """All of them, as measured on one corpus."""
    made = []
    for count, groups in AT_LENGTHS.items():
        for group, (least, most) in groups.items():
            measured = {form: [shares.called(results, form, count, group)] for form in FORMS}
            made.append(Promise(f"{group}: called growing at {count:,}", least, most, measured))
    ever = {SIDECAR: [shares.accused(results, BOUNDED)]}
    made.append(Promise(f"bounded: ever called growing in a life of {LIFE:,}", 0, MOST_ACCUSED, ever))
    killed = {SIDECAR: [shares.told_in_time(shares.killed(results, (ALONE, BESIDE)))]}
    made.append(
        Promise(
            f"leaks that reach the limit: told before {shares.IN_TIME * 100:.0f} % of their life", LEAST_TOLD, 1, killed
        )
    )
    for group in (ALONE, BESIDE):
        covered = {
            form: [
                shares.coverage(shares.intervals(results, form, count, group))
                for count in LENGTHS
                if count >= shares.COVERED_FROM
            ]
            for form in FORMS
        }
        what = f"{group}: intervals that hold the true rate, {shares.COVERED_FROM} and above"
        made.append(Promise(what, *COVERAGE, covered))
    for leaks, least, most in ((True, LEAST_REAL, 1.0), (False, 0.0, MOST_REAL)):
        said = {form: [_part(*shares.called_real(real, form, leaks))] for form in FORMS}
        what = f"real programs that {'leak' if leaks else 'do not leak'}: called growing at the end"
        made.append(Promise(what, least, most, said))
    false, found = [
        {form: [shares.share(each.growing[form] for each in short if each.kind in kinds)] for form in FORMS}
        for kinds in (synthetic.LEAK_FREE, synthetic.STEADY_LEAKS)
    ]
    made.append(Promise(f"short and leak-free: called growing at {synthetic.INVOCATIONS}", 0, MOST_SHORT, false))
    made.append(Promise(f"short, steady leaks: called growing at {synthetic.INVOCATIONS}", 1, 1, found))
    return made


def _whole(part: float) -> str:
    return f"{part * 100:.0f} %"


def _part(count: int, of: int) -> float | None:
    return count / of if of else None


def table(made: Sequence[Promise]) -> str:
    """The first table of the page."""
    rows = [[each.what, each.aim(), *map(each.shown, FORMS), "yes" if each.kept() else "**NO**"] for each in made]
    return markdown(["promised", "aim", *FORMS, "kept"], rows)
