"""Where a message sends its reader: to a page that is installed with the command, or to the same page on the site."""

from __future__ import annotations

from truemem import VERSION


def command(topic: str = "") -> str:
    """The command that prints this topic: a page of docs/, with `#` and a heading's anchor."""
    return f"truemem docs {topic}".rstrip()


def home() -> str:
    """The address of the site: `Documentation` of pyproject.toml. Empty if this build names none."""
    from importlib import metadata

    try:
        urls = metadata.metadata("truemem").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:  # run from a copy of the source
        return ""
    return next((url for name, _, url in (each.partition(", ") for each in urls) if name == "Documentation"), "")


def site(path: str, anchor: str = "") -> str:
    """The address of this version's page on the site, by its path in the repository. Empty if there is no site."""
    base = home()
    page = f"{path.removesuffix('README.md')}index.html" if path.endswith("README.md") else f"{path[:-3]}.html"
    return f"{base.rstrip('/')}/{VERSION}/{page}{f'#{anchor}' if anchor else ''}" if base else ""
