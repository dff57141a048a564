"""`python -m research.probe`: ask Lambda itself what it permits, with functions that are removed again."""

from __future__ import annotations

import json
import re
import sys

import click
from truemem_workbench.aws.layer_zips import ARCHITECTURES, layer_zip
from truemem_workbench.support import exit_codes
from truemem_workbench.support.bad_input import BadInput
from truemem_workbench.support.untrusted_text import visible

from .deployment import PREFIX, REMOVE_S, Deployment, Run, remove
from .functions import of_the_user
from .run import ask

NAME = "python -m research.probe"

EPILOG = """
\b
Examples:
  python -m research.probe
  python -m research.probe --architecture arm64 --memory 1769
  python -m research.probe --remove truemem-probe-0123abcd
\b
Exit codes:
  0  done, and everything is removed
  1  done, but something could not be removed: stderr names it
  2  bad input or no access
"""


@click.command(epilog=EPILOG)
@click.option(
    "--architecture", "chosen", multiple=True, type=click.Choice(ARCHITECTURES), help="Repeatable [default: both]."
)
@click.option(
    "--memory", default=512, show_default=True, type=click.IntRange(256, 10_240), help="Memory of each function, MB."
)
@click.option("--image", metavar="URI", help="Also ask a function of this image, for the one --architecture.")
@click.option("--capacity-provider", "provider", metavar="ARN", help="Also ask one on its Managed Instances.")
@click.option("--gpu", metavar="GIB", type=int, help="With both: also ask one with a GPU of so much memory.")
@click.option("--remove", "run_name", metavar="NAME", help="Remove what the run NAME has left, and ask nothing.")
def probe(
    chosen: tuple[str, ...], memory: int, image: str | None, provider: str | None, gpu: int | None, run_name: str | None
) -> int:
    """Ask AWS Lambda what its environments permit and count. It takes some minutes.

    Makes functions, layers, a role and a log group, all named truemem-probe-..., asks the functions, and removes
    everything again, also after Ctrl-C. Prints one JSON document, with an outcome for each question. No account, ARN,
    function name, request or log stream is in it, so that it can be shared.

    CloudWatch keeps metrics of the run in the namespace truemem-probe: it cannot delete metrics.
    """
    if run_name is not None:
        return _remove(run_name)
    architectures = [each for each in ARCHITECTURES if each in chosen or not chosen]
    kinds = of_the_user(image, provider, gpu)
    if kinds and len(architectures) > 1:
        raise BadInput("an image and a capacity provider are of one architecture. Try --architecture x86_64")
    if gpu and not (image and provider):
        raise BadInput("--gpu needs an image, and Managed Instances. Try it with --image URI --capacity-provider ARN")
    more = {architectures[0]: kinds}
    with Deployment([layer_zip(each) for each in architectures], memory, _say, more) as deployment:
        document = ask(deployment, architectures, memory, _say)
    click.echo(json.dumps(document, indent=1))
    return 1 if deployment.left else 0


def _remove(name: str) -> int:
    """Remove everything of an earlier run. Raises BadInput if that is no name of a run."""
    if not re.fullmatch(rf"{PREFIX}[0-9a-f]{{8}}", name):
        raise BadInput(f"--remove {name}: it is no run of the probe. Try a name such as {PREFIX}0123abcd")
    left = remove(Run(name).everything(), REMOVE_S, _say)
    _say(f"of {name}, {len(left) or 'nothing'} {'things are' if len(left) > 1 else 'is'} left")
    return 1 if left else 0


def _say(text: str) -> None:
    click.echo(f"{NAME}: {visible(text)}", err=True)


if __name__ == "__main__":
    sys.exit(exit_codes.ended(probe, NAME))
