"""The versions of a package on its index, each installed in a folder of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..support.bad_input import BadInput
from ..target.target import Target
from . import install
from .search import Ready, Unready, Version

BESIDE = ("bin", "__pycache__", ".lock")
"""What pip and uv make beside packages."""
_NAME = re.compile(r"(@[\w.-]+/)?\w[\w.-]*", re.ASCII)


class Packages:
    """The versions of one package from `old` to `new`. Raises BadInput."""

    def __init__(self, target: Target, package: str, good: str, bad: str, place: Path, *, build: str | None) -> None:
        if not _NAME.fullmatch(package):
            raise BadInput(f"--package {package}: give its name alone, and the versions as --good and --bad")
        self._target, self.package, self._place, self._build = target, package, place, build
        self._is_node = target.function.language == "nodejs" and target.function.image is None
        if not self._is_node and target.function.python is None:
            raise BadInput("--package is for a handler in Python or Node.js. Try commits: leave --package out")
        released = self._released()
        self.good, self.bad = (newest(released, each, package) for each in (good, bad))
        if self.good == self.bad:
            raise BadInput(f"--good {good} and --bad {bad} are both {package} {self.bad}. Try an older --good")
        ends = sorted(released.index(each) for each in (self.good, self.bad))
        between = released[ends[0] : ends[1] + 1]
        self.order = [Version(each, each) for each in between if is_final(each) or each in (self.good, self.bad)]
        self.old, self.new = self.order[0].name, self.order[-1].name
        self._installed: dict[str, Mapping[str, str]] = {}
        self.notices: list[str] = []

    def _released(self) -> list[str]:
        """All versions, the oldest first."""
        try:
            if self._is_node:
                told: str | list[str] = json.loads(install.output(["npm", "view", self.package, "versions", "--json"]))
                return [told] if isinstance(told, str) else [*told]
            said = install.output([*install.pip(self._target.function.python), "index", "versions", self.package])
        except Unready as problem:
            raise BadInput(f"--package {self.package}: {problem}. Try another --package NAME") from None
        found = re.search(r"^Available versions: (.+)$", said, re.MULTILINE)
        return found[1].split(", ")[::-1] if found else []

    def between(self, before: Sequence[str], after: str) -> Sequence[str]:
        return between([each.name for each in self.order], before, after)

    @contextmanager
    def ready(self, version: str) -> Iterator[Ready]:
        folder = self._place / version
        try:
            yield self._beside(version, folder) if self._is_node else self._before(version, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _before(self, version: str, folder: Path) -> Ready:
        """In a folder that Python searches before its own."""
        target, wanted = self._target, f"{self.package}=={version}"
        try:
            install.into_folder(["--only-binary", self.package, wanted], folder, target.function.python)
        except Unready as problem:
            if wanted in str(problem):
                python = target.function.python_version
                raise Unready(f"it has no wheel for Python {python} on this machine") from None
            raise
        own = target.function.task_root
        if copied := [each.name for each in folder.iterdir() if each.name not in BESIDE and (own / each.name).exists()]:
            raise BadInput(f"{own} has its own {copied[0]}, which comes before any installed one. Move it away first")
        self._installed[version] = install.installed(folder)
        options = install.with_folder(folder, target.environment.get("PYTHONPATH"))
        return Ready(target.spec, [*install.with_python(target.function.python), *options], folder)

    def _beside(self, version: str, folder: Path) -> Ready:
        """In a copy of the project, beside its other packages."""
        name, _, handler = self._target.spec.rpartition(":")
        file = Path(name).resolve()
        own = self._target.function.task_root
        project = next((each for each in (own, *own.parents) if (each / "package.json").is_file()), own)
        root = Path(os.path.commonpath([file.parent, project]))
        shutil.copytree(root, folder, symlinks=True, ignore=shutil.ignore_patterns("node_modules", ".git", ".venv"))
        there = folder / project.relative_to(root)
        only = [] if self._build else ["--omit=dev"]
        wanted = f"{self.package}@{version}"
        install.output(
            ["npm", "install", "--no-save", *install.QUIET_NPM, *only, "--prefix", str(there), wanted], there
        )
        if self._build is not None:
            install.run_build(self._build, there)
        listed = there / "node_modules" / ".package-lock.json"
        packages = json.loads(listed.read_text(encoding="utf-8"))["packages"] if listed.is_file() else {}
        self._installed[version] = {
            name.removeprefix("node_modules/"): str(each.get("version")) for name, each in packages.items()
        }
        return Ready(f"{folder / file.relative_to(root)}:{handler}", (), folder)

    def others(self, before: str, after: str) -> Sequence[str]:
        return install.differences(self._installed.get(before, {}), self._installed.get(after, {}), self.package)


def between(order: Sequence[str], before: Sequence[str], after: str) -> Sequence[str]:
    """The versions from the last of `before` to `after`: those nearest to the middle first, `after` itself last."""
    first = max(map(order.index, before)) + 1
    inner = range(first, order.index(after))
    middle = (inner.start + inner.stop - 1) / 2
    return [*(order[each] for each in sorted(inner, key=lambda each: abs(each - middle))), after]


def newest(released: Sequence[str], asked: str, package: str) -> str:
    """The version that is asked for, or the newest final one of this series: `1.24` is 1.24.96. Raises BadInput."""
    if asked in released:
        return asked
    series = [each for each in released if each.startswith(f"{asked}.") and is_final(each)]
    if not series:
        near = [each for each in released if each.split(".")[0] == asked.split(".", maxsplit=1)[0]] or released
        raise BadInput(f"{package} has no version {asked}. There are {', '.join(near[-5:]) or 'none'}")
    return series[-1]


def is_final(version: str) -> bool:
    """False for a version that is announced as not final: 1.0rc1, 2.0.0-beta.1."""
    return re.fullmatch(r"v?[\d.]+(\.?post\d+)?(\+[\w.]+)?", version) is not None
