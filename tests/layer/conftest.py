"""The layer that `make layer` makes, as a user gets it: unzipped."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from truemem_workbench.commands.layer_files import unpack
from truemem_workbench.local.processes.tmp import elsewhere

from layer import emulator as emulators
from layer.__main__ import default_cache
from layer.pins import ARCHITECTURES
from layer.toolchain import Toolchain
from tests.layer.built import ROOT, Layer


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from this source: from the cache in seconds."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "layer", "--output", folder], cwd=ROOT, check=True)
    return folder


@pytest.fixture(scope="session")
def layers(dist: Path) -> Iterator[dict[str, Layer]]:
    """By architecture; where everybody may read them, as the local Lambda's ordinary user must. Not in /tmp, because a
    test's script names it, which the local Lambda does not see."""
    with tempfile.TemporaryDirectory(dir=elsewhere()) as name:
        Path(name).chmod(0o755)
        made = {}
        for architecture in ARCHITECTURES:
            layer = Layer(dist / f"truemem-layer-{architecture}.zip", Path(name) / architecture)
            unpack(layer.archive, layer.folder)
            made[architecture] = layer
        yield made


@pytest.fixture(scope="session")
def native(layers: dict[str, Layer]) -> Layer:
    return layers["x86_64"]


@pytest.fixture(scope="session")
def foreign(layers: dict[str, Layer]) -> Layer:
    return layers["arm64"]


@pytest.fixture(scope="session")
def emulator(dist: Path) -> Iterator[Path]:
    """qemu for arm64, which the build has brought; where everybody may execute it."""
    assert dist
    with tempfile.TemporaryDirectory(dir=elsewhere()) as name:
        Path(name).chmod(0o755)
        yield Path(shutil.copy(emulators.emulator("aarch64", default_cache(), print), name))


@pytest.fixture(scope="session")
def static_runtime() -> Iterator[Path]:
    """The runtime of `ready_at_once.c`, which needs no file beside itself; where everybody may execute it."""
    toolchain = Toolchain(default_cache(), print)
    with tempfile.TemporaryDirectory(dir=elsewhere()) as name:
        Path(name).chmod(0o755)
        bootstrap = Path(name) / "bootstrap"
        source = Path(__file__).with_name("ready_at_once.c")
        compiler = [toolchain.compiler("x86_64"), "-static", "-D_GNU_SOURCE", "-O2"]
        subprocess.run([*compiler, source, "-o", bootstrap], env=toolchain.environment(), check=True)
        yield bootstrap
