"""The pages of README and docs/, by topic, with their sections and links. They have the layout of the repository.

setup.py runs this file alone to find what belongs into a wheel, so it imports only the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

WHEEL = Path(__file__).with_name("pages")
CHECKOUT = Path(__file__).parents[3]
NAVIGATION = "mkdocs.yml"

BLOCK_NAME = re.compile(r"^(```\w+) [\w-]+$", re.MULTILINE)
"""Tests find a block of code by the word behind its language. GitHub ignores that word."""
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
"""An image's mark, the text and the target."""
_ALIAS = re.compile(r'<a id="([\w-]+)"></a>\n*')
"""A name that a heading had before, above the heading: who has the old link still arrives."""
_COMMENT = re.compile(r"^<!--.*?-->\n", re.MULTILINE | re.DOTALL)
_FENCE = re.compile(r"^```[^\n]*\n.*?^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#{1,6}) (.+)$", re.MULTILINE)


def linked(root: Path) -> set[Path]:
    """All pages of the root and of docs/, and all files of the repository that they link to, directly or through
    another page. `root` is resolved."""
    found, waiting = set[Path](), [*root.glob("*.md"), *(root / "docs").glob("*.md")]
    while waiting:
        page = waiting.pop()
        if page in found:
            continue
        found.add(page)
        if page.suffix == ".md":
            targets = (target.partition("#")[0] for _, _, target in LINK.findall(page.read_text(encoding="utf-8")))
            files = ((page.parent / target).resolve() for target in targets if target and ":" not in target)
            waiting += [file for file in files if file.is_file() and file.is_relative_to(root)]
    return found


def topic_of(path: str) -> str:
    """What a page is called, by its path in the repository: `patterns`, `sample_function`, `CHANGELOG`."""
    parts = PurePosixPath(path).with_suffix("").parts
    parts = parts[1:] if parts[0] == "docs" else parts
    return "/".join(parts[:-1] if len(parts) > 1 and parts[-1] == "README" else parts)


def slug(heading: str) -> str:
    """The anchor of a heading, as Python-Markdown makes it (markdown.extensions.toc.slugify)."""
    text = LINK.sub(r"\2", heading)
    text = re.sub(r"[^\w\s-]", "", text.encode("ascii", "ignore").decode()).strip().lower()
    return re.sub(r"[-\s]+", "-", text)


class Section(NamedTuple):
    """A heading and what stands below it, with its subsections."""

    topic: str
    anchor: str
    """The heading as a link writes it."""
    names: tuple[str, ...]
    """The anchor, and those that the section had before."""
    title: str
    text: str
    """Markdown, the heading included."""
    own: str
    """The section's text without heading and subsections."""

    @property
    def place(self) -> str:
        """What `truemem docs` takes: the page's topic for its title."""
        return f"{self.topic}#{self.anchor}" if self.text.startswith("##") else self.topic


class Page(NamedTuple):
    """One page of Markdown."""

    path: str
    """The page's path in the repository."""
    text: str

    @property
    def topic(self) -> str:
        return topic_of(self.path)

    @property
    def title(self) -> str:
        found = _HEADING.search(self.text)
        return found[2] if found else self.topic

    def sections(self) -> list[Section]:
        """All of them, the page's title first."""
        masked = _FENCE.sub(lambda code: " " * len(code[0]), self.text)
        headings = list(_HEADING.finditer(masked))
        seen, made = set[str](), list[Section]()
        for number, heading in enumerate(headings):
            later = headings[number + 1 :]
            end = next((each.start() for each in later if len(each[1]) <= len(heading[1])), len(self.text))
            anchor = _unused(slug(heading[2]), seen)
            before = headings[number - 1].end() if number else 0
            above = masked[before : heading.start()].rstrip().rpartition("\n\n")[2]
            names = (anchor, *_ALIAS.findall(above))
            own = self.text[heading.end() : later[0].start() if later else len(self.text)]
            text = self.text[heading.start() : end]
            made.append(Section(self.topic, anchor, names, LINK.sub(r"\2", heading[2]), text, own))
        return made


def _unused(anchor: str, seen: set[str]) -> str:
    """An anchor that is not used yet: Python-Markdown tells equal headings of one page apart as `a`, `a_1`."""
    name, count = anchor, 0
    while name in seen:
        count += 1
        name = f"{anchor}_{count}"
    seen.add(name)
    return name


def pages(root: Path | None = None) -> dict[str, Page]:
    """All pages of a clone by topic; without one those of the wheel, or of the clone that this runs from."""
    root = root or (WHEEL if WHEEL.is_dir() else CHECKOUT).resolve()
    paths = sorted(path for path in linked(root) if path.suffix == ".md")
    made = (Page(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")) for path in paths)
    return {page.topic: page for page in made}


def contents() -> Iterator[tuple[str, Sequence[str]]]:
    """Groups of topics, named and ordered as in the menu of the site."""
    import yaml

    root = WHEEL if WHEEL.is_dir() else CHECKOUT
    entries = yaml.safe_load((root / NAVIGATION).read_text(encoding="utf-8"))["nav"]
    first = [path for entry in entries for path in entry.values() if isinstance(path, str)]
    yield "", [topic_of(path) for path in first]
    for entry in entries:
        for name, group in entry.items():
            if not isinstance(group, str):
                yield name, [topic_of(path) for each in group for path in each.values()]


def readable(text: str, path: str, known: Callable[[str], bool]) -> str:
    """The Markdown of a page for readers who cannot click: a link to a page becomes its topic in brackets, one to
    another file where that is. `path` is the page's own, `known` tells whether there is a page at a path."""

    def written(found: re.Match[str]) -> str:
        image, text, target = found.groups()
        file, _, anchor = target.partition("#")
        if ":" in file:
            return found[0]
        there = _joined(PurePosixPath(path).parent, file) if file else path
        if image:
            return f"(picture: {text}; in a clone: {there})"
        if not known(there):
            return f"{text} [in a clone: {there}]"
        place = topic_of(there) + (f"#{anchor}" if anchor else "")
        return f"[{place}]" if slug(text) == place.lower() else f"{text} [{place}]"

    parts, last = [], 0
    for code in _FENCE.finditer(text):
        parts += [LINK.sub(written, _without_marks(text[last : code.start()])), BLOCK_NAME.sub(r"\1", code[0])]
        last = code.end()
    return "".join([*parts, LINK.sub(written, _without_marks(text[last:]))])


def _without_marks(text: str) -> str:
    return _ALIAS.sub("", _COMMENT.sub("", text))


def _joined(folder: PurePosixPath, link: str) -> str:
    """A relative link from a folder of the repository, as a path in it."""
    parts: list[str] = []
    for part in (*folder.parts, *PurePosixPath(link).parts):
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)
