"""Hooks of mkdocs (mkdocs.yml): the site has the layout of the repository, so the links that GitHub follows work there.

mkdocs knows the files of docs/ alone. These hooks give it README.md, the other pages of the root, and every file that
a page links to, each at its path in the repository. mkdocs itself then checks all links.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from truemem_workbench.support.pages import BLOCK_NAME, linked

STYLE = "docs/site.css"


@event_priority(100)  # before mike adds the version
def on_config(config: MkDocsConfig) -> None:
    """Take the site's address from pyproject.toml, where everything else takes it from."""
    project = tomllib.loads((_root(config) / "pyproject.toml").read_text())["project"]
    config.site_url = project.get("urls", {}).get("Documentation")


def _root(config: MkDocsConfig) -> Path:
    return Path(config.config_file_path).resolve().parent


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace the files of docs/ by those of the site. What is not from docs/ is the theme's, and stays."""
    root = _root(config)
    ours = [
        File.generated(config, str(path.relative_to(root)), abs_src_path=str(path))
        for path in sorted({*linked(root), root / STYLE})
    ]
    return Files([*(file for file in files if file.src_dir != config.docs_dir), *ours])


def on_page_markdown(markdown: str, **_: object) -> str:
    """Without the names of blocks: Python-Markdown does not ignore them."""
    return BLOCK_NAME.sub(r"\1", markdown)
