"""Repositories of commits that are made here, and the command itself."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from zipfile import ZipFile

import pytest

LEAK = "    kept.append(bytearray(8192))\n"
LARGE = "    kept = kept or [bytearray(b'1') * (64 << 20)]\n"
"""64 MiB once: a limit of `current` is broken in the first look."""
BROKEN = "    raise RuntimeError('broken')\n"


def git(folder: Path, *words: str) -> str:
    """What git prints."""
    who = [each for name in ("user.name=Ann", "user.email=ann@example.com") for each in ("-c", name)]
    done = subprocess.run(["git", "-C", str(folder), *who, *words], capture_output=True, text=True, check=True)
    return done.stdout


class Repository:
    """A repository with a handler in src/app.py. `commits` are its commits, the oldest first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        git(folder, "init", "--quiet", "--initial-branch", "main")
        (folder / "src").mkdir()

    @property
    def commits(self) -> list[str]:
        return git(self.folder, "log", "--format=%h", "--reverse", "--topo-order").split()

    def commit(self, subject: str, body: str = "") -> str:
        """Commit a handler with this body. Returns the commit's abbreviated name."""
        text = f"kept = []\n\ndef handler(event, context):\n    global kept\n{body}    return '{subject}'\n"
        (self.folder / "src" / "app.py").write_text(text)
        git(self.folder, "add", "--all")
        git(self.folder, "commit", "--quiet", "--message", subject)
        return git(self.folder, "rev-parse", "--short", "HEAD").strip()

    def line(self, count: int, first: int, change: str, broken: Collection[int] = ()) -> list[str]:
        """So many commits in a line, the `first` of them with the change. Returns their names."""
        for number in range(1, count + 1):
            body = (BROKEN if number in broken else "") + (change if number >= first else "")
            self.commit(f"change {number}", body)
        return self.commits

    def state(self) -> tuple[str, ...]:
        """What a search must leave as it is."""
        asked = (
            ("status", "--porcelain"),
            ("rev-parse", "HEAD"),
            ("worktree", "list"),
            ("for-each-ref",),
            ("stash", "list"),
        )
        return tuple(git(self.folder, *words) for words in asked)

    def bisect(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        """`truemem bisect src/app.py:handler ARGUMENTS`, typed in its folder."""
        return subprocess.run(self.words(*arguments), cwd=self.folder, capture_output=True, text=True, check=False)

    @staticmethod
    def words(*arguments: object) -> list[str]:
        return [
            sys.executable,
            "-m",
            "truemem_workbench.commands",
            "bisect",
            "src/app.py:handler",
            *map(str, arguments),
        ]


def wheel(folder: Path, name: str, version: str, needs: Sequence[str] = ()) -> Path:
    """A package of one module that has its VERSION."""
    path, about = folder / f"{name}-{version}-py3-none-any.whl", f"{name}-{version}.dist-info"
    required = "".join(f"Requires-Dist: {each}\n" for each in needs)
    files = {
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{required}",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    listed = "".join(f"{each},,\n" for each in (*files, f"{about}/RECORD"))
    with ZipFile(path, "w") as file:
        for place, text in {**files, f"{about}/RECORD": listed}.items():
            file.writestr(place, text)
    return path


@pytest.fixture
def repository() -> Iterator[Repository]:
    """An empty repository that all users can read."""
    with tempfile.TemporaryDirectory(prefix="truemem-test-") as name:
        os.chmod(name, 0o755)  # noqa: PTH101
        yield Repository(Path(name))
