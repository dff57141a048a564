"""What the snippets of docs/ are for: installed once, each in a folder of its own below the environment's.

Each of these functions raises Missing where this machine cannot have it.
"""

import platform
import shutil
import sys
from pathlib import Path

from testing.installs import CACHE, Missing, node_packages, python_packages
from tests.scenarios.clients.installed import node

HERE = Path(__file__).parent
PROVIDERS = (Path("/opt/tf-plugins"), Path.home() / ".terraform.d" / "plugins", Path("/usr/share/terraform/plugins"))
"""Folders with providers, laid out as `terraform init -plugin-dir` wants them."""


def aws() -> Path:
    """The real AWS CLI."""
    return python_packages(CACHE / "awscli", (HERE / "awscli.lock").read_text()) / "aws"


def typescript() -> Path:
    """TypeScript's compiler as a module for `node()`."""
    node()
    return node_packages(CACHE / "typescript", HERE) / "typescript"


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
        if list(folder.glob(f"*/hashicorp/aws/*/{sys.platform}_{machine}")):
            return folder
    raise Missing(f"Terraform's AWS provider is in none of {', '.join(map(str, PROVIDERS))}")
