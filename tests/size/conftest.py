"""Memory sizes with invented figures, and the command itself."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from truemem_workbench.commands.__main__ import cli
from truemem_workbench.size.choice import Trial

FUNCTIONS = Path(__file__).with_name("functions")
HASHING = f"{FUNCTIONS / 'hashing.py'}:handler"

Size = Callable[..., Result]


def tried(memory: int, *durations: float, **members: Any) -> Trial:
    """A size at which these invocations went well, ms, and 60 MiB were needed."""
    seen: dict[str, Any] = {"invocations": len(durations), "peak": 50.0, "others": 10.0, "current": 40.0, "init": 300.0}
    return Trial(memory=memory, durations=[*durations], **seen | members)


HASHED = [tried(128, 3540), tried(256, 1720), tried(512, 920), tried(1024, 421), tried(1769, 360)]
"""A handler that computes: its p50 at each size."""


@pytest.fixture
def invoke_size(monkeypatch: pytest.MonkeyPatch) -> Size:
    """`truemem size ARGUMENTS`, in this process."""
    monkeypatch.setattr("truemem_workbench.support.exit_codes.raise_on_signals", lambda: None)  # they are pytest's

    def invoke(*arguments: object) -> Result:
        return CliRunner().invoke(cli, ["size", *map(str, arguments)])

    return invoke
