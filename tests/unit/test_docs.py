"""The references say what the code has: no more, no less."""

from __future__ import annotations

import re
from pathlib import Path

from truemem.config import Config
from truemem.record import MEMBERS

DOCS = Path(__file__).parents[2] / "docs"


def first_cells(page: str) -> set[str]:
    """What stands in code marks in the first column of the page's tables."""
    rows = re.findall(r"^\| (`.*?) \|", (DOCS / page).read_text(), re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def test_every_member_of_a_line_is_in_the_metrics_reference() -> None:
    assert first_cells("metrics.md") == set(MEMBERS)


def test_every_setting_is_in_the_configuration_reference() -> None:
    documented = first_cells("configuration.md")
    (problem,) = Config({b"TRUEMEM_": b"x"}).problems
    assert documented == set(
        re.findall(r"TRUEMEM_[A-Z_]+", problem.partition("there are")[2].replace(", ", ", TRUEMEM_"))
    )
