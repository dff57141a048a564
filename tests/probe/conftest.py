"""An account for the probe: moto's server, behind a service that can run functions and refuse requests."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.aws import layer_zips
from truemem_workbench.support import exit_codes

from research.probe import __main__ as command
from research.probe import deployment, questions, run
from tests.probe.account import Account, account_at
from tests.report import conftest as report
from tests.template.stack import EMPTY_ZIP

aws, aws_endpoint = report.aws, report.aws_endpoint


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> report.Command:
    """`python -m research.probe` in this process."""

    def run(*arguments: str) -> report.Ran:
        monkeypatch.setattr(sys, "argv", [command.NAME, *arguments])
        return report.Ran(exit_codes.run(command.probe, command.NAME), *capsys.readouterr())

    return run


@pytest.fixture
def account(
    aws: Callable[[str], Any], aws_endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Account]:
    """An empty account that the command finds, with layers to upload. Its log is not waited for."""
    for architecture in layer_zips.ARCHITECTURES:
        (tmp_path / f"truemem-layer-{architecture}.zip").write_bytes(EMPTY_ZIP)
    monkeypatch.setattr(layer_zips, "WHEEL", tmp_path)
    pauses = [
        (run, "LOG_S"),
        (run, "SETTLE_S"),
        (run, "PAUSE_S"),
        (deployment, "PAUSE_S"),
        (deployment, "GIVEN_UP_S"),
        (questions, "IDLE_S"),
    ]
    for module, name in pauses:
        monkeypatch.setattr(module, name, 0)
    monkeypatch.setattr(questions, "INVOCATIONS", 2)
    with account_at(aws_endpoint, aws) as made:
        monkeypatch.setenv("AWS_ENDPOINT_URL", made.address)
        yield made
