"""What `sam build` makes of a clone: the thing that would be deployed."""

import os
import subprocess
from pathlib import Path

import pytest

from testing.installs import Missing
from tests.attach.pages import cfn_lint
from tests.layer.built import MACHINES, machine, script
from tests.template import sam
from tests.template.sam import ROOT

pytestmark = pytest.mark.timeout(sam.LONGEST_S + 120)


LAYERS = {"TruememX86": "x86_64", "TruememArm": "arm64"}
FUNCTIONS = {"IncidentX86": "x86_64", "RepairedX86": "x86_64", "IncidentArm": "arm64", "RepairedArm": "arm64"}

MAKEFILE = ROOT / "deploy" / "layer" / "Makefile"


@pytest.mark.nightly  # installs sam; cfn-lint, which it runs, is run below
def test_sam_validates_it_with_lint(tmp_path: Path) -> None:
    try:
        done = sam.run("validate", "--lint", "--template", str(ROOT / "template.yaml"), folder=tmp_path)
    except Missing as reason:
        pytest.skip(str(reason))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "template", ["template.yaml", pytest.param("deploy/canary/template.yaml", marks=pytest.mark.nightly)]
)
def test_cfn_lint_has_nothing_to_say(template: str) -> None:
    assert cfn_lint(ROOT / template, "--include-checks", "I") == ""


@pytest.mark.parametrize(("name", "architecture"), LAYERS.items())
def test_a_layers_executables_are_for_its_architecture(name: str, architecture: str, build: Path) -> None:
    """That all else is as in the zip is in `test_image`."""
    for executable in (build / name / "extensions" / "truemem", build / name / "truemem" / "exact"):
        assert machine(executable) == MACHINES[architecture]
        assert executable.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(("name", "architecture"), FUNCTIONS.items())
def test_a_function_has_packages_for_its_architecture_and_python(name: str, architecture: str, build: Path) -> None:
    libraries = [path for path in (build / name).rglob("*.so*") if machine(path) is not None]
    assert {machine(path) for path in libraries} == {MACHINES[architecture]}
    core = [path.name for path in libraries if path.name.startswith("_multiarray_umath.")]
    assert core
    assert all("cpython-313-" in found for found in core)
    assert (build / name / "app.py").read_bytes() == (ROOT / "sample_function" / "app.py").read_bytes()


def clone(folder: Path) -> Path:
    """As much of a fresh clone as the Makefile of the layers looks at; its tools only say how they were called."""
    makefile = folder / "deploy" / "layer" / "Makefile"
    makefile.parent.mkdir(parents=True)
    makefile.write_bytes(MAKEFILE.read_bytes())
    (folder / "layer").mkdir()
    (folder / "layer" / "__main__.py").touch()
    script(folder, 'echo "python $*"', "python")
    (folder / "Makefile").write_text(
        "setup:\n\t@echo setting up\n\t@mkdir -p .venv/bin && cp python .venv/bin/python\n"
    )
    return makefile


def made(makefile: Path, target: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """As SAM calls it: elsewhere, with the Makefile's path and ARTIFACTS_DIR."""
    command = ["make", "--makefile", str(makefile), target]
    return subprocess.run(
        command, cwd=folder, env={**os.environ, "ARTIFACTS_DIR": "OUT"}, capture_output=True, text=True, check=False
    )


def test_a_fresh_clone_is_set_up_first(tmp_path: Path) -> None:
    makefile = clone(tmp_path / "clone")
    first = made(makefile, "build-TruememArm", tmp_path)
    assert first.returncode == 0, first.stderr
    assert "setting up" in first.stdout
    assert "python -m deploy.layer_content arm64 OUT" in first.stdout
    second = made(makefile, "build-TruememX86", tmp_path)
    assert "setting up" not in second.stdout
    assert "python -m deploy.layer_content x86_64 OUT" in second.stdout
