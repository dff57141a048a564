"""A root folder of its own, read-only, filled by `truemem layer-files`: as the image of a customer-managed runtime."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest
from truemem_workbench.attach.change import DEFAULT_PYTHON_PATH, HEAP_FOLDER, PYTHON_PATH
from truemem_workbench.aws import layer_zips
from truemem_workbench.local import Function

from testing.environment import SLACK_MIB, Environment
from tests.layer.built import Layer, script
from tests.report.conftest import Command, truemem

__all__ = ["truemem"]

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="chroot and mount need root")

BOOTSTRAP = "var/runtime/bootstrap"


@pytest.fixture
def root(native: Layer, truemem: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With /opt alone: no runtime yet, no shell, no Python."""
    monkeypatch.setattr(layer_zips, "WHEEL", native.archive.parent)
    root = tmp_path / "root"
    for folder in ("proc", "tmp", "var/runtime", "var/task"):
        (root / folder).mkdir(parents=True)
    assert truemem("layer-files", root / "opt").code == 0
    return root


def inside(root: Path, name: str, command: str) -> Path:
    """An executable that runs the command in this root as Lambda's user. /tmp alone can be written."""
    tmp = root.with_name("tmp")
    tmp.mkdir(exist_ok=True)
    tmp.chmod(0o777)
    steps = [
        f"mount --bind {root} {root}",
        f"mount --rbind /proc {root}/proc",
        f"mount --bind {tmp} {root}/tmp",
        f"mount -o remount,bind,ro {root}",
        f"export TMPDIR=/tmp && exec /usr/sbin/chroot --userspec=993:990 {root} {command}",
    ]
    return script(root.with_name("started"), f"exec unshare --mount sh -c '{' && '.join(steps)}'", name)


def environment(root: Path, command: str, variables: Mapping[str, str] | None = None) -> Environment:
    return Environment(
        Function.from_bootstrap(inside(root, "bootstrap", command)),
        sidecar=inside(root, "truemem", "/opt/extensions/truemem"),
        environment=variables,
        user="current",
        release="extension:3000",  # so that the default mode has no race
    )


def files_of(pid: int) -> set[Path]:
    """What the process has mapped or open, and its root."""
    process = psutil.Process(pid)
    mapped = [each.path for each in process.memory_maps() if each.path.startswith("/")]
    opened = [each.path for each in process.open_files()]
    return {Path(f"/proc/{pid}/root").readlink(), *map(Path, (*mapped, *opened))}


@pytest.mark.parametrize("wrapper", ["", "/opt/truemem/exact "], ids=["default", "exact"])
def test_measures_a_runtime_without_shell_or_python(root: Path, static_runtime: Path, wrapper: str) -> None:
    shutil.copy(static_runtime, root / BOOTSTRAP)
    with environment(root, f"{wrapper}/{BOOTSTRAP}") as made:
        truths = [int(str(made.local.invoke(f"{mib} MiB for 20 ms").payload)) / 1024 for mib in (40, 1)]
        used = set[Path]().union(*map(files_of, made.local.processes().values()))
        spike, _ = made.records()
    assert spike.PeakRSS == pytest.approx(truths[0], abs=SLACK_MIB)
    assert spike.CurrentRSS == pytest.approx(truths[0] - 41, abs=SLACK_MIB)  # it gives 40 + 1 MiB back
    assert spike.mode == ("exact" if wrapper else None)
    assert used == {root, root / BOOTSTRAP, root / "opt/extensions/truemem"}


def copied(file: str | Path, root: Path) -> None:
    """Copy a file or a folder to the same path below the root."""
    place = root / Path(file).relative_to("/")
    if Path(file).is_dir():
        shutil.copytree(file, place, ignore=shutil.ignore_patterns("*-packages", "test", "__pycache__", "config-*"))
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place)


def with_python(root: Path) -> Path:
    """Copy the interpreter with its libraries and AWS's runtime client into the root. Returns its path in there."""
    python, library = Path(sys.executable).resolve(), Path(sysconfig.get_path("stdlib"))
    specs = map(find_spec, ("awslambdaric", "runtime_client", "simplejson", "snapshot_restore_py"))
    client = [Path(spec.origin) for spec in specs if spec and spec.origin]
    native = [python, *library.glob("lib-dynload/*.so"), *(path for path in client if path.suffix == ".so")]
    linked = subprocess.run(["ldd", *native], capture_output=True, text=True, check=True).stdout
    for path in {python, library, *re.findall(r"(?<!\S)/\S+(?= \()", linked)}:
        copied(path, root)
    for path in client:
        if path.name == "__init__.py":
            shutil.copytree(path.parent, root / "var/runtime" / path.parent.name)
        else:
            shutil.copy(path, root / "var/runtime")
    return python


HANDLER = """
kept = []
def handler(event, context):
    kept.append(b"x" * (event["mib"] << 20))
"""


def test_the_heap_probe_works_in_it(root: Path) -> None:
    """In Python, with the variable that `attach --heap` sets."""
    python = with_python(root)
    (root / "var/task/app.py").write_text(HANDLER)
    start = f"#!{python}\nfrom awslambdaric.__main__ import main\nmain(['bootstrap', 'app.handler'])\n"
    (root / BOOTSTRAP).write_text(start)
    (root / BOOTSTRAP).chmod(0o755)
    variables = {PYTHON_PATH: f"{HEAP_FOLDER}:{DEFAULT_PYTHON_PATH}:/var/task"}
    with environment(root, f"/opt/truemem/exact /{BOOTSTRAP}", variables) as made:
        for mib in (20, 30):
            assert made.local.invoke({"mib": mib}).function_error is None
        used = set[Path]().union(*map(files_of, made.local.processes().values()))
        first, second = made.records()
    assert second.CurrentRSS - first.CurrentRSS == pytest.approx(30, abs=SLACK_MIB)
    assert second.heap["mapped"] - first.heap["mapped"] == pytest.approx(30, abs=SLACK_MIB)
    assert {path for path in used if not path.is_relative_to(root)} == set()
