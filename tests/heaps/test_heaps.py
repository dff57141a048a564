"""What the heaps' wing makes of the probe's page when a window closes."""

from pathlib import Path
from typing import Any

import pytest
from truemem.config import Config
from truemem.heaps import Heaps
from truemem.support.clock import Clock
from truemem.support.files import PAGE
from truemem.wings import Site

from tests.heaps.test_page import text
from tests.unit.stand_ins import MIB, PROC, START_KIB
from tests.unit.test_window_closer import Scene


def heaps_of(table: Any, folder: Path) -> Heaps:
    """Of an environment with this TMPDIR."""
    environ = {b"TMPDIR": bytes(folder)}
    return Heaps(Site(Config(environ), environ, "truemem", managed=False, table=table, proc=PROC, clock=Clock()))


def notes(folder: Path, request_id: str, children_mib: int) -> None:
    """The probe in the function's process, when its handler has returned: its largest child so far."""
    page = folder / ".truemem-heap-12"
    page.write_bytes(text(request_id, children=children_mib * MIB).ljust(PAGE, b"\0"))
    page.chmod(0o600)


@pytest.mark.parametrize(
    ("children_mib", "peaks"),
    [
        ([None, None], [10, 10]),  # without the probe
        ([200, 200], [10, 10]),  # the first says nothing of when; the second is no other than the first
        ([20, 200], [10, 200]),
        ([20, 40], [10, 10]),  # less than the parent held: what a child has before exec()
    ],
)
def test_a_child_larger_than_all_before_is_this_invocations(
    tmp_path: Path, children_mib: list[int | None], peaks: list[float]
) -> None:
    scene = Scene(wing=lambda table: heaps_of(table, tmp_path))
    scene.event()
    for number, mib in enumerate(children_mib, 1):
        if mib is not None:
            notes(tmp_path, str(number), mib)
        scene.process.touch(10)
        scene.event()
    above = [peak - START_KIB / MIB * (peak == 200) for peak in peaks]  # the child's own, or above the level
    assert scene.mib_above("PeakRSS") == pytest.approx(above, abs=0.1)
