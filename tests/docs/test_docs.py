"""What the pages name exists: settings, members of the line, files."""

import json
import re
from typing import Any

import click
import pytest
from truemem.config import EXEC_WRAPPER, Config
from truemem.line_schema import MEMBERS
from truemem_workbench.commands.__main__ import cli

from deploy.line_tables import with_causes_table, with_line_tables
from tests.attach import insights
from tests.attach.captured import stored
from tests.attach.pages import DOCS, blocks

ROOT = DOCS.parent
PAGES = sorted({*DOCS.glob("*.md"), *ROOT.glob("*.md")} - {ROOT / "CHANGELOG.md"})
QUERIED = ("attach.md", "queries.md")
AWS_WORDS = {"LogFormat"}
"""Names in mixed case on these pages that are not ours."""
ON_THE_HOST = {"TRUEMEM_CACHE", "TRUEMEM_COMPLETE", "TRUEMEM_TOKEN"}
"""Variables of the build, of the shell's completion, and of a snippet: not the sidecar's."""


def test_the_figures_that_the_readme_explains_are_its_lines() -> None:
    readme = (ROOT / "README.md").read_text()
    (line,) = re.findall(r"^```json\n(.*)\n```$", readme, re.MULTILINE)
    explained = dict(re.findall(r"^\| `(\w+)` \| ([\d.]+) \|", readme, re.MULTILINE))

    assert {name: float(value) for name, value in explained.items()} == json.loads(line)
    assert set(explained) <= set(MEMBERS)


def settings() -> set[str]:
    """All variables, as the sidecar lists them when one is misspelt, and the wrapper's own."""
    (problem,) = Config({b"TRUEMEM_": b"x"}).problems
    named = re.findall(r"TRUEMEM_[A-Z_]+", problem.partition("there are")[2].replace(", ", ", TRUEMEM_"))
    return {*named, f"TRUEMEM_{EXEC_WRAPPER}"}


def test_every_setting_is_in_the_reference() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", (DOCS / "configuration.md").read_text(), re.MULTILINE)
    assert set(rows) == settings()


def test_pages_name_only_settings_that_exist() -> None:
    named = {name for page in PAGES for name in re.findall(r"TRUEMEM_[A-Z][A-Z_]*", page.read_text())}
    assert named - ON_THE_HOST <= settings()


def aliases(page: str) -> set[str]:
    """What the page's queries call their own columns."""
    return set[str]().union(*(insights.aliases(each.text) for each in blocks(page) if each.language == "cwli"))


@pytest.mark.parametrize("page", QUERIED)
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


OF_OTHERS = {"--help", "--markers", "--name", "--log-group-name", "--recursive", "--limit", "--raw"}
"""Options of `truemem` itself, pytest, sam and aws, and one that a page names before its own command."""


@pytest.mark.parametrize(
    ("page", "commands"),
    [
        ("check", ["init", "check", "explain", "bisect"]),
        ("local-lambda", ["local run"]),
        ("report", ["report", "metrics", "doctor", "size"]),
    ],
)
def test_a_page_names_only_options_that_there_are(page: str, commands: list[str]) -> None:
    options: set[str] = set()
    for words in commands:
        command: Any = cli
        for name in words.split():
            command = command.get_command(click.Context(command), name)
        options |= {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", (DOCS / f"{page}.md").read_text()))
    assert named - OF_OTHERS <= options


def test_pages_name_only_files_that_exist() -> None:
    folders = "tests|layer|faults|benchmarks|deploy|infrastructure|extension|workbench|sample_function|libraries"
    for page in PAGES:
        named = re.findall(rf"`((?:{folders})/[\w/.-]+)`", page.read_text())
        assert [path for path in named if not (ROOT / path).exists()] == [], page.name


def test_the_architecture_names_only_files_that_exist() -> None:
    named = re.findall(r"`([a-z_][\w.-]*(?:/[\w.-]+)+)/?`", (ROOT / "ARCHITECTURE.md").read_text())
    homes = (ROOT, ROOT / "extension" / "truemem", ROOT / "workbench" / "truemem_workbench")
    assert named
    assert [
        path for path in named if not any((home / f"{path}{end}").exists() for home in homes for end in ("", ".py"))
    ] == []


def test_the_pages_have_the_tables_of_schema_and_causes() -> None:
    """If not: make line-table."""
    metrics, patterns = (DOCS / "metrics.md").read_text(), (DOCS / "patterns.md").read_text()
    assert (with_line_tables(metrics), with_causes_table(patterns)) == (metrics, patterns)
