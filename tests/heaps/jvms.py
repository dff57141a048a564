"""The JVMs of this machine, and what is compiled for them."""

import atexit
import functools
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

PLACES = "/usr/lib/jvm"
VERSIONS = ("17", "21", "25")
"""Those that AWS has managed runtimes for."""


@functools.cache
def java(version: str) -> str:
    """The `java` of that version. Skips the test where there is none."""
    on_path = shutil.which("java")
    found = [*sorted(Path(PLACES).glob("*/bin/java")), *([Path(on_path)] if on_path else [])]
    for place in found:
        done = subprocess.run([place, "-version"], capture_output=True, text=True, check=False)
        if re.search(rf'version "{version}[.")]', done.stderr):
            return str(place.resolve())
    pytest.skip(f"there is no Java {version}, neither in {PLACES} nor on the path")


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
