"""Deploy the probe, ask it, remove it, and write what it found into docs/verified.md.

It needs an AWS account (credentials and region as for the AWS CLI) and `make layer`. It makes a bucket and a stack of
its own, both named truemem-probe-..., and removes them at the end. Exit codes: 0 written, 1 not: one line says why.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import boto3
import click
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from . import page, questions, stack
from .variants import VARIANTS

ROOT = Path(__file__).parents[1]

EXPECTED = (stack.StackError, questions.ProbeFailed, BotoCoreError, ClientError, OSError, ValueError, KeyError)
"""Errors that an account, a machine or a wrong option can cause."""


@click.command(help=__doc__)
@click.option("--variant", "names", multiple=True, type=click.Choice(list(VARIANTS)), help="Default: both zips.")
@click.option("--image", "images", multiple=True, metavar="VARIANT=URI", help="In ECR; made by deploy/Dockerfile.")
@click.option("--memory", default=512, show_default=True, help="Memory size, MB.")
@click.option("--dist", type=click.Path(path_type=Path), default=ROOT / "dist", help="Where make layer puts its zips.")
@click.option("--page", "target", type=click.Path(path_type=Path), default=ROOT / "docs" / "verified.md")
@click.option("--from", "given", type=click.Path(path_type=Path), help="Raw answers of an earlier run: no account.")
def main(
    names: tuple[str, ...], images: tuple[str, ...], memory: int, dist: Path, target: Path, given: Path | None
) -> None:
    """See the module."""
    try:
        uris = _images(images)
        if given is not None:
            found = json.loads(given.read_text())
        else:
            chosen = list(names) or ["zip-x86_64", "zip-arm64"]
            found = _ask([*chosen, *(name for name in uris if name not in chosen)], uris, memory, dist)
            raw = target.with_suffix(".json")
            raw.write_text(json.dumps(found, indent=1) + "\n")
            click.echo(f"{raw}: the raw answers")
        text = page.table(found["results"], found["day"], found["region"])
        target.write_text(page.placed(target.read_text(), text))
    except EXPECTED as error:
        click.echo(f"nothing verified: {error}", err=True)
        sys.exit(1)
    click.echo(f"{target}: the table")


def _images(given: tuple[str, ...]) -> dict[str, str]:
    """Parse --image to URIs by variant. Raises ValueError."""
    uris: dict[str, str] = {}
    for each in given:
        name, _, uri = each.partition("=")
        uris[name] = uri
        if name not in VARIANTS or not VARIANTS[name].image_parameter or not uri:
            raise ValueError(f"--image {name}={uri}: try image-x86_64=URI or image-arm64=URI")
    return uris


def _ask(names: list[str], uris: dict[str, str], memory: int, dist: Path) -> dict[str, object]:
    """Deploy the probe and return the raw answers of all variants."""
    for name in names:
        if VARIANTS[name].image_parameter and name not in uris:
            raise ValueError(f"--variant {name} needs its image: --image {name}=URI")
    session = boto3.session.Session()
    if session.region_name is None:
        raise ValueError("no AWS region. Set AWS_DEFAULT_REGION, or run aws configure")
    # The slowest question takes a minute; asked twice, it would be two invocations.
    client = session.client("lambda", config=Config(read_timeout=150, retries={"total_max_attempts": 1}))
    with stack.deployed(
        session.client("s3"),
        session.client("cloudformation"),
        [VARIANTS[name] for name in names],
        dist=dist,
        images=uris,
        memory_mib=memory,
        say=lambda what: click.echo(what, err=True),
    ) as functions:
        results = {name: questions.ask(client, function, click.echo) for name, function in functions.items()}
    return {"day": datetime.now(UTC).date().isoformat(), "region": session.region_name, "results": results}


if __name__ == "__main__":
    main()
