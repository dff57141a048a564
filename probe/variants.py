"""The variants of the probe: each is a function of template.yaml."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Variant:
    """One way to package the probe."""

    name: str
    function: str
    """Its logical id."""
    layer: str | None
    """Logical id of the layer. None for an image, which contains the sidecar."""
    image_parameter: str | None
    """Parameter for the image's URI."""


VARIANTS = {
    variant.name: variant
    for variant in (
        Variant("zip-x86_64", "ProbeX86", "TruememX86", None),
        Variant("zip-arm64", "ProbeArm", "TruememArm", None),
        Variant("image-x86_64", "ProbeImageX86", None, "ProbeImageX86Uri"),
        Variant("image-arm64", "ProbeImageArm", None, "ProbeImageArmUri"),
    )
}

ARCHIVES = {"TruememX86": "truemem-layer-x86_64.zip", "TruememArm": "truemem-layer-arm64.zip"}
"""Files that `make layer` makes."""
