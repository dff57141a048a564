"""Hooks of mkdocs (mkdocs.yml): the site has the layout of the repository, so the links that GitHub follows work there.

mkdocs knows the files of docs/ alone. These hooks give it README.md, the other pages of the root, and every file that
a page links to, each at its path in the repository. mkdocs itself then checks all links.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")
"""The path of a link or an image, without its anchor."""

BLOCK_NAME = re.compile(r"^(```\w+) [\w-]+$", re.MULTILINE)
"""Tests find a block of code by the word behind its language. GitHub ignores that word; Python-Markdown does not."""


def linked(root: Path, pages: list[Path]) -> set[Path]:
    """The pages, and all existing files of the repository that they link to, directly or through another page."""
    found, waiting = set[Path](), list(pages)
    while waiting:
        page = waiting.pop()
        if page in found:
            continue
        found.add(page)
        if page.suffix == ".md":
            targets = ((page.parent / link).resolve() for link in LINK.findall(page.read_text()))
            waiting += [target for target in targets if target.is_file() and target.is_relative_to(root)]
    return found


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace the files of docs/ by those of the site. What is not from docs/ is the theme's, and stays."""
    root = Path(config.config_file_path).resolve().parent
    pages = [*root.glob("*.md"), *(root / "docs").glob("*.md")]
    ours = [
        File.generated(config, str(path.relative_to(root)), abs_src_path=str(path))
        for path in sorted(linked(root, pages))
    ]
    return Files([*(file for file in files if file.src_dir != config.docs_dir), *ours])


def on_page_markdown(markdown: str, **_: object) -> str:
    """Prepare a page's text for Python-Markdown."""
    return BLOCK_NAME.sub(r"\1", markdown)
