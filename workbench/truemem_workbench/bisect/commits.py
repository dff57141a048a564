"""The commits of a git repository, each laid out in a worktree that goes again. The user's checkout stays as it is."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ..support.bad_input import BadInput
from ..support.terminal import some
from ..target.target import Target
from . import install
from .search import Ready, Unready, Version

LOCKS = {"python": "requirements.txt", "node": "package-lock.json"}
OTHER_LOCKS = ("poetry.lock", "uv.lock", "Pipfile.lock", "yarn.lock", "pnpm-lock.yaml")


class Commits:
    """The commits from `old` to `new`, each as the repository has it. `spec`: the function as the user typed it.
    Raises BadInput."""

    def __init__(
        self, target: Target, good: str, bad: str, place: Path, *, first_parent: bool, build: str | None
    ) -> None:
        name, colon, handler = target.spec.rpartition(":")
        file = Path(name if colon else target.spec).resolve()
        self._root = Path(_output(file.parent, "rev-parse", "--show-toplevel").strip()).resolve()
        self._place, self._build, self._function = place, build, target.function
        own = target.function.task_root
        self._folders = [each for each in (own, *own.parents) if each.is_relative_to(self._root)]
        self._spec = f"{file.relative_to(self._root)}{colon}{handler if colon else ''}"
        self._way = ["--first-parent"] if first_parent else []
        self.good, self.bad = self._commit(good), self._commit(bad)
        self.old, self.new = self._ends(good, bad)
        self.order = self._in_order()
        self.notices: list[str] = []
        self._lock = self._changed_lock(target)
        self._installed: dict[str, Mapping[str, str]] = {}
        self._own_path = target.environment.get("PYTHONPATH")

    def _git(self, *words: str) -> str:
        return _output(self._root, *words)

    def _commit(self, revision: str) -> str:
        try:
            return self._git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}").strip()
        except BadInput:
            is_shallow = self._git("rev-parse", "--is-shallow-repository").strip() == "true"
            fix = "Its history is cut: try git fetch --unshallow" if is_shallow else "Try git log --oneline"
            raise BadInput(f"{self._root} has no commit {revision}. {fix}") from None

    def _ends(self, good: str, bad: str) -> tuple[str, str]:
        """The older of both, and the newer."""
        if self.good == self.bad:
            raise BadInput(f"--good {good} and --bad {bad} are the same commit. Try an older --good")
        base = self._git("merge-base", self.good, self.bad).strip()
        if base in (self.good, self.bad):
            return (self.good, self.bad) if base == self.good else (self.bad, self.good)
        raise BadInput(f"{good} and {bad} are on two branches, which begin at {base[:10]}. Try --good {base[:10]}")

    def _in_order(self) -> Sequence[Version]:
        form = "%H%x00%h%x00%cs%x00%s"
        told = self._git("log", f"--format={form}", "--topo-order", "--reverse", *self._way, self.new, f"^{self.old}")
        old = self._git("log", "-1", f"--format={form}", self.old)
        return [Version(*line.split("\0")) for line in (old + told).splitlines()]

    def between(self, before: Sequence[str], after: str) -> Sequence[str]:
        """As git's own bisection orders them."""
        told = self._git("rev-list", "--bisect-all", *self._way, after, *(f"^{each}" for each in before))
        return [line.split()[0] for line in told.splitlines()]

    def _changed_lock(self, target: Target) -> str | None:
        """The file that says what is installed, if it lies beside the handler or above and changes between the ends."""
        if self._build is not None:
            return None
        function = target.function
        kind = "python" if function.python else "node" if (function.runtime or "").startswith("nodejs") else ""

        def changed(name: str) -> list[str]:
            files = [str((each / name).relative_to(self._root)) for each in self._folders if (each / name).is_file()]
            return [each for each in files if self._git("rev-list", "-1", self.new, f"^{self.old}", "--", each).strip()]

        if kind and (found := changed(LOCKS[kind])):
            self.notices.append(f"{found[0]} differs by commit: each is run with the packages that its own lists")
            return found[0]
        if others := [each for name in OTHER_LOCKS for each in changed(name)]:
            self.notices.append(
                f"{some(others)} changes between the two, and the packages that are installed here were used for all:"
                " --build COMMAND installs those of each commit"
            )
        return None

    @contextmanager
    def ready(self, version: str) -> Iterator[Ready]:
        tree = self._place / "tree"
        with _worktree(self._root, version, tree):
            yield Ready(str(tree / self._spec), self._prepared(version, tree), tree)

    def _prepared(self, version: str, tree: Path) -> list[tuple[str, str]]:
        python, cwd = install.with_python(self._function.python), Path.cwd()
        if self._build is not None:
            folder = tree / cwd.relative_to(self._root) if cwd.is_relative_to(self._root) else tree
            install.run_build(self._build, folder)
            is_made = any((each / ".venv").is_dir() for each in (folder, tree, (tree / self._spec).parent))
            return [] if is_made else python
        if self._lock and (tree / self._lock).is_file():
            if self._function.python is None:
                install.npm_ci(tree / self._lock)
                return []
            folder = install.required(tree / self._lock, self._place, self._function.python)
            self._installed[version] = install.installed(folder)
            return [*python, *install.with_folder(folder, self._own_path)]
        for folder in self._folders:
            link = tree / folder.relative_to(self._root) / "node_modules"
            if (folder / "node_modules").is_dir() and link.parent.is_dir() and not link.exists():
                link.symlink_to(folder / "node_modules")
        return python

    def others(self, before: str, after: str) -> Sequence[str]:
        return install.differences(self._installed.get(before, {}), self._installed.get(after, {}))


@contextmanager
def _worktree(root: Path, commit: str, tree: Path) -> Iterator[None]:
    """The commit in a worktree of its own. No hook of the repository runs."""
    try:
        _output(root, "worktree", "add", "--quiet", "--force", "--detach", str(tree), commit)
        yield
    except BadInput as problem:
        raise Unready(str(problem)) from None
    finally:
        with suppress(BadInput):
            _output(root, "worktree", "remove", "--force", "--force", str(tree))
        shutil.rmtree(tree, ignore_errors=True)


def _output(folder: Path, *words: str) -> str:
    """What git prints in this folder. Raises BadInput."""
    quiet = ("-c", "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false")
    own = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")  # of a hook, or of git bisect run
    variables = {name: value for name, value in os.environ.items() if name not in own}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *quiet, *words],
            capture_output=True, text=True, errors="replace", check=False, env=variables, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except OSError as error:
        raise BadInput(f"cannot run git in {folder}: {error.strerror}. Install git, or try --package NAME") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"git {words[0]} ended with {done.returncode}"]
        message = said[0].removeprefix("fatal: ")
        raise BadInput(f"{message}. Try it in a checkout, or --package NAME" if "not a git rep" in message else message)
    return done.stdout
