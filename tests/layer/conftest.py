"""The layer that `make layer` makes, as a user gets it: unzipped."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from layer.pins import ARCHITECTURES
from tests.layer.built import ROOT, Layer


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from this source: from the cache in seconds."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "layer", "--output", folder], cwd=ROOT, check=True)
    return folder


@pytest.fixture(scope="session")
def layers(dist: Path) -> Iterator[dict[str, Layer]]:
    """By architecture; where everybody may read them, as the local Lambda's ordinary user must."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield {architecture: unzipped(dist, architecture, Path(name) / architecture) for architecture in ARCHITECTURES}


def unzipped(dist: Path, architecture: str, folder: Path) -> Layer:
    archive = dist / f"truemem-layer-{architecture}.zip"
    with zipfile.ZipFile(archive) as layer:
        for entry in layer.infolist():
            layer.extract(entry, folder)
            (folder / entry.filename).chmod(entry.external_attr >> 16)
    return Layer(archive, folder)


@pytest.fixture(scope="session")
def native(layers: dict[str, Layer]) -> Layer:
    return layers["x86_64"]


@pytest.fixture(scope="session")
def foreign(layers: dict[str, Layer]) -> Layer:
    return layers["arm64"]
