"""`truemem layer-files`: the layer's content in a folder, for container images, which take no layers."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import click

from ..aws.layer_zips import ARCHITECTURES, layer_zip
from ..support.bad_input import BadInput
from ..support.terminal import notify

COMMAND_NAME = "truemem layer-files"
DEFAULT = "x86_64"
"""Lambda's own default, for a function that names no architecture."""
FOLDER_MODE = 0o755
"""Lambda runs images as an ordinary user, who must be able to read the folders, whatever the umask here is."""
EPILOG = """
\b
Examples:
  truemem layer-files truemem-layer
  truemem layer-files --architecture arm64 truemem-layer
\b
Exit codes:
  0  written
  2  bad input, or no layer in this installation
"""


@click.command(epilog=EPILOG)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--architecture", type=click.Choice(ARCHITECTURES), default=DEFAULT, show_default=True, help="Of the image."
)
def layer_files(folder: Path, architecture: str) -> int:
    """Write the layer's files into DIR, for a container image, and print two lines for its Dockerfile. The second line
    turns exact mode on: leave it out for the default mode.

    DIR is made if it is not there. It may have files of an earlier truemem layer-files, but no others. It should be
    below the present folder, if that is the build context.
    """
    layer = layer_zip(architecture)
    others = foreign(layer.path, folder)
    if others:
        raise BadInput(f"{folder} has other files, such as {others[0]}. Try an empty folder")
    unpack(layer.path, folder)
    place = os.path.relpath(folder)
    click.echo(f"COPY {place}/ /opt/")
    click.echo("ENV AWS_LAMBDA_EXEC_WRAPPER=/opt/truemem/exact")
    other = next(each for each in ARCHITECTURES if each != architecture)
    notify(COMMAND_NAME, f"wrote the files for {architecture}. For an {other} image: --architecture {other}")
    if place.startswith(os.pardir):
        notify(COMMAND_NAME, "COPY reads nothing outside of the build context. Try a DIR below this folder")
    return 0


def unpack(archive: Path, target: Path) -> None:
    """Unzip with file modes, which `zipfile` leaves out. An extension that is not executable breaks every function."""
    target = target.resolve()
    with zipfile.ZipFile(archive) as layer:
        for entry in layer.infolist():
            path = Path(layer.extract(entry, target))
            path.chmod(entry.external_attr >> 16)
            for folder in path.relative_to(target).parents[:-1]:
                (target / folder).chmod(FOLDER_MODE)


def foreign(archive: Path, folder: Path) -> list[Path]:
    """The files and links below the folder that are not the archive's. Raises BadInput if it is no folder."""
    if not folder.exists() and not folder.is_symlink():
        return []
    if not folder.is_dir():
        raise BadInput(f"{folder} is no folder. Try another name")
    with zipfile.ZipFile(archive) as layer:
        ours = {folder / name for name in layer.namelist()}
    return sorted(path for path in folder.rglob("*") if path.is_symlink() or (not path.is_dir() and path not in ours))
