"""An installation with small layers, and an account in moto's server behind a gate."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.aws import layer_zips

from layer import archive
from tests.publish.gate import Gate, gate_before
from tests.report.conftest import aws, aws_endpoint, truemem

__all__ = ["aws", "aws_endpoint", "truemem"]

Build = Callable[[str], None]


@pytest.fixture(autouse=True)
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    """Puts layers with this sidecar into the installation. One is there at the start."""
    (tmp_path / "wheel").mkdir()
    monkeypatch.setattr(layer_zips, "WHEEL", tmp_path / "wheel")

    def make(sidecar: str) -> None:
        for architecture in layer_zips.ARCHITECTURES:
            program = tmp_path / "program"
            program.write_text(f"#!/bin/sh\necho {sidecar} for {architecture}\n")
            files = {"extensions/truemem": program, "truemem/exact": program}
            zip_path = tmp_path / "wheel" / f"truemem-layer-{architecture}.zip"
            archive.write(zip_path, files, {"truemem-LICENSE.txt": "Apache-2.0"})

    make("the first sidecar")
    return make


@pytest.fixture
def gate(aws: Callable[[str], Any], aws_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """The command asks AWS through it. The region is us-east-1."""
    monkeypatch.delenv("AWS_REGION", raising=False)
    with gate_before(aws_endpoint) as made:
        monkeypatch.setenv("AWS_ENDPOINT_URL", made.address)
        yield made
