"""Gets Chromium from Debian's packages if the machine has none: it unpacks them without installing, so it needs no
root.

`python -m truemem_workbench.testing.chromium` prints its path.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from .installs import CACHE, Missing, begin, finish, ready, run

FOLDER = CACHE / "chromium"
PACKAGE = "chromium"


def chromium() -> tuple[Path, Mapping[str, str]]:
    """The program, and the environment that it needs. Raises Missing."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return Path(found), {}
    if not ready(FOLDER, PACKAGE):
        _unpack()
    libraries = {str(path.parent) for path in FOLDER.glob("unpacked/**/*.so*")}
    program = FOLDER / "unpacked" / "usr" / "lib" / "chromium" / "chromium"
    return program, {"LD_LIBRARY_PATH": ":".join(sorted(libraries))}


def _unpack() -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise Missing("there is no Chromium on the path, and no apt-get")
    begin(FOLDER)
    planned = run(["apt-get", "--simulate", "--no-install-recommends", "install", PACKAGE])
    names: list[str] = re.findall(r"^Inst (\S+)", planned, re.MULTILINE)
    archives = FOLDER / "archives"
    archives.mkdir()
    run(["sh", "-c", 'cd "$1" && shift && apt-get -qq download "$@"', "sh", str(archives), *names])
    for archive in sorted(archives.iterdir()):
        run(["dpkg", "--extract", str(archive), str(FOLDER / "unpacked")])
    shutil.rmtree(archives)
    finish(FOLDER, PACKAGE)


if __name__ == "__main__":
    print(*chromium())
