"""`make deletable`: the project without one of the sidecar's wings still passes lint, types, the spine's tests and ten
scenarios; without one of the workbench's commands lint, types, and all other commands.

For each: a copy of the tree without its package, its row, its tests, and the other files outside of sidecar and
workbench that import it. Exit code 1 if one of them fails. `--changed REVISION`: only wings that have changed since
then, or whose table has.
"""

import ast
import os
import re
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
SIDECAR, WORKBENCH = Path("extension/truemem"), Path("workbench/truemem_workbench")
COMMANDS = ("mcp", "demo", "dashboard", "bisect", "soak", "size", "doctor", "metrics", "publish", "docs", "lines")
"""Commands of the workbench whose room, if they have one, no other needs."""
OTHERS = """
import subprocess, sys
from truemem_workbench.commands.__main__ import COMMANDS
for name in COMMANDS:
    command = [sys.executable, "-m", "truemem_workbench.commands", name, "--help"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
"""
"""Prints the help of each command."""
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


def without(files: list[Path], package: str) -> list[Path]:
    """The files that are tests of this package, or need it or its command, or one of those."""
    root, _, name = package.rpartition(".")
    own = [path for path in files if path.parts[:2] == ("tests", name) or path.match(f"tests/scenarios/test_{name}*")]
    others = [path for path in files if path.suffix == ".py" and not path.is_relative_to(SIDECAR)]
    needs = {path: {*imports(ROOT / path)} for path in others if not path.is_relative_to(WORKBENCH) and path not in own}
    gone, names = {*own}, {package, f"{root}.commands.{name}"}
    while True:
        names |= {".".join(path.with_suffix("").parts) for path in gone if path.suffix == ".py"}
        more = {path for path, asked in needs.items() if any(_parents(each) & names for each in asked)}
        if more <= gone:
            return sorted(gone)
        gone |= more


def _parents(name: str) -> set[str]:
    """The name itself and each package that it lies in: `a`, `a.b` and `a.b.c`."""
    parts = name.split(".")
    return {".".join(parts[:count]) for count in range(1, len(parts) + 1)}


def copied(package: str, copy: Path) -> list[Path]:
    """Copies the project without a wing or a command. Returns what was left out beside its package."""
    files = tracked()
    for path in files:
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, copy / path)
    gone = without(files, package)
    root, _, name = package.rpartition(".")
    if root == "truemem":
        wings.remove(copy / SIDECAR, [name])
    else:
        shutil.rmtree(copy / WORKBENCH / name, ignore_errors=True)
        (copy / WORKBENCH / f"commands/{name}.py").unlink()
        table = copy / WORKBENCH / "commands/__main__.py"
        rows = [line for line in table.read_text().splitlines() if f'Lazy("{name}:' not in line]
        table.write_text("\n".join(rows) + "\n")
    for path in gone:
        (copy / path).unlink(missing_ok=True)
    (copy / ".venv").symlink_to(ROOT / ".venv")
    contracts = copy / "pyproject.toml"
    text = contracts.read_text().replace(f'    "{package}",\n', "")
    begin = text.index(f'containers = ["{root}"]')  # the layers of this program alone: both have rooms of some names
    end = text.index("exhaustive", begin)
    layers = re.sub(rf'(?<=["|])\s*\b{name}\b \|| \|\s*\b{name}\b(?=["\s])', "", text[begin:end])
    contracts.write_text(text[:begin] + layers.replace(f'    "{name}",\n', "").replace('"  ', '"') + text[end:])
    return gone


def checks(package: str, full: bool) -> Iterator[tuple[str, list[str]]]:
    """What has to pass: a name, and the command."""
    python = str(ROOT / ".venv/bin/python")
    yield "lint", [python, "-m", "ruff", "check", "--quiet", "."]
    if package.startswith(WORKBENCH.name):
        yield "rooms", [str(ROOT / ".venv/bin/lint-imports"), "--no-cache", "--no-logo"]
        yield "types", [python, "-m", "mypy", "workbench", "tests", "testing", "benchmarks"]
        yield "all other commands", [python, "-c", OTHERS]
        return
    yield "types", [python, "-m", "mypy", "extension", *(["workbench", "tests"] if full else [])]
    spine = ["-n", "2", "-m", "not nightly", "--hypothesis-profile=quick", *SPINE]
    yield "the spine's tests", [python, "-m", "pytest", *spine]
    yield "ten scenarios", [python, "-m", "pytest", *SMOKE]


def passes(package: str, full: bool) -> bool:
    """Tries one wing or command, and says how it went."""
    with tempfile.TemporaryDirectory(prefix="deletable-") as name:
        copy = Path(name)
        copy.chmod(0o755)  # the function runs as an ordinary user
        gone = copied(package, copy)
        click.echo(f"without {package}: {len(gone)} files beside its package are left out")
        path = os.pathsep.join(str(copy / each) for each in ("extension", "workbench", "."))
        for what, command in checks(package, full):
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
@click.argument("chosen", nargs=-1, metavar="[WING|COMMAND]...")
@click.option("--changed", "revision", metavar="REVISION", help="Only wings that have changed since.")
@click.option("--most", type=int, help="Of the changed ones, so many at most: each takes a minute.")
@click.option("--full", is_flag=True, help="Types of workbench and tests as well.")
def main(chosen: tuple[str, ...], revision: str | None, most: int | None, full: bool) -> None:
    """See the module."""
    of_sidecar = wings.names(ROOT / SIDECAR)
    known = {name: [f"{WORKBENCH.name}.{name}"] for name in COMMANDS}
    for name in of_sidecar:  # `lines` is a wing and a command
        known.setdefault(name, []).append(f"truemem.{name}")
    wanted = changed(of_sidecar, revision)[:most] if revision else list(chosen or known)
    for name in wanted:
        if name not in known:
            raise click.BadParameter(f"no wing or command {name}; there are {', '.join(known)}")
    if revision:
        known = {name: [f"truemem.{name}"] for name in of_sidecar}
    failed = [each for name in wanted for each in known[name] if not passes(each, full)]
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
