"""CONTRIBUTING.md: its example of a new member is applied to a copy of the tree, and the tests of the line pass."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
COPIED = ("extension", "workbench", "deploy", "testing", "tests", "docs", "pyproject.toml")
CHECKS = ("tests/unit/test_line_schema.py", "tests/unit/test_record.py", "tests/attach/test_queries.py")


def test_the_example_of_a_new_member_is_complete(tmp_path: Path) -> None:
    for name in COPIED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    (example,) = re.findall(r"^```diff\n(.*?)^```$", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE | re.DOTALL)

    assert patch(example, tmp_path) == 2
    run(tmp_path, "-m", "deploy.line_tables", "docs")
    assert "`largestRSS`" in (tmp_path / "docs" / "metrics.md").read_text()
    run(tmp_path, "-m", "pytest", "-q", *CHECKS)


def patch(diff: str, folder: Path) -> int:
    """Apply a diff whose hunks have no line numbers. Returns how many files it changes."""
    files = re.split(r"^--- .*\n\+\+\+ b/", diff, flags=re.MULTILINE)[1:]
    for file in files:
        name, *hunks = re.split(r"^@@.*\n", file, flags=re.MULTILINE)
        path = folder / name.strip()
        for hunk in hunks:
            lines = hunk.splitlines(keepends=True)
            before, after = ("".join(line[1:] for line in lines if line[0] in kinds) for kinds in (" -", " +"))
            text = path.read_text()
            assert text.count(before) == 1, f"{name.strip()} has changed"
            path.write_text(text.replace(before, after))
    return len(files)


def run(folder: Path, *arguments: str) -> None:
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (folder / "extension", folder / "workbench")))}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
