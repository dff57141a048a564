"""The contracts of pyproject.toml: a module imports from below, in no circle, and only tests from tests."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from truemem.startup import WINGS

ROOT = Path(__file__).parents[2]
PLACES = {"truemem": ROOT / "extension", "truemem_workbench": ROOT / "workbench", "testing": ROOT}
WING = next(iter(WINGS))
WRONG = {
    "truemem.support.log -> truemem.linux.procfs": "from ..linux import procfs",
    "truemem.linux.procfs -> truemem.measure.window": "from ..measure import window",
    "truemem.linux.cgroup -> truemem.platform.http1": "from ..platform import http1",
    "truemem.measure.window -> truemem.records.record": "from ..records import record",
    "truemem.records.record -> truemem.startup": "from .. import startup",
    f"truemem.lifecycle.publisher -> truemem.{WING}": f"from .. import {WING}",
    "truemem_workbench.support.terminal -> truemem_workbench.printed.line": "from ..printed import line",
    "truemem_workbench.judge.drift -> truemem_workbench.report.summary": "def f():\n from ..report import summary",
    "truemem_workbench.judge.heap -> truemem.linux.procfs": "from truemem.linux import procfs",
    "truemem_workbench.local.lifecycle.generation -> truemem_workbench.local.apis.http": "from ..apis import http",
    "truemem_workbench.local.processes.memory -> truemem_workbench.local": "from .. import LocalLambda",
    ".target -> .resolve": "def f():\n from .resolve import resolve",  # of truemem_workbench.target
    "truemem_workbench.target.events -> testing.environment": "from testing import environment",
    "testing.workload -> tests.golden": "from tests import golden",
}
"""The import that is reported, and the statement that makes it."""


def test_each_wrong_import_breaks_a_contract_and_each_is_broken(tmp_path: Path) -> None:
    for package, place in PLACES.items():
        shutil.copytree(place / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    for said, statement in WRONG.items():
        module = said.partition(" ")[0]
        module = f"truemem_workbench.target{module}" if module.startswith(".") else module
        path = tmp_path.joinpath(*module.split(".")).with_suffix(".py")
        path.write_text(f"{path.read_text()}\n{statement}\n")
    command: list[str | Path] = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    command += ["--config", ROOT / "pyproject.toml"]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    reported = " ".join(done.stdout.split())
    assert [said for said in WRONG if said not in reported] == []
    assert "Contracts: 0 kept" in reported
