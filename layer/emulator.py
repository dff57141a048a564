"""qemu-user, which runs the program for another architecture while its image is made: the machine's own, else from
Debian's package, unpacked below the cache and not installed; no root."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from .errors import BuildError

PACKAGES = ("qemu-user-static", "qemu-user")
"""Debian 12 and Ubuntu; later releases of Debian."""


def emulator(machine: str, cache: Path, say: Callable[[str], None]) -> Path:
    """The program that runs executables for `machine` (`aarch64`). Raises BuildError."""
    names = (f"qemu-{machine}-static", f"qemu-{machine}")
    for name in names:
        if (installed := shutil.which(name)) is not None:
            return Path(installed)
    kept = cache / names[0]
    if not kept.exists():
        say(f"downloading {names[1]}, which makes the image for {machine} (once)")
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            shutil.move(_downloaded(Path(folder), names), kept)
    return kept


def _downloaded(folder: Path, names: tuple[str, ...]) -> Path:
    """From the archives that this machine's apt knows, with lists of its own: those of the machine may be missing."""
    (folder / "lists" / "partial").mkdir(parents=True)
    options = [f"-oDir::State::Lists={folder / 'lists'}", f"-oDir::Cache={folder}", "-oAPT::Sandbox::User="]
    why = _run(["apt-get", *options, "-qq", "update"], folder)
    for package in PACKAGES:
        why = _run(["apt-get", *options, "-qq", "download", package], folder)
        if why is None:
            why = _run(["sh", "-c", f"dpkg -x {package}_*.deb unpacked"], folder)
        for name in names:
            path = folder / "unpacked" / "usr" / "bin" / name
            if path.exists():
                return path
    raise BuildError(f"{names[1]} is not here, and cannot be downloaded ({why}): install the package {PACKAGES[0]}")


def _run(command: list[str], folder: Path) -> str | None:
    """Why it failed, or None."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except OSError as error:
        return f"{command[0]}: {error.strerror}"
    return None if done.returncode == 0 else (done.stderr.strip().splitlines() or [" ".join(command)])[-1]
