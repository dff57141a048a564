"""The container image: no daemon here, so that its instructions are read, and its /opt is put together by hand."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.attach.pages import instructions
from tests.layer.built import ROOT
from tests.template import sam

pytestmark = pytest.mark.timeout(sam.LONGEST_S + 120)

DOCKERFILE = ROOT / "deploy" / "Dockerfile"
INSTRUCTIONS = instructions(DOCKERFILE.read_text())
ARGUMENTS = dict(value.split("=", 1) for name, value in INSTRUCTIONS if name == "ARG")
"""With their defaults."""


def test_what_it_copies_is_there_and_not_ignored() -> None:
    ignored = DOCKERFILE.with_name("Dockerfile.dockerignore").read_text()
    copied = [value.split()[0] for name, value in INSTRUCTIONS if name == "COPY" and "--from" not in value]
    assert copied == ["dist/truemem-layer-${ARCHITECTURE}.zip", "sample_function/"]
    assert "!dist/*.zip" in ignored
    assert "!sample_function/*.py" in ignored
    (command,) = (value for name, value in INSTRUCTIONS if name == "CMD")
    assert command == '["app.handler"]'
    assert (ROOT / "sample_function" / "app.py").is_file()


def test_its_opt_is_the_layers_content(build: Path, tmp_path: Path) -> None:
    """The first stage's RUN, with paths below a folder of ours; the layer as `make layer` zips it."""
    (run,) = (value for name, value in INSTRUCTIONS if name == "RUN" and "truemem" in value)
    subprocess.run([sys.executable, "-m", "layer", "--output", tmp_path / "dist"], cwd=ROOT, check=True)
    (tmp_path / "truemem.zip").write_bytes((tmp_path / "dist" / "truemem-layer-x86_64.zip").read_bytes())
    here = re.sub(r"(?<=\s)/truemem", shlex.quote(str(tmp_path)) + "/truemem", f" {run}")
    subprocess.run(["sh", "-ec", here.replace("python3", shlex.quote(sys.executable))], check=True)

    opt, layer = tmp_path / "truemem", build / "TruememX86"
    files = {path.relative_to(opt): path.read_bytes() for path in opt.rglob("*") if path.is_file()}
    assert files == {path.relative_to(layer): path.read_bytes() for path in layer.rglob("*") if path.is_file()}
    checked = subprocess.run([opt / "extensions" / "truemem", "--check"], capture_output=True, text=True, check=True)
    assert checked.stdout.startswith("truemem ")
    started = subprocess.run([opt / "truemem" / "exact", "echo", "started"], capture_output=True, text=True, check=True)
    assert started.stdout == "started\n"
