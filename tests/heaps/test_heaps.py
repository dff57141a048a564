"""What the heaps' wing makes of the probe's page when a window closes."""

from pathlib import Path
from typing import Any

import pytest
from truemem.config import Config
from truemem.heaps import Heaps
from truemem.support.clock import Clock
from truemem.support.files import PAGE_BYTES
from truemem.wings import Site

from tests.heaps.test_page import text
from tests.unit.stand_ins import MIB, PROC
from tests.unit.test_window_closer import Scene


def heaps_of(table: Any, folder: Path) -> Heaps:
    """Of an environment with this TMPDIR."""
    environ = {b"TMPDIR": bytes(folder)}
    return Heaps(Site(Config(environ), environ, "truemem", managed=False, table=table, proc=PROC, clock=Clock()))


def notes(folder: Path, request_id: str, children_mib: int, threads: int = 1) -> None:
    """The probe in the function's process, when its handler has returned: its largest child so far, its threads."""
    page = folder / ".truemem-heap-12"
    page.write_bytes(text(request_id, children=children_mib * MIB, threads=threads).ljust(PAGE_BYTES, b"\0"))
    page.chmod(0o600)


ONE_CHILD: dict[str, Any] = {"unread": 900 * MIB, "born": 1, "births": 1, "multi_process": True}
"""Of a window: a child came and went, and was not read."""


def above(scene: Scene, name: str) -> list[float]:
    """A member of each line, above the level at which all began and the 10 MiB that the function touched."""
    return [round(mib - 10) for mib in scene.mib_above(name)]


def test_a_larger_child_than_all_before_may_be_an_earlier_ones(tmp_path: Path) -> None:
    """It may have ended before it was waited for; and what a child has before exec() is its parent's peak."""
    scene = Scene(wing=lambda table: heaps_of(table, tmp_path))
    scene.event()
    for number, mib in enumerate((20, 200), 1):
        notes(tmp_path, str(number), mib)
        scene.process.touch(10)
        scene.event()
    assert above(scene, "PeakRSS") == above(scene, "peakLower") == above(scene, "peakUpper") == [0, 0]


@pytest.mark.parametrize(
    ("known", "threads", "most"),
    [
        ({}, 1, 200),
        ({"deaths": 3}, 1, 4 * 200),  # they were small when they were read: all may have grown since
        ({}, 2, 900),  # the other thread may have waited for a larger one since
        ({"deaths": -1}, 1, 900),  # one was not waited for
        ({"births": -1}, 1, 900),
        ({"orphans": True}, 1, 900),
    ],
)
def test_each_child_that_was_waited_for_has_a_bound(
    tmp_path: Path, known: dict[str, Any], threads: int, most: int
) -> None:
    scene = Scene(wing=lambda table: heaps_of(table, tmp_path))
    scene.event()
    notes(tmp_path, "1", 200, threads)
    scene.process.touch(10)
    scene.event(**{**ONE_CHILD, **known})
    assert above(scene, "peakUpper") == pytest.approx([most], abs=1)


def test_another_process_may_have_children_too(tmp_path: Path) -> None:
    scene = Scene(wing=lambda table: heaps_of(table, tmp_path))
    scene.event()
    notes(tmp_path, "1", 200)
    scene.process.touch(10)
    (status,) = scene.recorder.close(scene.recorder.read_and_reset()).closing
    scene.event(**ONE_CHILD, closing=[status, status.counted(0, 0)])
    assert above(scene, "peakUpper")[0] > 800
