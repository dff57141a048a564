"""`truemem layer-files`: the layer in a folder, for a container image."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attach.pages import instructions
from tests.publish.conftest import Build
from tests.report.conftest import Command


@pytest.fixture(autouse=True)
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The present folder, as for `docker build .`, with a umask under which other users cannot read new files."""
    folder = tmp_path / "context"
    folder.mkdir()
    monkeypatch.chdir(folder)
    before = os.umask(0o077)
    yield folder
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): f"{path.stat().st_mode & 0o777:o}" for path in folder.rglob("*")}


def test_all_users_may_read_the_files_and_start_programs(truemem: Command, context: Path) -> None:
    assert truemem("layer-files", "opt").code == 0
    found = modes(context / "opt")
    readable = {name: mode for name, mode in found.items() if Path(name).suffix in (".py", ".cjs", ".txt", ".yaml")}
    assert len(readable) >= 2
    assert set(readable.values()) == {"644"}
    assert {mode for name, mode in found.items() if name not in readable} == {"755"}
    assert {"extensions", "extensions/truemem", "truemem", "truemem/exact"} <= found.keys() - readable.keys()


@pytest.mark.parametrize("architecture", ["x86_64", "arm64"])
def test_they_are_of_the_architecture_that_is_asked_for(truemem: Command, context: Path, architecture: str) -> None:
    truemem("layer-files", "--architecture", architecture, "opt")
    done = subprocess.run([context / "opt" / "extensions" / "truemem"], capture_output=True, text=True, check=True)
    assert done.stdout == f"the first sidecar for {architecture}\n"


@pytest.mark.parametrize(
    ("folder", "copied"), [("opt", "opt/"), ("./images/opt/", "images/opt/"), ("../context/opt", "opt/")]
)
def test_two_lines_for_the_dockerfile_are_printed(truemem: Command, context: Path, folder: str, copied: str) -> None:
    ran = truemem("layer-files", folder)
    wrote = "truemem layer-files: wrote the files for x86_64. For an arm64 image: --architecture arm64"
    assert ran.err.splitlines()[0] == wrote
    assert instructions(ran.out) == [
        ("COPY", f"{copied} /opt/"),
        ("ENV", "AWS_LAMBDA_EXEC_WRAPPER=/opt/truemem/exact"),
    ]
    assert (context / copied / "truemem" / "exact").is_file()


def test_a_later_layer_takes_the_place_of_an_earlier_one(truemem: Command, build: Build, context: Path) -> None:
    truemem("layer-files", "opt")
    build("the second sidecar")
    assert truemem("layer-files", "opt").code == 0
    assert "the second sidecar" in (context / "opt" / "extensions" / "truemem").read_text()


@pytest.mark.parametrize(
    ("there", "said"),
    [
        (
            ["mkdir -p opt/extensions", "touch opt/extensions/agent"],
            "opt has other files, such as opt/extensions/agent",
        ),
        (["mkdir elsewhere opt", "ln -s ../elsewhere opt/extensions"], "opt has other files, such as opt/extensions"),
        (["touch opt"], "opt is no folder"),
    ],
)
def test_a_folder_with_other_files_is_refused(truemem: Command, context: Path, there: list[str], said: str) -> None:
    for command in there:
        subprocess.run(command, shell=True, check=True)
    before = sorted(context.rglob("*"))
    assert f" layer-files: {said}. Try " in truemem("layer-files", "opt").refusal
    assert sorted(context.rglob("*")) == before


def test_an_installation_without_the_layer_says_so(
    truemem: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("truemem_workbench.aws.layer_zips.CHECKOUT", tmp_path)
    (tmp_path / "wheel" / "truemem-layer-arm64.zip").unlink()
    assert "there is no layer for arm64 here" in truemem("layer-files", "--architecture", "arm64", "opt").refusal
