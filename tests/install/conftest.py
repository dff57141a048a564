"""truemem as a user installs it: a wheel of this clone, in virtual environments of their own."""

import os
import pty
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from deploy.materials import requirements_of
from tests.account.conftest import account
from tests.install.dependencies import PLAIN
from tests.report.conftest import aws, aws_endpoint

__all__ = ["account", "aws", "aws_endpoint"]

ROOT = Path(__file__).parents[2]
SOURCES = (
    "benchmarks/results",
    "deploy",
    "docs",
    "extension",
    "infrastructure",
    "layer/python",
    "layer/truemem",
    "libraries",
    "research",
    "sample_function",
    "skills",
    "workbench",
    "pyproject.toml",
    "setup.py",
    "mkdocs.yml",
    "LICENSE",
    *(path.name for path in ROOT.glob("*.md")),
)
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")


class Installed:
    """One virtual environment with the wheel in it."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"

    def __call__(
        self, program: str, *arguments: str | Path, cwd: Path, **more: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of this environment, in another folder than the checkout, with `more` variables."""
        command: list[str | Path] = [self.bin / program, *arguments]
        hidden = ("PYTHONPATH", "VIRTUAL_ENV", "COLUMNS", "GITHUB_STEP_SUMMARY", "AWS_REGION", "AWS_DEFAULT_REGION")
        variables = {name: value for name, value in os.environ.items() if name not in hidden} | more
        return subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, timeout=600, check=False)


def in_a_terminal(
    command: Sequence[str | Path], cwd: Path, variables: Mapping[str, str] | None = None, typed: str = ""
) -> tuple[int, str]:
    """Run the command in a terminal where the user types that. Returns its exit code and what the terminal showed."""
    controller, terminal = pty.openpty()
    running = subprocess.Popen(command, cwd=cwd, env=variables, stdin=terminal, stdout=terminal, stderr=terminal)
    os.close(terminal)
    os.write(controller, typed.encode())
    shown = b""
    with suppress(OSError):  # its last writer has ended
        while data := os.read(controller, 65536):
            shown += data
    os.close(controller)
    return running.wait(timeout=100), shown.decode(errors="replace")


@pytest.fixture(scope="session")
def zips() -> list[Path]:
    """The layer as `make test` builds it before the tests; without it the test is skipped."""
    built = sorted((ROOT / "dist").glob("truemem-layer-*.zip"))
    if len(built) != 2:
        pytest.skip(f"{ROOT / 'dist'} has no layer: make layer")
    return built


@pytest.fixture(scope="session")
def wheel(zips: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `make wheel` builds it, of a copy: an older build in the checkout must not get in."""
    folder = tmp_path_factory.mktemp("wheel")
    (folder / "copy" / "dist").mkdir(parents=True)
    for path in (*zips, *(ROOT / "dist").glob("malloc_sampler-*.so")):
        shutil.copy(path, folder / "copy" / "dist")
    shutil.copytree(ROOT / "dist" / "aws-lambda-ric", folder / "copy" / "dist" / "aws-lambda-ric")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, folder / "copy" / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules")
            )
        else:
            shutil.copy(ROOT / name, folder / "copy" / name)
    build = [*PIP, "wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(folder)]
    subprocess.run([*build, folder / "copy"], check=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="session")
def install(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Installed]:
    """Make an environment with the wheel, and links to the distributions that are wanted and installed here."""

    def make(*, only: Collection[str] | None = None, folder: Path | None = None) -> Installed:
        folder = folder or tmp_path_factory.mktemp("installed")
        venv.create(folder, symlinks=True)
        packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
        here = Path(sysconfig.get_path("purelib"))
        for each in distributions(path=[str(here)]):
            name = canonicalize_name(each.name)
            if (only is None or name in only) and name != "truemem":
                for entry in {path.parts[0] for path in each.files or ()} - {"..", "__pycache__"}:
                    if not (packages / entry).is_symlink():  # a namespace: of several
                        (packages / entry).symlink_to(here / entry)
        subprocess.run(
            [*PIP, "--python", folder / "bin" / "python", "install", "--no-deps", "--no-index", wheel], check=True
        )
        return Installed(folder)

    return make


@pytest.fixture(scope="session")
def complete(install: Callable[..., Installed]) -> Installed:
    """With every extra."""
    return install()


@pytest.fixture(scope="session")
def bare(install: Callable[..., Installed]) -> Installed:
    """With what `pip install truemem` brings, and a user's own pytest."""
    return install(only=requirements_of({*PLAIN, "pytest"}))
