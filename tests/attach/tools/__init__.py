"""What the snippets of docs/attach.md are for: installed once, each in a folder of its own below the environment's.

Each of these functions raises Missing where this machine cannot have it.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from pathlib import Path

from tests.scenarios.clients.installed import CACHE, Missing, node

HERE = Path(__file__).parent
PROVIDERS = (Path("/opt/tf-plugins"), Path.home() / ".terraform.d" / "plugins", Path("/usr/share/terraform/plugins"))
"""Folders with providers, laid out as `terraform init -plugin-dir` wants them."""


def aws() -> Path:
    """The real AWS CLI."""
    lock = HERE / "awscli.lock"
    folder = CACHE / "awscli"
    if not _ready(folder, lock):
        _begin(folder)
        _run([sys.executable, "-m", "venv", str(folder)])
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, "--no-deps", "--require-hashes", "-r", str(lock)])
        shutil.copy(lock, folder / ".made-of")
    return folder / "bin" / "aws"


def typescript() -> Path:
    """TypeScript's compiler as a module for `node()`."""
    node()
    lock = HERE / "package-lock.json"
    folder = CACHE / "typescript"
    if not _ready(folder, lock):
        if shutil.which("npm") is None:
            raise Missing("there is no npm on the path")
        _begin(folder)
        for name in ("package.json", lock.name):
            shutil.copy(HERE / name, folder)
        _run(["npm", "ci", "--no-audit", "--no-fund", "--prefix", str(folder)])
        shutil.copy(lock, folder / ".made-of")
    return folder / "node_modules" / "typescript"


def terraform() -> Path:
    """The one on the path."""
    found = shutil.which("terraform")
    if found is None:
        raise Missing("there is no terraform on the path")
    return Path(found)


def aws_provider() -> Path:
    """A folder for `terraform init -plugin-dir` that has the AWS provider."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    for folder in PROVIDERS:
        if list(folder.glob(f"registry.terraform.io/hashicorp/aws/*/{sys.platform}_{machine}")):
            return folder
    raise Missing(f"Terraform's AWS provider is in none of {', '.join(map(str, PROVIDERS))}")


def _ready(folder: Path, lock: Path) -> bool:
    made = folder / ".made-of"
    return made.is_file() and made.read_text() == lock.read_text()


def _begin(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def _run(command: list[str]) -> None:
    """A command that fails is a machine without network."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).rpartition("\n")[2]
        raise Missing(f"{' '.join(command[:4])} failed: {last}")
