"""The wheel on bare machines: for each Python, by pip and by pipx, with the packages that these install."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.install.conftest import Installed
from tests.report.written import life, log

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]  # pip installs 184 MB

VERSIONS = ("3.11", "3.12", "3.13", "3.14")


def interpreter(version: str) -> str:
    """A Python of this version that starts; else the test is skipped."""
    name = f"python{version}"
    places = [shutil.which(name) or name, *map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/{name}"))]
    for place in places:
        tried = [place, "-c", "import ensurepip"]
        if shutil.which(place) and subprocess.run(tried, capture_output=True, check=False).returncode == 0:
            return place
    pytest.skip(f"no {name} with ensurepip here")


def environment(version: str, folder: Path) -> Installed:
    """A virtual environment with nothing but pip."""
    subprocess.run([interpreter(version), "-m", "venv", folder], check=True)
    return Installed(folder)


def works(truemem: Installed, folder: Path) -> None:
    """The command starts, brings the layer, reads a log, runs a function, and gets as far as AWS's address."""
    folder.mkdir()
    log(folder, life())
    (folder / "app.py").write_text("def handler(event, context): return event")
    assert truemem("truemem", "--version", cwd=folder).stdout.startswith("truemem ")
    assert truemem("truemem", "layer-files", "opt", cwd=folder).stdout.startswith("COPY opt/ /opt/\n")
    assert os.access(folder / "opt" / "extensions" / "truemem", os.X_OK)
    assert "200 lines of the sidecar" in truemem("truemem", "doctor", "log.txt", cwd=folder).stdout
    for typed in (("report", "log.txt"), ("page", "log.txt"), ("explain", "app.py:handler", "--output", "growth.html")):
        done = truemem("truemem", *typed, cwd=folder)
        assert done.returncode == 0, done.stderr
    nowhere = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}
    done = truemem("truemem", "publish", "--regions", "eu-west-1", cwd=folder, **nowhere)
    assert done.returncode == 2
    assert 'Could not connect to the endpoint URL: "http://127.0.0.1:1/' in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("version", VERSIONS)
def test_pip_installs_it_on_a_bare_machine(wheel: Path, tmp_path: Path, version: str) -> None:
    bare = environment(version, tmp_path / "venv")
    done = bare("pip", "install", "--quiet", wheel, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    works(bare, tmp_path / "elsewhere")


def test_pipx_installs_it(wheel: Path, tmp_path: Path) -> None:
    tools = environment("3.11", tmp_path / "venv")
    got = tools("pip", "install", "--quiet", "pipx", cwd=tmp_path)
    if got.returncode:
        pytest.skip(f"no pipx: {got.stderr.splitlines()[-1]}")
    places = {"PIPX_HOME": str(tmp_path / "pipx"), "PIPX_BIN_DIR": str(tmp_path / "home" / "bin")}
    done = tools("pipx", "install", wheel, cwd=tmp_path, **places)
    assert done.returncode == 0, done.stderr
    works(Installed(tmp_path / "home"), tmp_path / "elsewhere")


@pytest.mark.parametrize("runner", [("pipx", "run", "--spec"), ("uvx", "--from")])
def test_it_runs_without_an_installation(wheel: Path, tmp_path: Path, runner: tuple[str, ...]) -> None:
    tools = environment("3.11", tmp_path / "venv")
    tools("pip", "install", "--quiet", "uv" if runner[0] == "uvx" else "pipx", cwd=tmp_path)
    places = {"PIPX_HOME": str(tmp_path / "pipx"), "UV_CACHE_DIR": str(tmp_path / "uv")}
    log(tmp_path, life())
    done = tools(*runner, wheel, "truemem", "report", "log.txt", cwd=tmp_path, **places)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1 function, 200 invocations")
