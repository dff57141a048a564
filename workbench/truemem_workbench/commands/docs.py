"""`truemem docs`."""

from __future__ import annotations

import re
import shutil
import sqlite3
import sys
from collections.abc import Iterable, Mapping

import click

from ..support import docs_link
from ..support.bad_input import BadInput
from ..support.near import closest
from ..support.pages import Page, Section, contents, pages, readable

MOST_SECTIONS = 8
"""Sections of an answer."""
MOST_COLUMNS = 100
"""Columns of text: longer lines are hard to read."""


@click.command("docs")
@click.argument("words", nargs=-1, metavar="[TOPIC[#SECTION] | WORDS]")
@click.option("--open", "opens", is_flag=True, help="Open it in the browser: this version's page on the site.")
def docs(words: tuple[str, ...], opens: bool) -> None:
    """Read the documentation that is installed with this version. It needs no network.

    Without a topic it lists all. A topic is a page (patterns) or a section of one (patterns#fragmentation). Other words
    are searched for: truemem docs memory never falls.
    """
    asked, there = " ".join(words), pages()
    if opens:
        _open(there, asked)
    elif not asked:
        _list(there)
    else:
        _answer(there, asked)


def _answer(there: Mapping[str, Page], asked: str) -> None:
    """Print the page or section that is meant, or list what a search finds. Raises BadInput if there is none."""
    found = _named(there, asked)
    if isinstance(found, Page):
        on_site = f"On the site: {docs_link.command(found.topic)} --open" if docs_link.site(found.path) else ""
        _print(found.text, found, there, on_site)
    elif isinstance(found, Section):
        _print(found.text, there[found.topic], there, f"The whole page: {docs_link.command(found.topic)}")
    else:
        _list_found(there, asked)


def _named(there: Mapping[str, Page], asked: str) -> Page | Section | None:
    """The page or the section of that name; a section also by its anchor alone, where only one page has it. None: it is
    no name. Raises BadInput for a section that the page has not."""
    topic, _, anchor = asked.removeprefix("docs/").replace(".md", "").partition("#")
    page = there.get(topic) or next((page for name, page in there.items() if name.lower() == topic.lower()), None)
    if page and not anchor:
        return page
    places = [page] if page else list(there.values())
    wanted = (anchor or topic).lower()
    sections = [section for each in places for section in each.sections() if wanted in section.names]
    if page and not sections:
        near = _near(wanted, [section.anchor for section in page.sections()])
        raise BadInput(f"{page.topic} has no section {anchor}{near}. Try {docs_link.command(page.topic)}")
    return sections[0] if len(sections) == 1 else None


def _near(name: str, names: Iterable[str]) -> str:
    """The names that `name` may be a misspelling of, in brackets; empty if there are none."""
    close = closest(name, names)
    return f" (near: {', '.join(close)})" if close else ""


def _list_found(there: Mapping[str, Page], asked: str) -> None:
    searched = [page for page in there.values() if page.path.startswith("docs/")]
    sections = [section for page in searched for section in page.sections()]
    found = search(sections, asked)
    if not found:
        near = _near(asked, [*there, *(section.anchor for section in sections)])
        raise BadInput(f"no page says anything about {asked}{near}. Try {docs_link.command()}")
    width = max(len(section.place) for section in found)
    for section in found:
        click.echo(f"  {section.place:{width}}  {section.title}")
    click.echo(f"\nNext: {docs_link.command(found[0].place)}")


def _list(there: Mapping[str, Page]) -> None:
    """All topics, grouped as in the menu of the site."""
    width = max(len(topic) for _, topics in contents() for topic in topics)
    for group, topics in contents():
        click.echo(f"\n{group}" if group else "Topics")
        for topic in topics:
            click.echo(f"  {topic:{width}}  {there[topic].title}")
    click.echo(f"\nNext: {docs_link.command('index')}, or words: {docs_link.command('memory never falls')}")


def _open(there: Mapping[str, Page], asked: str) -> None:
    """Raises BadInput if this is no name, or the build has no site."""
    found = _named(there, asked) if asked else there["README"]
    if found is None:
        raise BadInput(f"--open: there is no topic {asked}. Try {docs_link.command()}")
    page, anchor = (there[found.topic], found.anchor) if isinstance(found, Section) else (found, "")
    address = docs_link.site(page.path, anchor)
    if not address:
        raise BadInput(f"--open: this build names no site. Try {docs_link.command(asked or page.topic)}")
    import webbrowser

    click.echo(address)
    if not webbrowser.open(address):
        raise BadInput(f"--open: there is no browser here. Try {docs_link.command(asked or page.topic)}")


def _print(text: str, page: Page, there: Mapping[str, Page], last: str) -> None:
    """Markdown into a file or a pipe; drawn on a terminal, with its pager where it is longer than the screen."""
    paths = {each.path for each in there.values()}
    markdown = readable(text, page.path, paths.__contains__).strip()
    if not sys.stdout.isatty():
        click.echo(markdown)
        return
    from rich.markdown import Markdown

    from ..support.terminal import console

    screen = console(width=min(MOST_COLUMNS, shutil.get_terminal_size().columns))
    with screen.capture() as capture:
        screen.print(Markdown(markdown, hyperlinks=False))
    hint = f"In [brackets]: a topic, for {docs_link.command('TOPIC')}"
    drawn = "\n".join([capture.get(), *([hint] if markdown != text.strip() else []), *([last] if last else [])])
    if drawn.count("\n") < shutil.get_terminal_size().lines:
        click.echo(drawn)
    else:
        click.echo_via_pager(drawn)


def search(sections: Iterable[Section], words: str) -> list[Section]:
    """The sections that have all of these words in any form of English (`leaks`: `leak`), best first; a word in the
    title counts for ten in the text. If none has all, those with some. Empty for none.

    Source: https://www.sqlite.org/fts5.html, "The bm25() function" and "Porter Tokenizer".
    """
    found = list(sections)
    quoted = [f'"{word}"' for word in re.findall(r"\w+", words)]
    if not quoted:
        return []
    index = sqlite3.connect(":memory:")
    index.execute("CREATE VIRTUAL TABLE section USING fts5(title, text, topic, tokenize = 'porter unicode61')")
    index.executemany("INSERT INTO section VALUES (?, ?, ?)", ((each.title, each.own, each.topic) for each in found))
    for all_or_any in (" ", " OR "):
        rows = index.execute(
            "SELECT rowid FROM section WHERE section MATCH ? ORDER BY bm25(section, 10, 1, 5) LIMIT ?",
            (all_or_any.join(quoted), MOST_SECTIONS),
        ).fetchall()
        if rows:
            return [found[row - 1] for (row,) in rows]
    return []
