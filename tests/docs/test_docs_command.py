"""`truemem docs`: every page and section can be read where there is no network and no clone."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from markdown import Markdown
from truemem import VERSION
from truemem_workbench.commands import docs as command
from truemem_workbench.commands.__main__ import cli
from truemem_workbench.commands.docs import search
from truemem_workbench.judge.causes import TABLE
from truemem_workbench.support import docs_link, pages
from truemem_workbench.support.pages import LINK, Page, Section, linked, readable, topic_of

from deploy.anchors import current, published
from tests.install.conftest import in_a_terminal

ROOT = Path(__file__).parents[2]
PAGES = pages.pages()
TOPIC = re.compile(r"\[([\w/-]+(?:#[\w-]+)?)\]")


def run(*typed: str) -> tuple[int, str, str]:
    """Exit code, output and what is said on stderr. The output is no terminal."""
    done = CliRunner().invoke(cli, ["docs", *typed], standalone_mode=False)
    return done.return_value or done.exit_code, done.stdout, done.stderr


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_a_heading_has_the_anchor_that_the_site_gives_it(page: Page) -> None:
    site = Markdown(extensions=["tables", "fenced_code", "toc"])
    html = site.convert(pages.BLOCK_NAME.sub(r"\1", page.text))
    assert [section.anchor for section in page.sections()] == re.findall(r'<h[1-6] id="([^"]+)"', html)


def named() -> Iterator[str]:
    """All topics that code sends its readers to."""
    for folder in ("extension", "layer", "workbench"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".js", ".mjs", ".cjs", ".c", ".yaml") and "node_modules" not in path.parts:
                text = path.read_text()
                yield from re.findall(r"docs_link\.command\(f?[\"']([\w/#-]+)[\"']\)", text)
                yield from re.findall(r"truemem docs ([a-z][\w-]*(?:#[\w-]+)?)[`\"']", text)
                yield from (f"patterns#{anchor}" for anchor in re.findall(r"\bpattern=\"([\w-]+)\"", text))
    yield from (f"patterns#{row.pattern}" for row in TABLE if row.pattern)


def exists(place: str) -> bool:
    topic, _, anchor = place.partition("#")
    return topic in PAGES and (not anchor or any(anchor in section.names for section in PAGES[topic].sections()))


def test_code_names_only_topics_that_there_are() -> None:
    found = {*named()}
    assert {"patterns#arenas", "outputs", "platforms", "attach#4-exact-mode"} <= found
    assert [place for place in found if not exists(place)] == ["TOPIC"]


def test_no_message_points_to_a_file_that_a_wheel_has_not() -> None:
    for path in (ROOT / "workbench").rglob("*.py"):
        code = re.sub(r'""".*?"""|#.*', "", path.read_text(), flags=re.DOTALL)
        assert not re.search(r"[\"' (]docs/[\w-]+\.md", code), path


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_every_link_is_a_topic_or_says_where_its_file_is(page: Page) -> None:
    there = {each.path for each in PAGES.values()}
    shown = readable(page.text, page.path, there.__contains__)
    links = [target for _, _, target in LINK.findall(re.sub(r"^```.*?^```$", "", shown, flags=re.S | re.M))]
    assert [target for target in links if ":" not in target] == []
    assert [
        path for path in re.findall(r"in a clone: ([^\]\)]+)", shown) if not (ROOT / path.split("#")[0]).is_file()
    ] == []
    written = {found[1] for found in re.finditer(r"\[([\w/-]+#[\w-]+)\]", shown)}
    assert [place for place in written if not exists(place)] == []


def test_a_page_is_plain_markdown_in_a_pipe() -> None:
    code, out, _ = run("patterns")
    assert code == 0
    assert out.startswith("# Patterns\n")
    assert "another leak [patterns#threads-and-processes-that-stay]" in " ".join(out.split())
    assert "\n```bash\n" in out
    assert "<!--" not in out
    assert "\x1b" not in out


def test_a_section_ends_where_the_next_of_its_rank_begins() -> None:
    code, out, _ = run("patterns#fragmentation")
    assert code == 0
    assert out.startswith("## Fragmentation\n")
    assert "\n## " not in out


@pytest.mark.parametrize("asked", ["fragmentation", "docs/patterns.md#fragmentation", "Patterns#Fragmentation"])
def test_a_section_is_found_as_it_was_written(asked: str) -> None:
    assert run(asked) == run("patterns#fragmentation")


def test_without_a_topic_all_of_the_menu_are_listed() -> None:
    code, out, _ = run()
    menu = re.findall(r"^ .*: ([\w/-]+)\.md$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert code == 0
    assert re.findall(r"^  (\S+)  ", out, re.MULTILINE) == [topic_of(f"{path}.md") for path in menu]
    assert out.splitlines()[-1].startswith("Next: truemem docs index")


def test_words_are_searched_for_best_first() -> None:
    code, out, _ = run("heap", "limits")
    assert code == 0
    assert out.split()[0] == "patterns#a-heap-limit-above-the-memory-size"
    assert out.splitlines()[-1] == "Next: truemem docs patterns#a-heap-limit-above-the-memory-size"


def test_a_word_of_the_title_counts_more_than_one_of_the_text() -> None:
    sections = [
        Section("a", "x", ("x",), "Other", "", "leaks and leaks, a leak"),
        Section("a", "y", ("y",), "A leak", "", "words"),
    ]
    assert [each.anchor for each in search(sections, "Leaking?")] == ["y", "x"]
    assert search(sections, '"; DROP') == search(sections, "...") == []


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("paterns", "truemem docs: no page says anything about paterns (near: patterns). Try truemem docs\n"),
        (
            "patterns#fragmentatoin",
            "truemem docs: patterns has no section fragmentatoin (near: fragmentation). Try truemem docs patterns\n",
        ),
        ("qqq", "truemem docs: no page says anything about qqq. Try truemem docs\n"),
    ],
)
def test_a_bad_topic_names_near_ones(asked: str, said: str) -> None:
    assert run(asked) == (2, "", said)


def test_an_old_name_of_a_heading_still_leads_to_it() -> None:
    page = Page("docs/a.md", '# A\n\nWords.\n\n<a id="old"></a>\n<a id="older"></a>\n\n## New name\n\nMore.\n\n## B\n')
    (_, new, other) = page.sections()
    assert (new.names, other.names) == (("new-name", "old", "older"), ("b",))


def test_no_anchor_of_a_release_has_gone() -> None:
    """If one has: put `<a id="old-name"></a>` above the heading that has its text now."""
    assert published(ROOT) - current(ROOT) == set()
    assert "patterns#fragmentation" in current(ROOT)


SITE = "https://docs.example/truemem/"


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A build that names a site. Returns the addresses that the browser is given."""
    opened: list[str] = []

    def browse(address: str) -> bool:
        opened.append(address)
        return True

    monkeypatch.setattr("webbrowser.open", browse)
    monkeypatch.setattr(docs_link, "home", lambda: SITE)
    return opened


