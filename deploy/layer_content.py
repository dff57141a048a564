"""The content of one architecture's layer in a folder, as Lambda has it in /opt: `python -m deploy.layer_content`.

Exit codes: 0 written, 1 not: one line says why.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import click
from truemem_workbench.commands.layer_files import unpack

from layer.pins import ARCHITECTURES


@click.command(help=__doc__)
@click.argument("architecture", type=click.Choice(list(ARCHITECTURES)))
@click.argument("target", type=click.Path(path_type=Path, file_okay=False))
def main(architecture: str, target: Path) -> None:
    """Write the content of one architecture's layer into `target`. Exits 1 if the layer cannot be built."""
    with tempfile.TemporaryDirectory() as dist:
        # Both architectures are made by one run; its own folder, so that dist/ stays what `make layer` made.
        done = subprocess.run([sys.executable, "-m", "layer", "--output", dist], check=False)
        if done.returncode:
            sys.exit(1)  # it has said why
        unpack(Path(dist) / f"truemem-layer-{architecture}.zip", target)


if __name__ == "__main__":
    main()
