"""The references say what the code has: no more, no less."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from truemem.config import WRAPPER, Config
from truemem.line_schema import MEMBERS

from tests.attach.captured import stored
from tests.attach.insights_syntax import parse
from tests.attach.insights_tree import Fields, Parse, Stats
from tests.attach.pages import blocks

DOCS = Path(__file__).parents[2] / "docs"
FOR_USERS = ("attach.md", "queries.md")
AWS_WORDS = {"LogFormat"}
"""Names in mixed case on these pages that are not ours."""


def first_cells(page: str) -> set[str]:
    """What stands in code marks in the first column of the page's tables."""
    rows = re.findall(r"^\| (`.*?) \|", (DOCS / page).read_text(), re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def test_the_figures_that_the_readme_explains_are_those_of_its_line() -> None:
    readme = (DOCS.parent / "README.md").read_text()
    (line,) = re.findall(r"^```json\n(.*)\n```$", readme, re.MULTILINE)
    explained = dict(re.findall(r"^\| `(\w+)` \| ([\d.]+) \|", readme, re.MULTILINE))

    assert {name: float(value) for name, value in explained.items()} == json.loads(line)
    assert set(explained) <= set(MEMBERS)


def settings() -> set[str]:
    """The variables that there are, as the sidecar itself says to who misspells one; and the wrapper's own."""
    (problem,) = Config({b"TRUEMEM_": b"x"}).problems
    named = re.findall(r"TRUEMEM_[A-Z_]+", problem.partition("there are")[2].replace(", ", ", TRUEMEM_"))
    return {*named, f"TRUEMEM_{WRAPPER}"}


def test_the_references_have_every_member_and_every_setting() -> None:
    assert first_cells("metrics.md") == set(MEMBERS)
    assert first_cells("configuration.md") == settings()


@pytest.mark.parametrize("page", FOR_USERS)
def test_a_page_names_only_settings_that_there_are(page: str) -> None:
    assert set(re.findall(r"TRUEMEM_[A-Z][A-Z_]*", (DOCS / page).read_text())) <= settings()


def aliases(page: str) -> set[str]:
    """What the page's queries call their own columns."""
    made: set[str] = set()
    for block in blocks(page):
        for command in parse(block.text) if block.language == "cwli" else []:
            match command:
                case Fields(items):
                    made |= {item.name for item in items}
                case Parse(_, pattern):
                    made |= set(pattern.groupindex)
                case Stats(items, by):
                    made |= {item.name for item in (*items, *by)}
    return made


@pytest.mark.parametrize("page", FOR_USERS)
def test_a_page_names_only_members_that_lines_have(page: str) -> None:
    prose = re.sub(r"^```.*?^```$", "", (DOCS / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    spans = {span.partition(":")[0] for span in re.findall(r"`([^`\n]+)`", prose)}
    mixed = {span for span in spans if re.fullmatch(r"[A-Za-z]*[a-z][A-Z][A-Za-z]*", span)}
    assert mixed
    assert mixed <= {*MEMBERS, *aliases(page), *AWS_WORDS}


def test_the_line_to_look_for_is_the_one_that_is_printed() -> None:
    (documented,) = re.findall(r"^truemem INFO .*$", (DOCS / "attach.md").read_text(), re.MULTILINE)
    printed = [event.message for event in stored()["spike"] if event.message.startswith("truemem INFO method=")]
    assert len(printed) == 1
    assert re.findall(r"(\w+)=", documented) == re.findall(r"(\w+)=", printed[0])


def anchors(page: Path) -> set[str]:
    """Of its headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


PAGES = sorted({*DOCS.glob("*.md"), *DOCS.parent.glob("*.md")} - {DOCS.parent / "CHANGELOG.md"})
ROOMS = ("lifecycle", "records", "measure", "platform", "linux", "support")


def test_pages_name_only_files_that_there_are_and_the_architecture_only_modules() -> None:
    folders = "tests|layer|faults|benchmarks|deploy|infrastructure|extension|workbench|sample_function"
    named = {path for page in PAGES for path in re.findall(rf"`((?:{folders})/[\w/.-]+)`", page.read_text())}
    assert len(named) > 30
    modules = re.findall(rf"`((?:{'|'.join(ROOMS)})/\w+)`", (DOCS.parent / "ARCHITECTURE.md").read_text())
    assert len(set(modules)) > 20
    named |= {f"extension/truemem/{module}.py" for module in modules}
    assert [path for path in sorted(named) if not (DOCS.parent / path).exists()] == []
