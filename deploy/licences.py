"""Writes the licences of docs/platform-team.md, from the bills of materials that `make release` has left.

Exit codes: 0 written, 1 not: one line says why.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

BEGIN, END = "<!-- licences: made by python -m deploy.licences -->", "<!-- /licences -->"
FAMILIES = {
    "Apache-2.0": r"apache\b.*",
    "BSD": r"bsd\b.*",
    "MIT": r"mit( license)?",
    "PSF-2.0": r"psf-2\.0|python software.*",
}
"""Licences by the names that packages give them. What none of these matches is listed as it is stated."""


def licence_table(bills: Iterable[str]) -> str:
    """A Markdown table of the components of these documents (CycloneDX), each once. Raises KeyError or ValueError if
    one is no bill."""
    components: dict[str, dict[str, Any]] = {}
    for bill in bills:
        document = json.loads(bill)
        for each in (document["metadata"]["component"], *document["components"]):
            components[each["bom-ref"]] = each
    linked: dict[str, set[str]] = {family: set() for family in FAMILIES}
    packages: dict[str, int] = dict.fromkeys(FAMILIES, 0)
    others = []
    for name, each in sorted(components.items()):
        stated = " and ".join(map(_text, each["licenses"]))
        family = _family(stated)
        if family is None:
            others.append(f"{each['name']} ({stated})")
        elif name.startswith("pypi:"):
            packages[family] += 1
        else:
            linked[family].add("truemem" if each["name"].startswith("truemem") else f"{each['name']} {each['version']}")
    rows = [f"| {family} | {', '.join(sorted(linked[family]))} | {packages[family]} |" for family in FAMILIES]
    head = [
        "| licence | linked into the layer, copied into the wheel | packages that pip brings with the wheel |",
        "| --- | --- | --: |",
    ]
    return "\n".join(
        [*head, *rows, "", f"Others, as they state it: {', '.join(others)}."] if others else [*head, *rows]
    )


def _family(stated: str) -> str | None:
    if re.search(r"\b(and|or)\b", stated, re.IGNORECASE):
        return None
    return next((family for family, text in FAMILIES.items() if re.fullmatch(text, stated, re.IGNORECASE)), None)


def _text(licence: dict[str, Any]) -> str:
    stated = licence.get("license", licence)
    return str(stated.get("id") or stated.get("name") or stated.get("expression"))


def with_licences(page: str, bills: Iterable[str]) -> str:
    """The page with its table. Raises ValueError if it has no place for it."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page has no {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n{licence_table(bills)}\n{END}{after}"


@click.command(help=__doc__)
@click.option("--bills", type=click.Path(path_type=Path), default=Path("dist/release"), show_default=True)
@click.option("--page", type=click.Path(path_type=Path), default=Path("docs/platform-team.md"), show_default=True)
def main(bills: Path, page: Path) -> None:
    """Write the table of licences into `page`, from the documents in `bills`. Exits 1 if there are none."""
    documents = [path.read_text(encoding="utf-8") for path in sorted(bills.glob("*.cdx.json"))]
    if not documents:
        click.echo(f"no bill of materials in {bills}. Try make release", err=True)
        sys.exit(1)
    page.write_text(with_licences(page.read_text(encoding="utf-8"), documents), encoding="utf-8")


if __name__ == "__main__":
    main()
