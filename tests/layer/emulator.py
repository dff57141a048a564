"""qemu-user for arm64, from Debian's package where the machine has none: unpacked, not installed; no root."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from layer.__main__ import default_cache

PACKAGE = "qemu-user-static"
BINARY = "qemu-aarch64-static"


class MissingEmulator(Exception):
    """There is none, and none can be had."""


def qemu_aarch64() -> Path:
    """A copy that everybody may execute. Raises MissingEmulator."""
    installed = shutil.which(BINARY) or shutil.which("qemu-aarch64")
    if installed is not None:
        return Path(installed)
    kept = Path("/var/tmp/truemem-qemu") / BINARY
    if not kept.exists():
        folder = default_cache() / "qemu"
        folder.mkdir(parents=True, exist_ok=True)
        for command in (["apt-get", "download", PACKAGE], ["sh", "-c", f"dpkg -x {PACKAGE}_*.deb unpacked"]):
            try:
                done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            except OSError as error:
                raise MissingEmulator(f"{BINARY}: {error}") from None
            if done.returncode:
                raise MissingEmulator(f"{BINARY}: {' '.join(command)}: {done.stderr.strip()}")
        kept.parent.mkdir(exist_ok=True)
        shutil.copy(folder / "unpacked" / "usr" / "bin" / BINARY, kept)
        shutil.rmtree(folder)
    return kept
