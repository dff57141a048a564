"""The JVMs of this machine, and what is compiled for them."""

import atexit
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from testing import installs
from testing.installs import Missing

VERSIONS = ("17", *(pytest.param(each, marks=pytest.mark.nightly) for each in ("21", "25")))
"""Those that AWS has managed runtimes for: the parameters of a fixture."""


@functools.cache
def java(version: str) -> str:
    """The `java` of that version. Skips the test where there is none."""
    try:
        return str(installs.java(version))
    except Missing as reason:
        pytest.skip(str(reason))


def install(version: str) -> None:
    """Download that version, if there is a package of it: for nightly tests. Skips the test if that is not possible."""
    try:
        installs.java(version, download=True)
    except Missing as reason:
        pytest.skip(str(reason))


@functools.cache
def classes(*sources: Path, path: Path | None = None) -> Path:
    """The folder with the classes of these source files, which may use those of the folder `path`. Skips the test where
    there is no JDK."""
    if shutil.which("javac") is None:
        pytest.skip("there is no JDK: no javac on the path")
    folder = Path(tempfile.mkdtemp(prefix="truemem-java-", dir="/tmp"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    folder.chmod(0o755)
    subprocess.run(["javac", "--release", "17", "-d", folder, *(("-cp", path) if path else ()), *sources], check=True)
    return folder
