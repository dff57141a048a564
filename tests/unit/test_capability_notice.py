"""What the log says at the first invocation."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from truemem.config import Config
from truemem.lifecycle.capability_notice import notice
from truemem.linux.process_table import ProcessTable
from truemem.linux.procfs import Procfs

from tests.golden import unpack

ADDRESS = "127.0.0.1:9001"


def said(folder: Path, capfd: pytest.CaptureFixture[str]) -> list[str]:
    table = ProcessTable(Procfs(str(folder)), ADDRESS, last_pid=24, own_pid=20)
    table.scan()
    recorder, surroundings = SimpleNamespace(reader=SimpleNamespace(refused="")), SimpleNamespace(source="meminfo")
    notice(Config({}), table, recorder, surroundings, method="vmhwm", telemetry="on")  # type: ignore[arg-type]
    return capfd.readouterr().err.splitlines()


def test_with_a_function_one_line_says_what_there_is(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (line,) = said(unpack("emulator", tmp_path), capfd)
    says = "method=vmhwm function processes=2 environment=meminfo telemetry=on mode=default limit=unknown MiB"
    assert line == f"truemem INFO {says}"


def test_without_a_function_it_says_what_it_looked_for(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    unpack("emulator", tmp_path)
    for pid in "30", "31":
        shutil.rmtree(tmp_path / pid)
    _, line = said(tmp_path, capfd)
    assert line.startswith("truemem WARN no process of the function is found, nothing is measured: it is what")
    assert "started by pid 5 after us; seen instead: 4 of extensions, 0 with another" in line
    assert ADDRESS not in line
