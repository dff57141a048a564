"""Extras: what `pip install truemem` alone can do, and the line that says what else to install."""

import os
import re
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from truemem_workbench.support.bad_input import MODULES

from tests.install.conftest import ROOT, Installed
from tests.report.written import life, log

APP = "def handler(event, context): ..."
MARKED = "import pytest\n\n@pytest.mark.memory(handler='app.py:handler')\ndef test_memory(): ..."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's own: a log, a function and a test of it."""
    log(tmp_path, life())
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "test_app.py").write_text(MARKED)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "missing", "extra"),
    [
        (["report", "log.txt"], "duckdb", "report"),
        (["page", "log.txt"], "matplotlib", "page"),
        (["check", "app.py:handler"], "aiohttp", "check"),
        (["size", "app.py:handler"], "aiohttp", "check"),
        (["local", "run", "app.py:handler"], "aiohttp", "local"),
        (["demo"], "aiohttp", "demo"),
    ],
)
def test_a_command_names_the_extra_that_it_misses(
    bare: Installed, folder: Path, arguments: list[str], missing: str, extra: str
) -> None:
    done = bare("truemem", *arguments, cwd=folder)
    command = " ".join(["truemem", *arguments[: 2 if arguments[0] == "local" else 1]])
    assert done.stderr == f"{command}: {missing} is not installed. Try pip install 'truemem[{extra}]'\n"
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize("arguments", [["publish"], ["metrics", "--function", "my-function"]])
def test_what_asks_aws_needs_no_extra(bare: Installed, folder: Path, arguments: list[str]) -> None:
    done = bare("truemem", *arguments, cwd=folder, AWS_CONFIG_FILE=os.devnull)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"truemem {arguments[0]}: You must specify a region. Try AWS_REGION=eu-west-1 truemem ...\n"


def test_a_test_with_the_marker_names_the_extra_that_it_misses(bare: Installed, folder: Path) -> None:
    done = bare("python", "-m", "pytest", "-p", "no:cacheprovider", cwd=folder)
    assert "truemem: aiohttp is not installed. Try pip install 'truemem[check]'" in done.stdout
    assert "1 failed" in done.stdout
    assert "Traceback" not in done.stdout


def test_the_names_in_the_line_are_what_the_extra_installs() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    distributions = packages_distributions()

    def requirements(extra: str) -> set[str]:
        inner = [name for name in extras[extra] if name.startswith("truemem[")]
        names = {re.split("[~<>=]", name.lower())[0] for name in extras[extra]} - set(inner)
        return names.union(*(requirements(each) for name in inner for each in name[8:-1].split(",")))

    for extra, modules in MODULES.items():
        # PySpark is not in requirements.lock
        installed = {distributions.get(module, [module])[0].lower().replace("_", "-") for module in modules}
        assert installed <= requirements(extra), extra
        if extra != "demo":  # its function has more, which it imports only if asked
            assert installed == requirements(extra)
