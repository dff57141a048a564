"""Commits as git has them: their order, what lies between, and that the user's checkout stays as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.bisect import install
from truemem_workbench.bisect.commits import Commits
from truemem_workbench.bisect.search import search
from truemem_workbench.support.bad_input import BadInput
from truemem_workbench.target.resolve import resolve

from tests.bisect.conftest import Repository, git, wheel


def commits(repository: Repository, place: Path, good: str, bad: str, **more: Any) -> Commits:
    target = resolve(f"{repository.folder}/src/app.py:handler")
    return Commits(target, good, bad, place, **{"first_parent": False, "build": None, **more})


def first_with(history: Commits, text: str) -> list[str]:
    """The subjects of those that are left, where a commit is bad if its handler has this text."""

    def ask(name: str, of: int) -> bool:
        with history.ready(name) as ready:
            return text in Path(ready.spec.partition(":")[0]).read_text()

    left = search(history, history.old, history.new, ask).candidates
    return [each.subject for each in history.order if each.name in left]


def test_a_commit_is_laid_out_beside_and_goes_again(repository: Repository, tmp_path: Path) -> None:
    repository.line(4, 3, "    pass  # change\n")
    (repository.folder / "src" / "app.py").write_text("not committed")
    (repository.folder / ".git" / "hooks" / "post-checkout").write_text("#!/bin/sh\nexit 1\n")
    (repository.folder / ".git" / "hooks" / "post-checkout").chmod(0o755)
    before = repository.state()
    repository.folder.joinpath("src", "app.py").write_text("def handler(event, context): ...")
    history = commits(repository, tmp_path, "HEAD~3", "HEAD")
    assert first_with(history, "# change") == ["change 3"]
    with pytest.raises(RuntimeError), history.ready(history.new) as ready:
        assert ready.folder is not None
        assert ready.folder.is_dir()
        raise RuntimeError
    assert not any(tmp_path.iterdir())
    assert repository.state() == before


def test_a_merge_is_searched_as_git_does_or_as_one(repository: Repository, tmp_path: Path) -> None:
    repository.commit("one")
    git(repository.folder, "checkout", "-q", "-b", "side")
    repository.commit("side 1")
    (repository.folder / "other").write_text("")
    repository.commit("side 2", "    pass  # change\n")
    repository.commit("side 3", "    pass  # change\n")
    git(repository.folder, "checkout", "-q", "main")
    (repository.folder / "main").write_text("")
    git(repository.folder, "add", "main")
    git(repository.folder, "commit", "-q", "-m", "two")
    git(repository.folder, "merge", "-q", "side", "-m", "merge")
    assert first_with(commits(repository, tmp_path, "HEAD~2", "HEAD"), "# change") == ["side 2"]
    assert first_with(commits(repository, tmp_path, "HEAD~2", "HEAD", first_parent=True), "# change") == ["merge"]
    with pytest.raises(BadInput, match="on two branches, which begin at"):
        commits(repository, tmp_path, "HEAD~1", "side")


def test_a_newer_good_one_asks_for_the_repair(repository: Repository, tmp_path: Path) -> None:
    repository.line(3, 1, "    pass\n")
    history = commits(repository, tmp_path, "HEAD", "HEAD~2")
    assert (history.old, history.new) == (history.bad, history.good)


@pytest.mark.parametrize(
    ("good", "bad", "said"),
    [
        ("v9", "HEAD", "has no commit v9. Try git log --oneline"),
        ("--all", "HEAD", "has no commit --all"),
        ("HEAD", "HEAD", "are the same commit"),
    ],
)
def test_what_is_no_commit_is_refused(repository: Repository, tmp_path: Path, good: str, bad: str, said: str) -> None:
    repository.line(2, 1, "    pass\n")
    with pytest.raises(BadInput, match=said):
        commits(repository, tmp_path, good, bad)


def test_a_short_clone_says_how_to_get_the_rest(repository: Repository, tmp_path: Path) -> None:
    old = repository.line(3, 1, "    pass\n")[0]
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repository.folder}", "short")
    target = resolve(f"{tmp_path}/short/src/app.py:handler")
    with pytest.raises(BadInput, match="git fetch --unshallow"):
        Commits(target, old, "HEAD", tmp_path, first_parent=False, build=None)


def test_outside_of_a_repository_git_says_so(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("def handler(event, context): ...")
    with pytest.raises(BadInput, match=r"not a git repository.*Try"):
        Commits(resolve(f"{tmp_path}/app.py:handler"), "a", "b", tmp_path, first_parent=False, build=None)


def test_what_is_installed_is_that_of_each_commit(repository: Repository, tmp_path: Path) -> None:
    for version in ("1.0", "2.0"):
        (repository.folder / "requirements.txt").write_text(f"{wheel(tmp_path, 'thing', version)}\n")
        repository.commit(f"thing {version}")
    history = commits(repository, tmp_path / "place", "HEAD~1", "HEAD")
    assert history.notices == ["requirements.txt differs by commit: each is run with the packages that its own lists"]
    for name, version in ((history.old, "1.0"), (history.new, "2.0")):
        with history.ready(name) as ready:
            ((option, value),) = ready.options
            folder = Path(value.removeprefix("PYTHONPATH="))
            assert option == "--env"
            assert install.installed(folder) == {"thing": version}
    assert history.others(history.old, history.new) == ["thing 1.0 to 2.0"]


def test_installed_packages_that_are_used_for_all_are_said(repository: Repository, tmp_path: Path) -> None:
    for number in (1, 2):
        (repository.folder / "uv.lock").write_text(str(number))
        repository.commit(f"change {number}")
    history = commits(repository, tmp_path, "HEAD~1", "HEAD")
    assert len(history.notices) == 1
    assert history.notices[0].startswith("uv.lock changes between the two")


def test_packages_of_node_are_those_of_the_checkout(repository: Repository, tmp_path: Path) -> None:
    repository.line(2, 1, "    pass\n")
    (repository.folder / "node_modules").mkdir()
    history = commits(repository, tmp_path, "HEAD~1", "HEAD")
    with history.ready(history.new) as ready:
        assert ready.folder is not None
        assert (ready.folder / "node_modules").resolve() == repository.folder / "node_modules"
    assert (repository.folder / "node_modules").is_dir()


def test_a_command_builds_each_commit(repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository.line(2, 1, "    pass\n")
    monkeypatch.chdir(repository.folder / "src")
    history = commits(repository, tmp_path, "HEAD~1", "HEAD", build="cp app.py built.py")
    with history.ready(history.new) as ready:
        assert ready.folder is not None
        assert (ready.folder / "src" / "built.py").is_file()
    failing = commits(repository, tmp_path, "HEAD~1", "HEAD", build="echo no compiler >&2; false")
    with pytest.raises(Exception, match="--build: no compiler"), failing.ready(failing.new):
        pass
    assert not (repository.folder / "src" / "built.py").exists()
