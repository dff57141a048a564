"""docs/report.md and docs/scale.md say what there is."""

from __future__ import annotations

import re

import pytest
from truemem_workbench.cli.__main__ import cli

from tests.unit.test_docs import DOCS, anchors

PAGES = ("report.md", "scale.md")
OF_ALL = {"--help"}
OF_OTHERS = {"--format", "--name"}
"""Options of `aws logs tail` and `sam logs`."""


@pytest.mark.parametrize("page", PAGES)
def test_a_link_leads_somewhere(page: str) -> None:
    for link in re.findall(r"\]\((?!https?:)([^)]*)\)", (DOCS / page).read_text()):
        path, _, anchor = link.partition("#")
        assert (DOCS / path).is_file(), link
        assert not anchor or anchor in anchors(DOCS / path), link


def test_the_page_names_only_options_that_there_are() -> None:
    there = {
        option for name in ("report", "metrics", "doctor") for each in cli.commands[name].params for option in each.opts
    }

    assert set(re.findall(r"--[a-z][a-z-]*", (DOCS / "report.md").read_text())) - OF_OTHERS - OF_ALL <= there
