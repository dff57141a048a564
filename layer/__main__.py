"""`make layer`: dist/truemem-layer-x86_64.zip and dist/truemem-layer-arm64.zip.

Exit codes: 0 built, 1 it could not be: one line says why.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import click

from . import archive, compiled, cpython, executable, wings
from .emulator import emulator
from .errors import BuildError
from .pins import ARCHITECTURES
from .toolchain import Toolchain


def default_cache() -> Path:
    """The folder of $TRUEMEM_CACHE, else that of the XDG base directory specification."""
    chosen = os.environ.get("TRUEMEM_CACHE")
    return Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "truemem"


EXECUTABLES = ("extensions/truemem", "truemem/exact")
"""Sidecar and wrapper, below /opt. Lambda starts every file in `extensions`, so the wrapper has a folder of its own."""


def notices(build: cpython.Build, toolchain: Toolchain) -> dict[str, str]:
    """Licences by file name: truemem's own, and those of what is linked into its executables."""
    ours = (Path(__file__).parents[1] / "LICENSE").read_text()
    texts = {"truemem-LICENSE.txt": ours, "CPython-LICENSE.txt": build.licence.read_text()}
    return {**texts, **compiled.notices(), **toolchain.notices()}


@click.command(help=__doc__)
@click.option("--output", type=click.Path(path_type=Path), default=Path("dist"), show_default=True)
@click.option("--cache", type=click.Path(path_type=Path), default=default_cache, help="Default: ~/.cache/truemem")
@click.option(
    "--source", type=click.Path(path_type=Path), help="CPython's release tarball, if it cannot be downloaded."
)
@click.option("--without", "unwanted", default="", metavar="WING,...", help="Leave out: batch, heaps, journal, ...")
def main(output: Path, cache: Path, source: Path | None, unwanted: str) -> None:
    """Build the layer's zips into `output`. Exits 1 with one line that says why."""
    began = time.monotonic()

    def say(what: str) -> None:
        click.echo(f"[{time.monotonic() - began:4.0f} s] {what}", err=True)

    work = Path(tempfile.mkdtemp())
    sidecar_source = executable.SIDECAR_FOLDER
    try:
        cache = cache.resolve()
        cache.mkdir(parents=True, exist_ok=True)
        toolchain = Toolchain(cache, say)
        build = cpython.build(cache, toolchain, say, source)
        if unwanted:
            sidecar_source = wings.without(executable.SIDECAR_FOLDER, unwanted.split(","), work)
        libraries = {}
        for machine in ARCHITECTURES.values():
            say(f"compiling the sidecar for {machine}")
            libraries[machine] = compiled.library(cache, build, toolchain, machine, sidecar_source)
        say("making the image for each architecture")
        sidecar, wrapper = (
            {machine: output / name / path for name, machine in ARCHITECTURES.items()} for path in EXECUTABLES
        )
        run_elsewhere = partial(emulator, cache=cache, say=say)
        executable.link(build, toolchain, sidecar_source, libraries, sidecar, run_elsewhere)
        executable.compile_wrapper(toolchain, wrapper)
        samplers = {machine: output / f"malloc_sampler-{name}.so" for name, machine in ARCHITECTURES.items()}
        executable.compile_sampler(toolchain, samplers)
        for name in ARCHITECTURES:
            layer, files = output / f"truemem-layer-{name}.zip", {path: output / name / path for path in EXECUTABLES}
            archive.write(layer, files, notices(build, toolchain))
            sizes = ", ".join(f"{path} {file.stat().st_size:,}" for path, file in files.items())
            digest = hashlib.sha256(layer.read_bytes()).hexdigest()
            click.echo(f"{layer}  {layer.stat().st_size:,} bytes ({sizes} unpacked)  sha256 {digest}")
    except (BuildError, OSError) as error:
        click.echo(f"layer not built: {error}", err=True)
        sys.exit(1)
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
