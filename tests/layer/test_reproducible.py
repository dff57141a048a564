"""Two clean builds are the same, to the bit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from layer.__main__ import default_cache
from layer.pins import ARCHITECTURES, PYTHON
from tests.layer.built import ROOT


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_a_second_build_from_nothing_in_another_place_gives_the_same_zips(dist: Path, tmp_path: Path) -> None:
    """From nothing but the download: compiler unpacked anew, its cache empty, CPython configured and compiled."""
    tarball = default_cache() / f"Python-{PYTHON}.tar.xz"
    command: list[str | Path] = [sys.executable, "-m", "layer", "--source", tarball]
    subprocess.run([*command, "--cache", tmp_path / "cache", "--output", tmp_path / "dist"], cwd=ROOT, check=True)
    for architecture in ARCHITECTURES:
        name = f"truemem-layer-{architecture}.zip"
        assert (tmp_path / "dist" / name).read_bytes() == (dist / name).read_bytes()
