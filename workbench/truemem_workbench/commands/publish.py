"""`truemem publish`: the layer in the account's regions, where its content is not there yet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..aws.layer_zips import ARCHITECTURES, layer_zip
from ..aws.rollout import ALL_REGIONS, Share, Version, bring, look, regions, share
from ..support.bad_input import BadInput
from ..support.options import chosen, format_options
from ..support.terminal import notify, progress, table

if TYPE_CHECKING:
    from rich.table import Table

KEYS = {"x86_64": "x86", "arm64": "arm64"}
"""Architectures as keys of a mapping: CloudFormation takes letters and digits."""


def _table(versions: Sequence[Version], share: Share | None) -> Table:
    """One row for each region and architecture. ARNs and problems name both."""
    made = table("", ("outcome",), (), ("layer version",))
    for version in versions:
        outcome = version.outcome
        if version.shared and share is not None:
            outcome += f", {_access(share)}"
        made.add_row(outcome, ": ".join(text for text in (version.arn, version.problem) if text))
    return made


def _as_json(version: Version, share: Share | None) -> dict[str, Any]:
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


def _mapping(versions: Sequence[Version]) -> Iterator[str]:
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


COMMAND_NAME = "truemem publish"
EPILOG = """
\b
Examples:
  truemem publish
  truemem publish --regions eu-west-1,us-east-1 --json
  truemem publish --regions all --format cloudformation
  truemem publish --organization o-a1b2c3d4e5
\b
Exit codes:
  0  the layer is in all of the regions
  1  it is not in some of them: the table says why; or the answer was no
  2  bad input, or no access to any region
"""


@click.command(epilog=EPILOG)
@click.option("--regions", "asked", metavar="NAMES|all", help="Separated by commas [default: the caller's region].")
@click.option("--architecture", type=click.Choice(ARCHITECTURES), help="Only the layer of this one [default: both].")
@click.option("--organization", metavar="ID", help="Give access to every account of this organization.")
@click.option("--public", is_flag=True, help="Give access to every AWS account.")
@click.option("--yes", is_flag=True, help="Do not ask before access is given.")
@format_options("text", "json", "cloudformation")
def publish(
    asked: str | None,
    architecture: str | None,
    organization: str | None,
    public: bool,
    yes: bool,
    form: str | None,
    as_json: bool,
) -> int:
    """Publish the layer in each region that has no version with its content, and print the ARNs. JSON has an object for
    each region and architecture.

    `--regions all`: the regions that are enabled for the account and have a function.

    It needs lambda:ListLayerVersions, GetLayerVersion and PublishLayerVersion. For `--regions all` also
    ec2:DescribeRegions and lambda:ListFunctions; to give access also lambda:GetLayerVersionPolicy and
    lambda:AddLayerVersionPermission.
    """
    form = chosen(form, as_json)
    wanted = share(organization, public)
    layers = [layer_zip(each) for each in ARCHITECTURES if architecture in (None, each)]

    names = regions(asked)
    with progress("looking at regions", len(names)) as advance:
        versions = look(names, layers, wanted, advance, used=asked == ALL_REGIONS)
    if not versions:
        raise BadInput("no region of this account has a function. Try --regions eu-west-1")
    due = [version for version in versions if version.due(wanted)]
    if wanted is not None and due and not _agreed(wanted, due, yes):
        notify(COMMAND_NAME, "nothing was published, and no access was given")
        return 1
    with progress("publishing layers", len(due)) as advance:
        bring(due, wanted, advance)
    nowhere = all(version.arn is None for version in versions)
    if nowhere or form == "cloudformation":  # the mapping has no place for a problem
        for problem in dict.fromkeys(version.problem for version in versions if version.problem):
            notify(COMMAND_NAME, problem)
    if nowhere:
        return 2
    _show(versions, wanted, form)
    return int(any(version.problem for version in versions))


def _agreed(wanted: Share, versions: Sequence[Version], yes: bool) -> bool:
    """Show the policy on stderr, and ask. Raises BadInput if standard input has no answer."""
    click.echo(f"{wanted.whom} will be able to use these layer versions:", err=True)
    for version in versions:
        click.echo(f"  {version.arn or f'{version.region}: a new version of {version.layer.name}'}", err=True)
    click.echo("The policy of each gets this statement:", err=True)
    click.echo(json.dumps(wanted.statement, indent=2), err=True)
    if yes:
        return True
    try:
        return click.confirm("Publish, and give this access?", err=True)
    except click.Abort:
        raise BadInput("it cannot ask here. Try --yes") from None


def _show(versions: Sequence[Version], wanted: Share | None, form: str) -> None:
    if form == "json":
        for version in versions:
            click.echo(json.dumps(_as_json(version, wanted)))
    elif form == "cloudformation":
        for line in _mapping(versions):
            click.echo(line)
    else:
        from ..support.terminal import fitted, output

        console = output()
        console.print(fitted(_table(versions, wanted), console))
