"""The repository around a project: which CI it has, and where truemem was installed from."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import get_args
from urllib.parse import unquote, urlsplit

from truemem import VERSION

from ..support.bad_input import BadInput
from ..support.untrusted_text import parsed, read_text
from ..target.cloudformation_yaml import load_template
from .found import Language
from .pipeline import HEADER, Gate, github, gitlab
from .tree import text_of

GITLAB = Path(".gitlab-ci.yml")
_INSTALL = re.compile(r"^(  variables:\n)? *TRUEMEM: .*\n", re.MULTILINE)
INCLUDED = "memory.gitlab-ci.yml"


@dataclass(frozen=True)
class File:
    """A file to write."""

    path: Path
    text: str

    @property
    def state(self) -> str:
        """`new`, `same` as there is, `install` if only what pip installs differs, or `other` than there is."""
        if not self.path.exists():
            return "new"
        try:
            there = read_text(self.path)
        except (OSError, UnicodeDecodeError):
            return "other"
        if there == self.text:
            return "same"
        return "install" if _INSTALL.sub("", there) == _INSTALL.sub("", self.text) else "other"

    def write(self) -> None:
        """Raises BadInput."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(self.text, encoding="utf-8", newline="\n")
        except OSError as error:
            raise BadInput(
                f"cannot write {self.path}: {error.strerror}. Try a copy of the folder that you can write to, or"
                " truemem init --dry-run"
            ) from None


def git_root(folder: Path) -> Path:
    """The root of the repository that the folder is in, relative to it; the folder itself if it is in none."""
    here = folder.resolve()
    root = next((each for each in (here, *here.parents) if (each / ".git").exists()), here)
    return Path(os.path.relpath(root, here))


def cis(root: Path) -> list[str]:
    """Which CI the repository has: `github`, `gitlab`, or both; `github` if nothing says."""
    remotes = re.findall(r"^\s*url\s*=\s*(\S+)", text_of(root / ".git/config"), re.MULTILINE)
    made = ["github"] if (root / ".github").is_dir() or any("github.com" in each for each in remotes) else []
    if (root / GITLAB).is_file() or any("gitlab" in each for each in remotes):
        made.append("gitlab")
    return made or ["github"]


def installed_from(root: Path) -> str:
    """What pip can install truemem from in CI, as it was installed here; empty if it is a file or a folder outside of
    the repository. The form of direct_url.json is PEP 610's."""
    try:
        text = metadata.distribution("truemem").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return ""
    if text is None:
        return f"truemem=={VERSION}"
    document = parsed(text)
    document = document if isinstance(document, dict) else {}
    url, vcs = str(document.get("url", "")), document.get("vcs_info")
    if isinstance(vcs, dict):
        return f"{vcs.get('vcs', 'git')}+{url}@{vcs.get('commit_id', 'main')}"
    parts = urlsplit(url)
    if parts.scheme != "file":
        return url
    path = Path(unquote(parts.path))
    is_within = path.is_file() and path.is_relative_to(root.resolve())
    return f"./{path.relative_to(root.resolve())}" if is_within else ""


def to_fill_in(kinds: Sequence[str]) -> str:
    """What the reader types where nothing here says what pip installs as truemem in CI."""
    tool = "glab" if list(kinds) == ["gitlab"] else "gh"
    wheel = _wheel()
    kept = f"cp {shlex.quote(str(wheel))} . && truemem init --install ./{wheel.name}" if wheel else ""
    return (
        f"so that CI finds truemem, type {tool} variable set TRUEMEM --body git+https://github.com/YOUR-ORGANISATION/truemem"
        f"{f' (or keep its wheel in the repository: {kept})' if kept else ''}"
    )


def _wheel() -> Path | None:
    """The wheel that truemem was installed from, if it is still there."""
    try:
        document = parsed(metadata.distribution("truemem").read_text("direct_url.json") or "")
    except metadata.PackageNotFoundError:
        return None
    path = Path(unquote(urlsplit(str(document.get("url", ""))).path)) if isinstance(document, dict) else Path()
    return path if path.suffix == ".whl" and path.is_file() else None


def files_of(ci: str, gate: Gate, root: Path) -> tuple[File, str]:
    """The gate's file, and what is to be added to another one by hand; empty if nothing is. Raises BadInput if the
    project's .gitlab-ci.yml cannot be read."""
    if ci == "github":
        return File(root / ".github/workflows" / f"{gate.name}.yml", github(gate)), ""
    own = root / GITLAB
    ours = rf"{re.escape(HEADER)}{re.escape(gate.name)}(-({'|'.join(get_args(Language))}))?:"
    if not own.is_file() or re.match(ours, text_of(own)):
        return File(own, gitlab(gate)), ""
    there = load_template(own)
    stages = there.get("stages") if isinstance(there, dict) else None
    stage = _stage(stages) if isinstance(stages, list) else ""
    name = INCLUDED.replace("memory", gate.name, 1)
    is_included = name in text_of(own)
    include = "" if is_included else f"add to {own}: include: [{{local: {name}}}]"
    return File(root / name, gitlab(gate, stage)), include


def _stage(stages: Sequence[object]) -> str:
    """The stage of the job, where a project has named its own. Empty: `test`, GitLab's default, is one of them."""
    names = [each for each in stages if isinstance(each, str)]
    if "test" in names or not names:
        return ""
    return next((each for each in names if "test" in each or "check" in each), names[0])
