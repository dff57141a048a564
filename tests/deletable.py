"""`make deletable`: the project without one of the sidecar's wings still passes lint, types, the spine's tests and ten
scenarios.

For each wing: a copy of the tree without its package, its tests, and the other files outside the sidecar that import
it. Exit code 1 if one of them fails. `--changed REVISION`: only wings that have changed since then, or whose table has.
"""

import ast
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import click

from layer import wings

ROOT = Path(__file__).parents[1]
SIDECAR = Path("extension/truemem")
SPINE = ("tests/unit", "tests/proxy")
SMOKE = ("-m", "smoke", "tests/scenarios")


def tracked() -> list[Path]:
    """Files of the project, relative to its folder."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [Path(name) for name in listed.split("\n") if name and (ROOT / name).is_file()]


def imports(file: Path) -> Iterator[str]:
    """Absolute names of all modules that a file imports."""
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def belongs(copy: Path, path: Path, wing: str) -> bool:
    """Is this file the wing's own test, or does it need the wing?"""
    if path.parts[:2] == ("tests", wing) or path.match(f"tests/scenarios/test_{wing}*"):
        return True
    if path.suffix != ".py" or path.is_relative_to(SIDECAR):
        return False
    package = f"truemem.{wing}"
    return any(name == package or name.startswith(f"{package}.") for name in imports(copy / path))


def copied(wing: str, copy: Path) -> list[Path]:
    """Copies the project without the wing. Returns what was left out beside its package."""
    files = tracked()
    for path in files:
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, copy / path)
    gone = [path for path in files if belongs(copy, path, wing)]
    wings.remove(copy / SIDECAR, [wing])
    for path in gone:
        (copy / path).unlink()
    (copy / ".venv").symlink_to(ROOT / ".venv")
    contracts = copy / "pyproject.toml"  # two contracts name each wing
    text = contracts.read_text().replace(f'    "truemem.{wing}",\n', "")
    (row,) = (line for line in text.splitlines() if "# the wings" in line)  # the workbench has a room `lines` as well
    contracts.write_text(text.replace(row, row.replace(f" | {wing}", "").replace(f"{wing} | ", "")))
    return gone


def checks(full: bool) -> Iterator[tuple[str, list[str]]]:
    """What has to pass: a name, and the command."""
    python = str(ROOT / ".venv/bin/python")
    yield "lint", [python, "-m", "ruff", "check", "--quiet", "."]
    yield "types", [python, "-m", "mypy", "extension", *(["workbench", "tests"] if full else [])]
    spine = ["-n", "2", "-m", "not nightly", "--hypothesis-profile=quick", *SPINE]
    yield "the spine's tests", [python, "-m", "pytest", *spine]
    yield "ten scenarios", [python, "-m", "pytest", *SMOKE]


def passes(wing: str, full: bool) -> bool:
    """Tries one wing, and says how it went."""
    with tempfile.TemporaryDirectory(prefix="deletable-") as name:
        copy = Path(name)
        copy.chmod(0o755)  # the function runs as an ordinary user
        gone = copied(wing, copy)
        click.echo(f"without {wing}: {len(gone)} files beside its package are left out")
        path = os.pathsep.join(str(copy / each) for each in ("extension", "workbench", "."))
        for what, command in checks(full):
            began = time.monotonic()
            done = subprocess.run(
                command, cwd=copy, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
            )
            click.echo(f"  {what}: {'passes' if not done.returncode else 'FAILS'}, {time.monotonic() - began:.0f} s")
            if done.returncode:
                click.echo((done.stdout + done.stderr)[-4000:])
                return False
    return True


def changed(known: list[str], revision: str) -> list[str]:
    """Those of the wings that differ from the revision; the first of all where only their table or protocol does."""
    command = ["git", "diff", "--name-only", revision, "--", str(SIDECAR)]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    parts = {Path(name).relative_to(SIDECAR).parts[0] for name in listed}
    found = [wing for wing in known if wing in parts]
    return found or (known[:1] if parts & {"startup.py", "wings.py"} else [])


@click.command(help=__doc__)
@click.argument("chosen", nargs=-1, metavar="[WING]...")
@click.option("--changed", "revision", metavar="REVISION", help="Only wings that have changed since.")
@click.option("--most", type=int, help="Of the changed ones, so many at most: each takes a minute.")
@click.option("--full", is_flag=True, help="Types of workbench and tests as well.")
def main(chosen: tuple[str, ...], revision: str | None, most: int | None, full: bool) -> None:
    """See the module."""
    known = wings.names(ROOT / SIDECAR)
    wanted = changed(known, revision)[:most] if revision else list(chosen or known)
    for wing in wanted:
        if wing not in known:
            raise click.BadParameter(f"no wing {wing}; there are {', '.join(known)}")
    failed = [wing for wing in wanted if not passes(wing, full)]
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
