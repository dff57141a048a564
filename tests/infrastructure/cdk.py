"""The CDK package, built as `make cdk` builds it, but outside the checkout, and once for each state of its sources."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from testing.installs import CACHE, begin, finish, node_packages, python_packages, ready, run
from tests.attach.test_snippets import WRAPPER

ROOT = Path(__file__).parents[2]
CDK = ROOT / "infrastructure" / "cdk"
HERE = Path(__file__).parent
EXACT = {"AWS_LAMBDA_EXEC_WRAPPER": WRAPPER}
VENDOR = "/opt/vendor_wrapper"
ARN = "arn:aws:lambda:eu-west-1:123456789012:layer:truemem-x86_64:1"
SOURCES = ("package.json", "README.md", "src/index.ts", "src/plan.ts")


def packages() -> Path:
    """Folder with `js/` and `python/`: what `npm install` and `pip install` take.

    Raises Missing without what it is built with; fails the test if it does not build.
    """
    project = node_packages(CACHE / "cdk", CDK).parent
    made = CACHE / "cdk-packages"
    made_of = "".join((CDK / name).read_text() for name in SOURCES)
    if not ready(made, made_of):
        begin(made)
        for name in SOURCES:
            (project / name).parent.mkdir(exist_ok=True)
            shutil.copy(CDK / name, project / name)
        started(["npm", "run", "build"], project)
        started(["npm", "run", "package", "--", "--outdir", made], project)
        finish(made, made_of)
    return made


def node_app(folder: Path) -> Path:
    """Make `folder` a Node.js project that has the package and aws-cdk-lib installed. Raises Missing."""
    archive = next((packages() / "js").iterdir())
    modules = CACHE / "cdk" / "node_modules"
    shutil.rmtree(modules / "truemem-cdk", ignore_errors=True)
    shutil.unpack_archive(archive, modules, "gztar")
    (modules / "package").rename(modules / "truemem-cdk")
    (folder / "node_modules").symlink_to(modules)
    return folder


def python_app() -> Path:
    """An interpreter that has the wheel and aws-cdk-lib installed. Raises Missing."""
    wheel = next((packages() / "python").glob("*.whl"))
    python = python_packages(CACHE / "cdk-python", (HERE / "tools" / "cdk.lock").read_text()) / "python"
    run([str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--force-reinstall", str(wheel)])
    return python


def started(command: Sequence[str | Path], folder: Path, given: str = "") -> str:
    """What the program prints. Fails the test if the program fails."""
    done = subprocess.run(command, cwd=folder, input=given, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-1000:]
    return done.stdout
