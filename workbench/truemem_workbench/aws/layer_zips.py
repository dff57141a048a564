"""The layer's zips: those that the wheel brings, or those that `make layer` has built in this checkout."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import NamedTuple

from ..support.bad_input import BadInput

ARCHITECTURES = ("x86_64", "arm64")
WHEEL = Path(__file__).parents[1] / "layers"
CHECKOUT = Path(__file__).parents[3] / "dist"
LAYER_PREFIX = "truemem-"
"""How the names of our layers begin; the architecture follows."""

_OURS = re.compile(
    rf"arn:aws[\w-]*:lambda:[\w-]+:\w+:layer:{LAYER_PREFIX}({'|'.join(ARCHITECTURES)}):(\d+|NEW)", re.ASCII
)


class LayerZip(NamedTuple):
    architecture: str
    path: Path
    sha256: str
    """SHA-256 of the zip's bytes, in hex. A layer with the same bytes need not be published again."""

    @property
    def name(self) -> str:
        return LAYER_PREFIX + self.architecture


def layer_zip(architecture: str) -> LayerZip:
    """The zip for this architecture. Raises BadInput if this installation has none."""
    for folder in (WHEEL, CHECKOUT):
        path = folder / f"truemem-layer-{architecture}.zip"
        if path.is_file():
            return LayerZip(architecture, path, hashlib.sha256(path.read_bytes()).hexdigest())
    raise BadInput(f"there is no layer for {architecture} here. Try make layer in the checkout, or install the wheel")


def is_ours(arn: str) -> bool:
    """True for the ARN of a layer version of truemem, of any account. Its number may be NEW: not published yet."""
    return _OURS.fullmatch(arn) is not None
