"""The gate on each interpreter that Lambda has and this machine can have: a leak fails, what is level passes.

Python and Node.js also name the line. Java and Ruby run through a bootstrap, as a function for them would here.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from testing import cases
from testing.installs import NODES, Missing, node
from tests.heaps.jvms import VERSIONS, install, java
from tests.install.test_pythons import interpreter
from tests.local.conftest import executable

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

TRUEMEM = Path(sys.executable).with_name("truemem")
FUNCTIONS = Path(__file__).with_name("functions")
PYTHON = """
type Size = int  # syntax of 3.12
KEPT = []


def leak(event, context):
    KEPT.append(bytearray(32 * 1024))


def level(event, context):
    return len(bytearray(32 * 1024))
"""
RUBY = {
    "leak": "KEPT = []\ndef handler(event)\n  KEPT << ('x' * 32_768)\n  KEPT.size\nend\n",
    "level": "def handler(event)\n  ('x' * 32_768).size\nend\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)  # the function may run as another user
    return tmp_path


def checked(target: str, *options: str, path: str = "") -> dict[str, Any]:
    """The document of `truemem check`, with this folder first on the PATH."""
    variables = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}" if path else os.environ["PATH"]}
    command = [str(TRUEMEM), "check", target, *options, "--json"]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.mark.parametrize("version", NODES)
def test_node(folder: Path, version: str) -> None:
    try:
        path = str(node(version).parent)
    except Missing as reason:
        pytest.skip(str(reason))
    shutil.copy(FUNCTIONS / "versions.mjs", folder / "app.mjs")
    leak, level = (checked(f"{folder}/app.mjs:{name}", path=path) for name in ("buffers", "garbage"))
    assert (leak["outcome"], leak["finding"]["cause"], level["outcome"]) == ("failed", "leak", "passed")
    assert leak["explanation"]["lines"][0]["source"].startswith("uploads.push(")


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13", "3.14", "3.15"])
def test_python(folder: Path, version: str) -> None:
    program = interpreter(version)
    source = PYTHON if version >= "3.12" else PYTHON.replace("type Size", "Size")
    (folder / "app.py").write_text(source)
    leak, level = (checked(f"{folder}/app.py:{name}", "--python", program) for name in ("leak", "level"))
    assert (leak["outcome"], leak["finding"]["cause"], level["outcome"]) == ("failed", "leak", "passed")
    assert leak["explanation"]["lines"][0]["source"] == "KEPT.append(bytearray(32 * 1024))"


@pytest.mark.parametrize("version", VERSIONS)
def test_java(version: str) -> None:
    install(version)
    (case,) = (case for case in cases.cases() if case.name == "java_registry")
    try:
        program = cases.ready(case)
    except Missing as reason:
        pytest.skip(str(reason))
    # jcmd, which collects, is slow beside other tests: do not give up after two minutes
    document = checked(program.target, *case.options, "--most", "2000", path=str(Path(java(version)).parent))
    assert (document["outcome"], document["finding"]["cause"]) == ("failed", "leak"), document["finding"]
    assert document["finding"]["holder"] == "live objects"


@pytest.mark.skipif(shutil.which("ruby") is None, reason="no ruby on the path")
@pytest.mark.parametrize(("name", "outcome"), [("leak", "failed"), ("level", "passed")])
def test_ruby(folder: Path, name: str, outcome: str) -> None:
    bootstrap = executable(folder / "bootstrap", (cases.RUNTIMES / "bootstrap.rb").read_text())
    (folder / "app.rb").write_text(RUBY[name])
    assert checked(str(bootstrap))["outcome"] == outcome
