"""AWS's runtime client for Node.js, as `make layer` compiles it."""

import filecmp
import functools
import http.server
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
from elftools.elf.sections import SymbolTableSection

from layer import node_client
from layer.errors import BuildError
from layer.pins import ARCHITECTURES, GLIBC
from tests.layer.built import ROOT


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """From the cache, or in half a minute."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "layer.node_client", "--output", folder], cwd=ROOT, check=True)
    return folder / node_client.NAME


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_it_needs_node_api_and_an_old_glibc_alone(built: Path, architecture: str) -> None:
    with (built / architecture / node_client.PLACE / "rapid-client.node").open("rb") as file:
        sections = {section.name: section for section in ELFFile(file).iter_sections()}
        dynamic, symbols, versions = (sections[name] for name in (".dynamic", ".dynsym", ".gnu.version_r"))
        assert isinstance(dynamic, DynamicSection)
        assert isinstance(symbols, SymbolTableSection)
        assert isinstance(versions, GNUVerNeedSection)
        libraries = {tag.needed for tag in dynamic.iter_tags("DT_NEEDED")}  # type: ignore[attr-defined]
        asked = [symbol.name for symbol in symbols.iter_symbols() if symbol["st_shndx"] == "SHN_UNDEF"]
        of_glibc = [each.name.removeprefix("GLIBC_") for _, needed in versions.iter_versions() for each in needed]
    assert {re.split(r"[-.]", name)[0] for name in libraries} <= {"libc", "libpthread", "ld"}
    assert "napi_create_promise" in asked
    assert not [name for name in asked if name.startswith(("_Z", "uv_", "node_"))]
    assert max(tuple(map(int, each.split("."))) for each in of_glibc) <= tuple(map(int, GLIBC.split(".")))


def test_what_npm_has_must_be_what_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "node-api-headers"
    package = tmp_path / name / "-" / f"{name}-{node_client.locked(name)['version']}.tgz"
    package.parent.mkdir(parents=True)
    package.write_bytes(b"another")
    serve = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setattr(node_client, "registry", lambda: f"http://127.0.0.1:{server.server_address[1]}")
        with pytest.raises(BuildError, match=r"\.tgz is sha512-.*, and package-lock.json has sha512-2oNILP4"):
            node_client.downloaded(name)
        with pytest.raises(BuildError, match=r"cannot be downloaded: 404 .* A mirror of npm: NPM_CONFIG_REGISTRY=URL"):
            node_client.downloaded("aws-lambda-ric")
        server.shutdown()


def test_version_3_is_beside_it_and_has_its_addon(built: Path) -> None:
    """It starts itself, as Lambda's own does."""
    scripts = [built / architecture / node_client.PLACE / "index-3.mjs" for architecture in ARCHITECTURES]
    for script in scripts:
        assert '__require("./rapid-client.node")' in script.read_text()
        assert script.read_text().endswith(node_client.START.read_text())


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_a_second_build_in_another_place_gives_the_same_bits(built: Path, tmp_path: Path) -> None:
    command: list[str | Path] = [sys.executable, "-m", "layer.node_client", "--cache", tmp_path / "cache"]
    subprocess.run([*command, "--output", tmp_path], cwd=ROOT, check=True)
    names = [str(path.relative_to(built)) for path in built.rglob("*") if path.is_file()]
    same, _, _ = filecmp.cmpfiles(built, tmp_path / node_client.NAME, names, shallow=False)
    assert sorted(same) == sorted(names)
    assert len(names) > 10
