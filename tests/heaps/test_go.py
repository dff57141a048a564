"""The library of one file for functions in Go (libraries/go), built and run under the local Lambda."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from truemem_workbench.local import Function

from testing.environment import Environment, Record

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "libraries" / "go" / "truemem"
GO = shutil.which("go")
pytestmark = pytest.mark.skipif(GO is None, reason="no go on the path")


def go(*arguments: str, folder: Path) -> str:
    variables = {**os.environ, "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
    done = subprocess.run([str(GO), *arguments], cwd=folder, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[Path]:
    """Not in pytest's folder: the function's user cannot read that."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        shutil.copy(Path(__file__).with_name("functions") / "go" / "main.go", folder)
        shutil.copytree(LIBRARY, folder / "truemem")
        (folder / "go.mod").write_text("module function\n\ngo 1.19\n")
        go("vet", "./...", folder=folder)
        go("build", "-o", "bootstrap", ".", folder=folder)
        yield folder / "bootstrap"


def records(bootstrap: Path, *steps: tuple[str, float], **variables: str) -> list[Record]:
    function = Function.from_spec(str(bootstrap))
    with Environment(function, environment=variables, memory_mib=512) as running:
        for do, mib in (*steps, ("nothing", 0)):
            running.invoke(do, mib=mib)
        return running.records()[:-1]


def test_each_invocation_has_the_heap_on_its_line(bootstrap: Path) -> None:
    before, leak, garbage = records(bootstrap, ("collect", 0), ("leak", 30), ("garbage", 10), GOMEMLIMIT="400MiB")
    assert leak.heap["used"] - before.heap["used"] == pytest.approx(30, abs=8)
    for record in (before, leak, garbage):
        assert (record.heap["runtime"], record.heap["limit"]) == ("go", 400)
        assert record.heap["used"] <= record.heap["committed"]
        assert record.heap["collections"] > 0
    assert record.CurrentRSS > record.heap["used"]


def test_live_since_go_1_21_and_a_new_page_for_a_lost_one(bootstrap: Path) -> None:
    version = go("env", "GOVERSION", folder=bootstrap.parent).strip().removeprefix("go")
    steps = [("collect", 0), ("leak", 20), ("collect", 0), ("empty", 0), ("garbage", 20), ("collect", 0)]
    before, _, leaked, _, _, after = records(bootstrap, *steps)
    assert "limit" not in after.heap
    assert after.heap["used"] > 0
    if tuple(map(int, version.split(".")[:2])) >= (1, 21):
        assert leaked.heap["live"] - before.heap["live"] == pytest.approx(20, abs=3)
        assert after.heap["live"] - leaked.heap["live"] == pytest.approx(0, abs=3)
    else:
        assert "live" not in after.heap


@pytest.mark.skipif(shutil.which("gofmt") is None, reason="no gofmt on the path")
def test_it_is_formatted_as_go_does() -> None:
    command = ["gofmt", "-l", str(LIBRARY), str(Path(__file__).with_name("functions") / "go")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == ""
