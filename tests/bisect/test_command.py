"""`truemem bisect` as it is typed: real commits, the real gate."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest
from truemem_workbench.commands.bisect import bisect

from tests.attach.pages import block
from tests.bisect.conftest import LARGE, LEAK, Repository

SHORT = ("--max-current", 60, "--invocations", 10, "--no-explain")
"""A commit that holds 64 MiB is told in ten invocations."""


def test_the_commit_is_named_past_a_broken_one(repository: Repository) -> None:
    names = repository.line(4, 2, LARGE, broken={3})
    before = repository.state()
    done = repository.bisect("--good", names[0], "--bad", "HEAD", "--json", *SHORT)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["first"]["subject"] == "change 2"
    assert document["before"]["subject"] == "change 1"
    assert {each["subject"]: each["outcome"] for each in document["tried"]}.items() >= {
        ("change 1", "good"), ("change 2", "bad"), ("change 4", "bad")
    }  # fmt: skip
    assert document["next"] == f"git show {names[1]}"
    assert "max-current" in document["sentence"]
    assert repository.state() == before


def test_ctrl_c_says_what_is_known_and_leaves_nothing(repository: Repository) -> None:
    repository.line(4, 1, LARGE)
    before = repository.state()
    words = repository.words("--good", "HEAD~3", "--bad", "HEAD", *SHORT)
    with subprocess.Popen(
        words, cwd=repository.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stderr is not None
        assert run.stdout is not None
        assert "is bad" in run.stderr.readline()
        time.sleep(0.5)  # the next one runs
        run.send_signal(signal.SIGINT)
        said = run.stdout.read()
    assert run.returncode == 130
    assert "change 1" in said
    assert "Next: truemem bisect src/app.py:handler --good 'HEAD~3' --bad HEAD" in " ".join(said.split()), said
    assert repository.state() == before


def test_every_command_of_the_page_is_one_that_it_takes() -> None:
    for command in block("check.md", "bisect").splitlines():
        with bisect.make_context("truemem bisect", shlex.split(command)[2:]) as context:
            assert context.params["target"]


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_of_thirty_commits_with_broken_ones_the_right_one(repository: Repository) -> None:
    names = repository.line(30, 19, LEAK, broken={3, 11, 12, 15, 16, 24})
    done = repository.bisect("--good", names[0], "--bad", names[-1], "--json")
    document = json.loads(done.stdout)
    assert document["first"]["subject"] == "change 19", document["sentence"]
    assert (document["first"]["cause"], document["before"]["cause"]) == ("leak", "none")
    assert document["first"]["perInvocationKiB"] == pytest.approx(8.2, abs=0.5)
    assert document["line"]["file"] == "src/app.py"
    assert document["line"]["source"].strip() == LEAK.strip()


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_what_cannot_be_told_is_a_range(repository: Repository) -> None:
    names = repository.line(8, 5, LEAK, broken={4})
    done = repository.bisect("--good", names[0], "--bad", names[-1], "--json", "--no-explain")
    document = json.loads(done.stdout)
    assert done.returncode == 2
    assert [each[: len(names[0])] for each in document["candidates"]] == names[3:5]
    assert document["next"] == f"git log --stat {names[2]}..{names[4]}"


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_git_bisect_run_names_the_right_commit(repository: Repository, tmp_path: Path) -> None:
    """Undecided and failing ones are skipped, which `git bisect` does at 125 alone."""
    names = repository.line(8, 6, LEAK, broken={4})
    gate = ["check" if each == "bisect" else each for each in repository.words("--no-explain")]
    for words in (["start", names[-1], names[0]], ["run", *gate, "--undecided-exit", "125"]):
        done = subprocess.run(
            ["git", "bisect", *words], cwd=repository.folder, capture_output=True, text=True, check=True
        )
    assert "is the first bad commit" in done.stdout
    assert "change 6" in done.stdout
