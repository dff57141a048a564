"""The planted program in Java, as a handler that a test can run."""

import atexit
import functools
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

SOURCES = Path(__file__).with_name("java")
MARK = re.compile(r"// (\w+)(, too)?$")


def _javac(folder: Path, *options: str) -> None:
    sources = [str(each) for each in folder.rglob("*.java")]
    subprocess.run(["javac", "-nowarn", "--release", "17", *options, *sources], check=True)


@functools.cache
def built() -> Path:
    """Its folder, with sources and classes, and a library in a jar. Skips the test where there is no JDK."""
    if shutil.which("javac") is None:
        pytest.skip("there is no JDK: no javac on the path")
    # the function runs as another user, and has a /tmp of its own
    folder = Path(tempfile.mkdtemp(prefix="truemem-planted-", dir="/var/tmp"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    shutil.copytree(SOURCES, folder, dirs_exist_ok=True)
    folder.chmod(0o755)
    (folder / "lib").mkdir()
    library = folder / "org"
    _javac(library, "-d", str(folder / "memo"))
    subprocess.run(["jar", "cf", folder / "lib" / "tiny.jar", "-C", folder / "memo", "."], check=True)
    shutil.rmtree(folder / "memo")
    shutil.rmtree(library)
    _javac(folder, "-cp", str(folder / "lib" / "tiny.jar"), "-d", str(folder))
    return folder


def handler() -> str:
    """What a user types to run it."""
    return f"{built()}:App::handle"


def marked(leak: str) -> set[tuple[str, int]]:
    """The lines that end with the name of this leak: those that keep, or allocate what is kept."""
    return {
        (str(path), number)
        for path in built().rglob("*.java")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (found := MARK.search(line)) is not None and found[1] == leak
    }
