"""`make release`: the files of a release, in dist/release/. The same commit gives the same bytes.

Exit codes: 0 written, 1 not: one line says why.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path

import click
from truemem import VERSION
from truemem_workbench.support.terminal import counted

from layer.archive import PLAIN_MODE, zipped
from layer.errors import BuildError
from layer.node_client import NAME as CLIENT
from layer.pins import ARCHITECTURES

from . import materials
from .anchors import PUBLISHED_FILE, current, published

NOTES = "NOTES.md"
SUMS = "SHA256SUMS"


def notes(changelog: str, version: str) -> tuple[str, str]:
    """When this version was released, and its section. Raises BuildError if there is none."""
    found = re.search(rf"^## {re.escape(version)} \(([^)\n]+)\)\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if found is None:
        raise BuildError(f"CHANGELOG.md has no section `## {version} (DATE)`")
    return found[1], f"{found[2].strip()}\n"


def check_tag(tag: str, released: str, urls: Mapping[str, str], anchors: Collection[str]) -> None:
    """Raise BuildError if this is not the tag of the version that is here, the version has no date, its metadata
    (`urls`) have no address of the docs, or these anchors of the docs are not noted."""
    if tag != f"v{VERSION}":
        raise BuildError(f"the tag is {tag}, and the version {VERSION}. Set VERSION in extension/truemem/__init__.py")
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", released):
        raise BuildError(f"CHANGELOG.md says that {VERSION} is {released}. Put its date there: `## {VERSION} (DATE)`")
    if "Documentation" not in urls:
        raise BuildError("pyproject.toml names no site. Put its address there: Documentation, in [project.urls]")
    if anchors:
        raise BuildError(f"{PUBLISHED_FILE} misses {counted(len(anchors), 'anchor')}. Try make anchors, and commit it")


def built_wheel(made: list[Path], dist: Path, target: Path, epoch: int) -> Path:
    """Build the wheel in `target`, from what git tracks and what `make layer` has `made` in `dist`: nothing that lies
    around here gets in."""
    with tempfile.TemporaryDirectory(prefix="truemem-release-") as folder:
        tree = Path(folder)
        for entry in _git("ls-files", "--stage", "-z").split("\0")[:-1]:
            about, _, name = entry.partition("\t")
            _copy(Path(name), tree / name, 0o755 if about.startswith("100755") else 0o644)
        for path in made:
            _copy(path, tree / "dist" / path.relative_to(dist), 0o644)
        pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command = [*pip, "--no-build-isolation", "--wheel-dir", str(target), str(tree)]
        variables = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
        done = subprocess.run(command, env=variables, umask=0o022, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"the wheel cannot be built: {(done.stderr.splitlines() or ['pip says nothing'])[-1]}")
    (wheel,) = target.glob("*.whl")
    return wheel


def _client(dist: Path) -> list[Path]:
    """The files of the runtime client for Node.js. Raises BuildError if there are none."""
    files = sorted(each for each in (dist / CLIENT).rglob("*") if each.is_file())
    if not files:
        raise BuildError(f"{dist / CLIENT} is not there. Try make layer")
    return files


def _copy(path: Path, target: Path, mode: int) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)
    target.chmod(mode)


def _git(*arguments: str) -> str:
    try:
        return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise BuildError(f"this is not a clone with git: {error}") from None


@click.command(help=__doc__)
@click.option("--layers", "dist", type=click.Path(path_type=Path), default=Path("dist"), help="What make layer made.")
@click.option("--output", type=click.Path(path_type=Path), default=Path("dist/release"), show_default=True)
@click.option("--tag", help="Refuse if it is not this version's tag, or the changelog has no date for it.")
def main(dist: Path, output: Path, tag: str | None) -> None:
    """Make a release's files in `output`. Exits 1 with one line that says why."""
    try:
        released, section = notes(Path("CHANGELOG.md").read_text(encoding="utf-8"), VERSION)
        project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
        if tag is not None:
            here = Path().resolve()
            check_tag(tag, released, project.get("urls", {}), current(here) - published(here))
        epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct"))
        shutil.rmtree(output, ignore_errors=True)
        output.mkdir(parents=True)
        layers = [dist / f"truemem-layer-{name}.zip" for name in ARCHITECTURES]
        samplers = [dist / f"malloc_sampler-{name}.so" for name in ARCHITECTURES]
        client = _client(dist)
        wheel = built_wheel([*layers, *samplers, *client], dist, output, epoch)
        needed = materials.named(project["dependencies"])
        documents = {wheel.name: materials.of_wheel(wheel, layers, epoch, needed)}
        for layer in layers:
            shutil.copyfile(layer, output / layer.name)
            documents[layer.name] = materials.of_layer(layer, epoch)
        for sampler in samplers:  # with these and the zips anyone can build the same wheel
            shutil.copyfile(sampler, output / sampler.name)
        packed = {str(each.relative_to(dist)): (each.read_bytes(), PLAIN_MODE) for each in client}
        (output / f"{CLIENT}.zip").write_bytes(zipped(packed))
        for name, document in documents.items():
            (output / f"{name}.cdx.json").write_text(document, encoding="utf-8")
        files = sorted(output.iterdir())
        sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
        (output / SUMS).write_text("".join(sums))
        (output / NOTES).write_text(section, encoding="utf-8")
    except (BuildError, OSError) as error:
        click.echo(f"not released: {error}", err=True)
        sys.exit(1)
    for path in sorted(output.iterdir()):
        click.echo(f"{path}  {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
