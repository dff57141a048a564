"""`truemem probe`: ask Lambda itself what it permits, with functions that are removed again."""

from __future__ import annotations

import json

import click

from ..aws.layer_zips import ARCHITECTURES, layer_zip
from ..support.bad_input import BadInput
from ..support.extras import need
from ..support.terminal import tell
from ..support.untrusted_text import visible

EPILOG = """
\b
Examples:
  truemem probe > answers.json
  truemem probe --architecture arm64 --memory 1769
\b
Exit codes:
  0  asked, and everything is removed
  1  asked, but something could not be removed: stderr names it
  2  bad input or no access
"""


@click.command(epilog=EPILOG)
@click.option(
    "--architecture", "chosen", multiple=True, type=click.Choice(ARCHITECTURES), help="Repeatable [default: both]."
)
@click.option(
    "--memory", default=512, show_default=True, type=click.IntRange(256, 10_240), help="Memory of each function, MB."
)
def probe(chosen: tuple[str, ...], memory: int) -> int:
    """Ask AWS Lambda what its environments permit and count. It takes two minutes.

    Makes functions, layers, a role and a log group, all named truemem-probe-..., asks the functions, and removes
    everything again, also after Ctrl-C. Prints one JSON document, with an outcome for each question. No account, ARN,
    function name, request or log stream is in it, so that it can be shared.
    """
    try:
        need("aws")
        from .deployment import Deployment
        from .run import ask

        architectures = [each for each in ARCHITECTURES if each in chosen or not chosen]
        with Deployment([layer_zip(each) for each in architectures], memory, _say) as deployment:
            document = ask(deployment, architectures, memory, _say)
    except BadInput as error:
        tell("truemem probe", error)
        return 2
    click.echo(json.dumps(document, indent=1))
    return 1 if deployment.left else 0


def _say(text: str) -> None:
    click.echo(f"truemem probe: {visible(text)}", err=True)
