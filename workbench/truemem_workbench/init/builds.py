"""The project's own commands that make what runs, and whether they must run here. It looks at files, and runs none."""

from __future__ import annotations

import os
import re
import shlex
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

from ..local.configuration.function import project_python
from ..local.configuration.node_function import SUFFIXES
from ..support.untrusted_text import parsed
from ..target import sources
from .found import Build
from .tree import Tree, text_of, written

LISTED = re.compile(r"^\s*([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*(?:[<>=!~].*)?$")
"""A line of requirements.txt that names a package, without a marker."""
SOURCES = (
    ".py", ".txt", ".toml", ".js", ".mjs", ".cjs", ".ts", ".go", ".mod", ".sum", ".java", ".kt", ".xml", ".gradle",
    ".kts",
)  # fmt: skip
"""Endings of what `sam build` reads; package.json is among too many others of its ending."""


def upwards(folder: Path, root: Path, *names: str) -> Path | None:
    """The file of one of these names in the folder, or the nearest above it up to the root."""
    places = [folder, *folder.parents]
    if root in places:
        places = places[: places.index(root) + 1]
    return next((place / name for place in places for name in names if (place / name).is_file()), None)


def of_python(folder: Path, root: Path) -> tuple[Build, ...]:
    """The environment with the packages that the code in this folder lists, in `.venv` of the root."""
    listed = upwards(folder, root, "uv.lock", "poetry.lock", "Pipfile.lock", "requirements.txt", "pyproject.toml")
    if listed is None:
        return ()
    within = _from(listed.parent, root)
    if listed.name == "uv.lock":
        return (Build("uv sync --frozen --no-install-project", listed.parent, not _has_venv(folder), "uv"),)
    if listed.name == "poetry.lock":
        command = "POETRY_VIRTUALENVS_IN_PROJECT=1 poetry install --no-root"
        return (Build(command, listed.parent, not _has_venv(folder), "poetry"),)
    if listed.name == "Pipfile.lock":
        return (Build("PIPENV_VENV_IN_PROJECT=1 pipenv sync", listed.parent, not _has_venv(folder), "pipenv"),)
    needs = _of_pyproject(listed) if listed.suffix == ".toml" else text_of(listed).splitlines()
    names = [found[1] for line in needs if (found := LISTED.match(line))]
    if not names:
        return ()
    sdk = "" if "boto3" in names else "boto3 "  # Lambda's runtime has it
    what = shlex.join(needs if listed.suffix == ".toml" else ["-r", str(within / listed.name)])
    command = f"python3 -m venv .venv && .venv/bin/pip install -q {sdk}{what}"
    is_needed = not _has_venv(folder) and not all(map(_is_installed, names))
    return (Build(command, root, is_needed, "python3"),)


def _of_pyproject(path: Path) -> list[str]:
    """What a project needs, as pip takes it; nothing where it is Poetry's own form, or no TOML."""
    try:
        found = tomllib.loads(text_of(path)).get("project", {}).get("dependencies", [])
    except (tomllib.TOMLDecodeError, AttributeError):
        return []
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def _has_venv(folder: Path) -> bool:
    """The project has an interpreter of its own, which is not ours."""
    python = project_python(folder.resolve())
    return python is not None and python.parent.resolve() != Path(sys.executable).parent.resolve()


def _is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def of_packages(folder: Path, root: Path) -> tuple[Build, ...]:
    """The installation of what package.json lists."""
    package = upwards(folder, root, "package.json")
    document = _document(package)
    if package is None or not (_members(document, "dependencies") or _members(document, "devDependencies")):
        return ()
    place = package.parent
    command, tool = "npm install --no-audit --no-fund --no-package-lock", "npm"
    for lock, how in (
        ("package-lock.json", "npm ci --no-audit --no-fund"),
        ("yarn.lock", "yarn install --frozen-lockfile"),
        ("pnpm-lock.yaml", "pnpm install --frozen-lockfile"),
    ):
        if (place / lock).is_file():
            command, tool = how, how.partition(" ")[0]
            break
    return (Build(command, place, not (place / "node_modules").is_dir(), tool),)


def of_source(spec: str, root: Path) -> tuple[Build, ...]:
    """What builds a source in TypeScript, Go or Java, as `truemem check` says it where it is not built. Raises
    BadInput."""
    made = sources.build_of(spec)
    assert made is not None  # its ending is one of theirs
    packages = of_packages(made.source.parent, root) if made.source.suffix in sources.TYPESCRIPT else ()
    return (*packages, _again(made.command, bool(made.problem), packages))


def of_node(code: Path, place: Path, module: str, entry: Path | None, root: Path) -> tuple[Build, ...]:
    """What installs the packages of a Node.js function, and builds its file, as `truemem check` says it where a source
    is newer."""
    packages = of_packages(place, root)
    made = sources.made_in_node(code, place, module, entry)
    if made is not None:
        return (*packages, _again(made.command, bool(made.problem), packages))
    is_there = any((code / f"{module}{ending}").is_file() for ending in SUFFIXES)
    command = "" if is_there else sources.by_script(code)
    return (*packages, _again(command, True, packages)) if command else packages


def _again(command: str, is_needed: bool, packages: tuple[Build, ...]) -> Build:
    """The build that runs after each edit. `packages`: what installs its packages, before it."""
    if packages:
        command = re.sub(r"\b(npm|yarn|pnpm) install && ", "", command)
    tool = shlex.split(command.rpartition("&& ")[2].rstrip(")"))[0]
    return Build(command, is_needed=is_needed, tool=tool, again=True)


def of_sam(template: Path, tree: Tree) -> Build:
    """`sam build` of a template."""
    made = template.parent / ".aws-sam/build/template.yaml"
    is_old = written(made) < max(written(template), tree.newest(template.parent, *SOURCES))
    name = "" if template.name in ("template.yaml", "template.yml") else f" --template {shlex.quote(template.name)}"
    return Build(f"sam build{name}", template.parent, is_old, "sam", again=True)


def _document(path: Path | None) -> object:
    return parsed(text_of(path)) if path else None


def _members(document: object, name: str) -> dict[str, Any]:
    found = document.get(name) if isinstance(document, dict) else None
    return found if isinstance(found, dict) else {}


def _from(path: Path, base: Path) -> Path:
    return Path(os.path.relpath(path, base))
