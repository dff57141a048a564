"""Pure: layer versions as a table, as JSON, and as a mapping for a CloudFormation template."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .rollout import Version
from .sharing import Share

if TYPE_CHECKING:
    from rich.table import Table

KEYS = {"x86_64": "x86", "arm64": "arm64"}
"""Architectures as keys of a mapping: CloudFormation takes letters and digits."""


def table(versions: Sequence[Version], share: Share | None) -> Table:
    """One row for each region and architecture. ARNs and problems name both."""
    from ..support import tables

    made = tables.table("", ("outcome",), (), ("layer version",))
    for version in versions:
        outcome = version.outcome
        if version.shared and share is not None:
            outcome += f", {_access(share)}"
        made.add_row(outcome, ": ".join(text for text in (version.arn, version.problem) if text))
    return made


def document(version: Version, share: Share | None) -> dict[str, Any]:
    """One row as an object. Members without a value are left out."""
    members = {
        "region": version.region,
        "architecture": version.layer.architecture,
        "outcome": version.outcome,
        "arn": version.arn,
        "sha256": version.layer.sha256,
        "access": _access(share) if version.shared and share is not None else None,
        "problem": version.problem,
    }
    return {name: value for name, value in members.items() if value is not None}


def mapping(versions: Sequence[Version]) -> Iterator[str]:
    """Lines of YAML: ARN by region and architecture, for Fn::FindInMap."""
    yield "# In a function: Layers: [!FindInMap [Truemem, !Ref 'AWS::Region', x86]]"
    yield "Mappings:"
    yield "  Truemem:"
    region = ""
    for version in versions:
        if version.arn is None:
            continue
        if version.region != region:
            region = version.region
            yield f"    {region}:"
        yield f"      {KEYS[version.layer.architecture]}: {version.arn}"


def _access(share: Share) -> str:
    return "public" if share.organization is None else share.organization
