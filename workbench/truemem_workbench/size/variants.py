"""One function with several values of a variable, such as models: what each needs, and what each costs. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..judge.sizing import HEADROOM, rounded_size
from ..support.document import known_members, rounded
from ..support.terminal import mib
from .choice import SAME, Choice, Trial, usd
from .result import NONE_FITS, SUGGESTED, UNKNOWN, Result

FIGURES, LAST = ("peak MiB", "fits in MB", "take MB", "p50 ms", "init ms", "$ a million"), ("",)
"""Columns of the table, after the variable's own."""


@dataclass(frozen=True, kw_only=True)
class Tried:
    """What came of one value."""

    value: str
    result: Result | None = None
    problem: str = ""
    """Why there is no result."""

    @property
    def choice(self) -> Choice | None:
        return self.result.choice if self.result is not None else None

    @property
    def suggested(self) -> Trial | None:
        return self.choice.suggested if self.choice is not None else None

    @property
    def seen(self) -> Trial | None:
        """The size that its figures are of: the suggested one, or the largest that was tried."""
        trials = self.choice.trials if self.choice is not None else []
        tried = [each for each in trials if each.held is not None and not each.is_broken]
        return self.suggested or max(tried, key=lambda each: each.memory, default=None)

    @property
    def fits_in(self) -> int | None:
        """The smallest memory size with enough headroom, MB. None if it is not known, memory grows, or it was ended
        before a size was tried."""
        if self.seen is None or self.seen.held is None or self.seen.killed or self.choice is None:
            return None
        if self.choice.grows or not self.choice.is_tried:
            return None
        return rounded_size(self.seen.held * (1 + HEADROOM))

    @property
    def cost(self) -> float:
        """USD per million invocations at the suggested size. NaN without one."""
        if self.suggested is None or self.choice is None:
            return math.nan
        return self.suggested.cost(self.choice.wanted.architecture)

    @property
    def against(self) -> str:
        """Why no size is suggested, in one sentence. Empty if one is."""
        if self.result is None:
            return self.problem
        if self.suggested is not None or self.is_cut_short:
            return ""
        sentences = self.result.sentences()
        finding = self.result.finding
        if finding is not None and finding.cause == "failing":  # of no size: they were not to blame
            sentences.remove(self.result.choice.sentence())
        return " ".join(sentences)

    @property
    def is_cut_short(self) -> bool:
        """True if it was ended early, before a size was tried."""
        return self.result is not None and self.result.is_cut and not self.result.choice.is_tried

    @property
    def role(self) -> str:
        """The last cell of its row, if it is not the best."""
        if self.suggested is not None:
            return ""
        if self.is_cut_short:
            return "ended early"
        trials = self.choice.trials if self.choice is not None else []
        return "fails" if trials and all(each.is_broken for each in trials) else "none fits" if trials else "not tried"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All values that were tried."""

    spec: str
    name: str
    tried: Sequence[Tried]
    untried: Sequence[str] = ()
    """Values that were not, as it was ended early."""
    next: str = ""
    next_when: str = ""
    """What must be done before; empty for nothing."""

    @property
    def best(self) -> Tried | None:
        """By the strategy: the fastest, or the cheapest. None if no size is suggested for any."""
        found = [each for each in self.tried if each.suggested is not None]

        def key(each: Tried) -> tuple[float, float]:
            assert each.suggested is not None
            both = each.cost, each.suggested.p50
            return both[::-1] if each.choice is not None and each.choice.wanted.strategy == "speed" else both

        return min(found, key=key, default=None)

    @property
    def exit_code(self) -> int:
        if self.best is not None:
            return SUGGESTED
        codes = {each.result.exit_code for each in self.tried if each.result is not None}
        return NONE_FITS if NONE_FITS in codes else UNKNOWN

    def rows(self) -> list[list[str]]:
        return [self._row(each) for each in self.tried]

    def _row(self, each: Tried) -> list[str]:
        take, seen = each.suggested, each.seen
        return [
            each.value,
            mib(seen.peak) if seen else "-",
            "-" if each.fits_in is None else f"{each.fits_in:,}",
            "-" if take is None else f"{take.memory:,}",
            "-" if take is None else f"{take.p50:,.0f}",
            "-" if take is None or take.init is None else f"{take.init:,.0f}",
            "-" if take is None else usd(each.cost),
            self._role if each is self.best and len(self.tried) > 1 else each.role,
        ]

    @property
    def _role(self) -> str:
        return "fastest" if self.best and self.best.choice and self._is_speed(self.best.choice) else "cheapest"

    @staticmethod
    def _is_speed(choice: Choice) -> bool:
        return choice.wanted.strategy == "speed"

    def sentences(self) -> list[str]:
        """Which value is best, and what is the matter with those that have no size."""
        said = []
        if (best := self.best) is not None and best.suggested is not None:
            dearest = max((each for each in self.tried if each.suggested is not None), key=lambda each: each.cost)
            times = dearest.cost / best.cost
            more = f"; {self.name}={dearest.value} costs {times:.1f} times that" if times > 1 + SAME else ""
            said.append(
                f"The {self._role}: {self.name}={best.value}, {best.suggested.memory:,} MB (${usd(best.cost)} a"
                f" million, p50 {best.suggested.p50:,.0f} ms){more}."
            )
        said += [f"{self.name}={each.value}: {each.against}" for each in self.tried if each.against]
        if self.untried:
            first = "no size of it was tried. " if self.tried[-1].is_cut_short else ""
            at = f" at {self.name}={self.tried[-1].value}: {first}" if first else ". "
            said.append(f"It was ended early{at}Not tried: {', '.join(self.untried)}.")
        return said

    def notices(self) -> list[str]:
        """Those of all results, each once, whatever load it says."""
        all_of = [notice for each in self.tried if each.result is not None for notice in each.result.all_notices()]
        return [*{notice.partition("(load")[0]: notice for notice in all_of}.values()]

    def document(self) -> dict[str, object]:
        """The document for `--json`."""
        members: dict[str, object] = {
            "function": self.spec,
            "variable": self.name,
            "variants": [self._variant(each) for each in self.tried],
            "best": self.best.value if self.best is not None else None,
            "sentences": self.sentences(),
            "notices": self.notices(),
            "next": self.next,
            "nextWhen": self.next_when or None,
            "untried": list(self.untried) or None,
        }
        return known_members(members)

    def _variant(self, each: Tried) -> Mapping[str, object]:
        members: dict[str, object] = {
            "value": each.value,
            "peak": rounded(each.seen.peak if each.seen else None),
            "fitsIn": each.fits_in,
            "costPerMillion": None if math.isnan(each.cost) else rounded(each.cost, 4),
            "problem": each.problem or None,
            "result": each.result.document() if each.result is not None else None,
        }
        return known_members(members)
