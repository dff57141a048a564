"""Other code to compare with, by turns: a commit of this repository."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.kit.contenders import EXECUTABLE
from testing.pages import ROOT

HELP = "A commit to compare with, by turns."


@contextmanager
def code_of(commit: str | None) -> Iterator[Path | None]:
    """A folder with the code of a commit; None without one."""
    if commit is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="truemem-before-") as folder:
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--detach", "--force", folder, commit], check=True, capture_output=True)
        Path(folder).chmod(0o755)  # an extension runs as an ordinary user
        try:
            yield Path(folder)
        finally:
            subprocess.run([*git, "remove", "--force", folder], check=True, capture_output=True)


def layer_of(code: Path) -> Path:
    """Build the layer of this code; its executable. Raises CalledProcessError."""
    command = [sys.executable, "-m", "layer", "--output", str(code / "dist")]
    subprocess.run(command, cwd=code, check=True, capture_output=True)
    return code / "dist" / EXECUTABLE.relative_to(ROOT / "dist")
