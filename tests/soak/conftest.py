"""The command itself, in this process or in one of its own."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from truemem_workbench.commands.__main__ import cli

FUNCTIONS = Path(__file__).with_name("functions")
QUICK = f"{FUNCTIONS / 'quick.py'}:handler"
FAILING = f"{FUNCTIONS / 'quick.py'}:failing"
SLOW = f"{FUNCTIONS / 'quick.py'}:slow"

Soak = Callable[..., Result]


@pytest.fixture
def invoke_soak(monkeypatch: pytest.MonkeyPatch) -> Soak:
    """`truemem soak ARGUMENTS`, in this process."""
    monkeypatch.setattr("truemem_workbench.support.exit_codes.raise_on_signals", lambda: None)  # they are pytest's

    def invoke(*arguments: object) -> Result:
        return CliRunner().invoke(cli, ["soak", *map(str, arguments)])

    return invoke
