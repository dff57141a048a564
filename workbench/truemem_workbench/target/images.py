"""A function that is a container image, in an archive or a folder of this machine."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path

from ..local import Function
from ..local.configuration.layer import SIDECAR
from ..local.images.image import Image, load
from ..support import web_adapter
from ..support.bad_input import BadInput, need_linux
from ..support.terminal import Progress
from .target import Target, name_from

FOLDER = "oci:"
FILES = ("docker-archive:", "oci-archive:")
"""Begins of names, as skopeo and buildah have them."""
ARCHIVES = re.compile(r"(.+?\.(?:tar|tar\.gz|tgz|tar\.zst))(?::(.+))?")
REGISTRY = re.compile(r"(?:docker://)?[a-z0-9][\w.:/-]*(?::[\w.-]+|@sha256:[0-9a-f]{64})")
"""A name of an image in a registry or a daemon."""
STAND_IN = "a stand-in makes requests of events, in place of the image's own Lambda Web Adapter"


def found(spec: str) -> tuple[Path, str] | None:
    """The archive of an image, or the folder of an OCI layout, that the user names, and which image of several. None if
    it is no image. Raises BadInput for a name in a registry."""
    begin = next((each for each in (FOLDER, *FILES) if spec.startswith(each)), "")
    rest = spec.removeprefix(begin)
    if not begin and (archive := ARCHIVES.fullmatch(spec)) is not None:
        path, name = Path(archive[1]), archive[2] or ""
    elif begin:
        place, _, name = rest.partition(":")
        path = Path(place)
    elif REGISTRY.fullmatch(spec) and not _is_here(spec):
        name = spec.removeprefix("docker://")
        raise BadInput(
            f"no file {spec}, and images are not pulled. Try docker save -o image.tar {name}, then image.tar; or"
            " PATH/app.py:handler"
        )
    else:
        return None
    if begin == FOLDER and not path.is_dir():
        raise BadInput(f"no folder {path} with an OCI layout. Try buildah push IMAGE oci:{path}")
    if begin != FOLDER and not path.is_file():
        raise BadInput(f"no file {path}. Try docker save -o {path} NAME")
    return path, name


def _is_here(spec: str) -> bool:
    """Is it, or seems it to be, a file of this machine?"""
    return Path(spec.partition(":")[0]).exists() or bool(Path(spec.rpartition(":")[0]).suffix)


def loaded(spec: str, path: Path, name: str, progress: Progress) -> Image:
    """This image, unpacked. Raises BadInput."""
    need_linux("an image")
    return load(spec, path, name, lambda done, of: progress("unpacking (MiB)", done >> 20, of >> 20))


def target(spec: str, image: Image) -> Target:
    """The function of this image. Raises BadInput if it cannot be started."""
    port = web_port(image, {})
    return Target(
        spec=spec,
        name=name_of(spec),
        function=Function.from_image(image),
        extensions=beside(image),
        http=port,
        notices=(STAND_IN,) if port else (),
    )


def beside(image: Image, but: Collection[str] = (SIDECAR, web_adapter.NAME)) -> dict[str, Path]:
    """The extensions that lie in it, without those for which this machine's stand: our sidecar, as one in a layer, and
    the Lambda Web Adapter."""
    return {name: path for name, path in image.extensions.items() if name not in but}


def web_port(image: Image, variables: Mapping[str, str]) -> int | None:
    """Where its web server listens, beside these variables of the function. None without the Lambda Web Adapter."""
    if web_adapter.NAME not in image.extensions:
        return None
    return int(web_adapter.app_port({**image.variables, **variables}))


def name_of(spec: str) -> str:
    """A function's name, after the archive."""
    begin = next((each for each in (FOLDER, *FILES) if spec.startswith(each)), "")
    return name_from(Path(spec.removeprefix(begin).partition(":")[0]).name.partition(".")[0])