@pytest.mark.parametrize(
    ("asked", "page"),
    [
        ("patterns#fragmentation", "docs/patterns.html#fragmentation"),
        ("patterns", "docs/patterns.html"),
        ("sample_function", "sample_function/index.html"),
        ("", "index.html"),
    ],
)
def test_open_shows_the_page_of_this_version(site: list[str], asked: str, page: str) -> None:
    code, out, _ = run("--open", asked)
    assert code == 0
    assert site == [out.strip()] == [f"{SITE}{VERSION}/{page}"]


def test_open_says_what_to_type_where_there_is_no_site(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs_link, "home", lambda: "")
    assert run("--open", "patterns") == (
        2, "", "truemem docs: --open: this build names no site. Try truemem docs patterns\n",
    )  # fmt: skip


def test_a_terminal_shows_it_drawn_and_with_its_pager(tmp_path: Path) -> None:
    typed = [sys.executable, "-m", "truemem_workbench.commands", "docs"]
    variables = {"PATH": "/usr/bin:/bin", "TERM": "xterm", "COLUMNS": "80", "LINES": "40", "PAGER": "cat -A"}
    code, short = in_a_terminal([*typed, "patterns#fragmentation"], tmp_path, variables)
    assert code == 0
    assert "\x1b[" in short
    assert "## " not in short
    assert "The whole page: truemem docs patterns\r\n" in short
    code, long = in_a_terminal([*typed, "patterns"], tmp_path, variables)
    assert code == 0
    assert "$\r\n" in long, "the pager has not shown it"


def test_a_reader_that_goes_is_no_error(tmp_path: Path) -> None:
    command_line = f"{sys.executable} -m truemem_workbench.commands docs CHANGELOG | head -1"
    done = subprocess.run(["bash", "-c", command_line], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("# Changelog\n", "")


def test_pages_are_the_same_files_for_site_and_command() -> None:
    assert {ROOT / page.path for page in PAGES.values()} == {path for path in linked(ROOT) if path.suffix == ".md"}
    assert command.MOST_COLUMNS == 100
