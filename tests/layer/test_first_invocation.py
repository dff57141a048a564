"""The first INVOKE, where the runtime is ready within a millisecond: the sidecar asks for it before all its parts are
made, and must measure it all the same."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from truemem_workbench.local import Function
from truemem_workbench.testing.environment import SLACK_MIB, Environment, Record

from layer.__main__ import default_cache
from layer.toolchain import Toolchain
from tests.layer.built import Layer

RUNTIME = Path(__file__).with_name("ready_at_once.c")


@pytest.fixture(scope="module")
def at_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Function]:
    """That runtime, as a function's bootstrap."""
    toolchain = Toolchain(default_cache(), print)
    bootstrap = tmp_path_factory.mktemp("at_once") / "bootstrap"
    command: list[str | Path] = [
        toolchain.compiler("x86_64"),
        "-static",
        "-D_GNU_SOURCE",
        "-O2",
        RUNTIME,
        "-o",
        bootstrap,
    ]
    subprocess.run(command, env=toolchain.environment(), check=True)
    for folder in (bootstrap.parent, bootstrap.parent.parent, bootstrap.parent.parent.parent):
        folder.chmod(0o755)
    yield Function.from_bootstrap(bootstrap)


def first(runtime: Function, layer: Layer, release: str, exact: bool) -> tuple[Record, float]:
    """The record of an environment's first invocation, and the true peak in MiB."""
    with Environment(runtime, sidecar=layer.executable, exact=exact, release=release) as environment:
        made = environment.local.invoke("40 MiB for 20 ms")
        environment.local.invoke("1 MiB for 1 ms")
        record = environment.records()[0]
    assert (record.requestId, record.coldStart) == (made.request_id, True)
    return record, int(str(made.payload)) / 1024


@pytest.mark.parametrize("release", ["runtime:500", "together", "extension:300", "aws"])
@pytest.mark.parametrize("exact", [False, True], ids=["default", "exact mode"])
def test_it_is_measured_as_any_other(at_once: Function, native: Layer, release: str, exact: bool) -> None:
    record, truth = first(at_once, native, release, exact)
    assert record.peakLower <= truth + SLACK_MIB
    assert record.peakUpper is None or truth <= record.peakUpper + SLACK_MIB
    assert abs(record.PeakRSS - truth) <= SLACK_MIB or record.raced
    if exact:
        assert (record.mode, record.raced) == ("exact", None)
        assert abs(record.PeakRSS - truth) <= SLACK_MIB
