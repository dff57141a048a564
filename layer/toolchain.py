"""The compiler: zig from PyPI, whose `cc` brings musl and cross-compiles. It needs no root and no container."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from .errors import BuildError
from .pins import SOURCE_DATE_EPOCH

LOCK = Path(__file__).with_name("toolchain.lock")

# Not zig's default: its undefined-behaviour traps make configure's probes abort, and CPython slow.
COMPILER_FLAGS = "-fno-sanitize=all"


class Toolchain:
    """zig as ordinary `cc`, `ar` and `ranlib`."""

    def __init__(self, cache: Path, say: Callable[[str], None]) -> None:
        """Install it below `cache` if it is not there. Raises BuildError."""
        key = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]
        self.zig = cache / f"zig-{key}" / "ziglang" / "zig"
        self._bin = cache / f"zig-{key}" / "wrappers"
        self._cache = cache / f"zig-{key}" / "cache"
        if not self.zig.exists():
            say("installing zig, the compiler (100 MB, once)")
            self._install(cache / f"zig-{key}")
        self._wrap()

    def environment(self) -> Mapping[str, str]:
        """Environment for the compiler's callers: the wrappers first on PATH, and nothing that depends on place or
        date."""
        return {
            **{name: os.environ[name] for name in ("HOME", "TMPDIR") if name in os.environ},
            "PATH": f"{self._bin}:{os.environ.get('PATH', os.defpath)}",
            "ZIG_GLOBAL_CACHE_DIR": f"{self._cache}",
            "ZIG_LOCAL_CACHE_DIR": f"{self._cache}",
            "SOURCE_DATE_EPOCH": SOURCE_DATE_EPOCH,
            "LC_ALL": "C",
            "TZ": "UTC",
        }

    def compiler(self, machine: str) -> str:
        """The command that compiles for `machine`, on the environment's PATH."""
        return f"{machine}-zcc"

    def compiler_for_glibc(self, machine: str) -> str:
        """The same for a library that programs with glibc load: of GLIBC, or newer."""
        return f"{machine}-zcc-glibc"

    @property
    def library(self) -> Path:
        """The source of the C and C++ libraries that it brings."""
        return self.zig.parent / "lib"

    def notices(self) -> dict[str, str]:
        """Licences of what zig links in, by file name."""
        return {
            "musl-COPYRIGHT.txt": (self.library / "libc" / "musl" / "COPYRIGHT").read_text(),
            "zig-LICENSE.txt": (self.zig.parent / "LICENSE").read_text()
            if (self.zig.parent / "LICENSE").exists()
            else "",
        }

    def _install(self, folder: Path) -> None:
        partial = folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--require-hashes", "--target", str(partial), "-r", str(LOCK)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
            why = errors or done.stderr.strip().splitlines()[-1:] or ["pip says nothing"]
            raise BuildError(f"the compiler cannot be installed ({LOCK.name}): {why[0]}")
        partial.replace(folder)

    def _wrap(self) -> None:
        from .pins import ARCHITECTURES, GLIBC

        self._bin.mkdir(exist_ok=True)
        for machine in ARCHITECTURES.values():
            self._script(f"{machine}-zcc", f"cc -target {machine}-linux-musl {COMPILER_FLAGS}")
            self._script(f"{machine}-zcc-glibc", f"cc -target {machine}-linux-gnu.{GLIBC} {COMPILER_FLAGS}")
        for tool in ("ar", "ranlib"):
            self._script(f"z{tool}", tool)

    def _script(self, name: str, arguments: str) -> None:
        path = self._bin / name
        path.write_text(f'#!/bin/sh\nexec "{self.zig}" {arguments} "$@"\n')
        path.chmod(0o755)
