"""`make wheel` with another Python in the place of the environment's: what it prints."""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_make_wheel_ends_with_the_wheels_path(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in ("requirements.lock", "pyproject.toml", ".ready"):
        (tmp_path / name).touch()
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "truemem-0.9-py3-none-any.whl").touch()  # of an earlier build
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\n[ "$2" = layer ] || touch dist/truemem-1.0-py3-none-any.whl\n')
    python.chmod(0o755)
    command = ["make", "--no-print-directory", "wheel", "BIN=.", "READY=.ready"]  # as by hand, also in `make test`
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    wheel = "dist/truemem-1.0-py3-none-any.whl"
    assert made.stdout == f"{wheel}: install it with pipx install ./{wheel}, or pip install ./{wheel}\n"
