"""Writes a release's layers into docs/deploy.md: `truemem publish --json | python -m deploy.layer_arns docs TAG`.

Standard library only: the workflow runs it without an installation.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

BEGIN, END = "<!-- layers: made by python -m deploy.layer_arns -->\n", "<!-- end of layers -->"


def with_layers(page: str, tag: str, published: Iterable[str]) -> str:
    """Replace the table between the two comments. `published`: a JSON object for each region and architecture.

    Raises ValueError if the page has no place for it, or a layer has no ARN.
    """
    before, _, rest = page.partition(BEGIN)
    if END not in rest:
        raise ValueError(f"the page has no place for the layers: {BEGIN.strip()} ... {END}")
    regions: dict[str, dict[str, str]] = defaultdict(dict)
    for version in map(json.loads, published):
        if "arn" not in version:
            raise ValueError(f"{version['region']}: {version['architecture']} has no ARN: {version.get('problem')}")
        regions[version["region"]][version["architecture"]] = f"`{version['arn']}`"
    rows = [f"Layers of {tag}:", "", "| region | x86_64 | arm64 |", "|---|---|---|"]
    for region, arns in sorted(regions.items()):
        rows.append(f"| {region} | {arns.get('x86_64', '')} | {arns.get('arm64', '')} |")
    return before + BEGIN + "\n".join(rows) + "\n" + END + rest.partition(END)[2]


if __name__ == "__main__":
    path = Path(sys.argv[1]) / "deploy.md"
    path.write_text(with_layers(path.read_text(encoding="utf-8"), sys.argv[2], sys.stdin), encoding="utf-8")
