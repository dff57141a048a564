"""`make anchors`, before a release: adds the anchors of the users' pages to docs/anchors.txt, and takes none out.

Others link to what was released. A heading that gets another name keeps the old one: `<a id="old-name"></a>` above it.
"""

from __future__ import annotations

from pathlib import Path

from truemem_workbench.support.pages import pages

PUBLISHED_FILE = "docs/anchors.txt"


def published(root: Path) -> set[str]:
    """What releases have had: `patterns#fragmentation`. Empty before the first."""
    path = root / PUBLISHED_FILE
    return set(path.read_text(encoding="utf-8").split()) if path.exists() else set()


def current(root: Path) -> set[str]:
    """What the pages of docs/ and the README have, older names included."""
    read = [page for page in pages(root).values() if page.path.startswith(("docs/", "README"))]
    return {f"{page.topic}#{name}" for page in read for section in page.sections() for name in section.names}


def main() -> None:
    """Write the file."""
    here = Path().resolve()
    Path(PUBLISHED_FILE).write_text("".join(f"{each}\n" for each in sorted(published(here) | current(here))))


if __name__ == "__main__":
    main()
