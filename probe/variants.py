"""What is asked: each variant is a function of template.yaml."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Variant:
    """One way to package the probe."""

    name: str
    function: str
    """Its logical id."""
    layer: str | None
    """The layer's logical id; an image has the sidecar within."""
    image_parameter: str | None
    """The parameter that its image's URI goes to."""


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
"""What `make layer` makes."""
