"""Measures the size of the layer."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass

from benchmarks.publish import ROOT
from layer.pins import ARCHITECTURES


@dataclass(frozen=True)
class Sizes:
    """One architecture's layer, in bytes."""

    architecture: str
    zip_bytes: int
    unpacked_bytes: int


def measure_sizes() -> list[Sizes]:
    """Of what `make layer` has made. Raises OSError."""
    rows = []
    for architecture in ARCHITECTURES:
        path = ROOT / "dist" / f"truemem-layer-{architecture}.zip"
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(entry.file_size for entry in archive.infolist())
        rows.append(Sizes(architecture, path.stat().st_size, unpacked))
    return rows
