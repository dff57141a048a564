"""An hour of frost: the wall clock is an hour further, the monotonic one may have run on, stood still, or gone back.

Nothing here can stop the kernel's clocks: the sidecar reads them through a shift that the test moves while all is
frozen, and so does the platform.
"""

import mmap
import struct
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from testing.environment import EXTENSION, Environment

HOUR_NS = 3_600_000_000_000

SHIFTED = """#!/usr/bin/env python3
import mmap, struct, sys, time

with open({shifts!r}, "rb") as file:
    shifts = mmap.mmap(file.fileno(), 16, access=mmap.ACCESS_READ)


def shift(clock, which, unit):
    return lambda: clock() + struct.unpack_from("<q", shifts, which)[0] // unit


time.time_ns = shift(time.time_ns, 0, 1)
time.monotonic_ns = shift(time.monotonic_ns, 8, 1)
time.monotonic = shift(time.monotonic, 8, 10**9)
sys.path.insert(0, {extension!r})
from truemem.__main__ import main

main(sys.argv[0])
"""


class Clocks:
    """The shifts of all clocks, and a sidecar that reads through them."""

    def __init__(self, folder: Path) -> None:
        folder.chmod(0o755)
        path = folder / "shifts"
        path.write_bytes(bytes(16))
        with path.open("r+b") as file:
            self._shifts = mmap.mmap(file.fileno(), 16)
        self.sidecar = folder / "truemem"
        self.sidecar.write_text(SHIFTED.format(shifts=str(path), extension=str(EXTENSION)))
        self.sidecar.chmod(0o755)

    def move(self, wall_ns: int, monotonic_ns: int) -> None:
        wall, monotonic = struct.unpack("<qq", self._shifts[:])
        self._shifts[:] = struct.pack("<qq", wall + wall_ns, monotonic + monotonic_ns)

    def time(self) -> float:
        """In place of the platform's."""
        wall, _ = struct.unpack("<qq", self._shifts[:])
        return time.time() + float(wall) / 1e9


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clocks]:
    with tempfile.TemporaryDirectory(prefix="truemem-clocks-") as folder:
        made = Clocks(Path(folder))
        shifted = SimpleNamespace(**{**vars(time), "time": made.time})
        for module in ("journal", "environment", "launcher"):
            monkeypatch.setattr(f"truemem_workbench.local.lifecycle.{module}.time", shifted)
        yield made


@pytest.mark.parametrize("exact", [False, True], ids=["default", "exact"])
@pytest.mark.parametrize(
    "monotonic_ns",
    [
        pytest.param(HOUR_NS, id="runs on"),
        pytest.param(0, id="stands still", marks=pytest.mark.smoke),
        pytest.param(-HOUR_NS, id="goes back"),
    ],
)
def test_an_hour_of_frost_costs_no_record_and_no_figure(clocks: Clocks, exact: bool, monotonic_ns: int) -> None:
    sizes = [40, 5, 30, 5, 20]
    with Environment(sidecar=clocks.sidecar, exact=exact, runtime="python3.11") as environment:
        truths = []
        for mib in sizes:
            truths.append(environment.invoke(mib=mib, ms=30)["truth"] / 1024)
            environment.local.settle()
            clocks.move(HOUR_NS, monotonic_ns)
        records = environment.told()
        log = environment.log()

    assert [record.invocation for record in records] == [1, 2, 3, 4, 5]
    # Of the last, the processes are gone before it closes.
    for record, following, mib, truth in zip(records[:-1], records[1:], sizes, truths, strict=False):
        assert record.method == "vmhwm", record
        assert record.peakLower - 2 <= truth <= record.peakUpper + 2
        if following.baselineRSS is not None:  # else the next one may have begun when this one was read
            assert record.PeakRSS - record.CurrentRSS == pytest.approx(mib, abs=2)
        assert record.closedBy == ("next-request" if exact else "next-invoke")
    for record in records:
        assert not record.reportMissing
        assert not record.dropped
        assert 30 <= record.durationMs < 10_000
    stamps = [record.document["_aws"]["Timestamp"] for record in records]
    assert all(3_600_000 <= after - before < 3_700_000 for before, after in pairwise(stamps))
    assert "ERROR" not in log
    assert "WARN" not in log
