"""The picture is a PNG, has all its lines, and survives gaps."""

from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from truemem_workbench.demo.picture import draw
from truemem_workbench.demo.verdict import Row
from truemem_workbench.demo.workload import Call
from truemem_workbench.support.terminal import CURRENT, MARK, PEAK

from tests.demo.conftest import MakeRow
from tests.page.pixels import pixels


def test_the_picture_shows_a_flat_mark_over_a_falling_peak(spike_run: list[Row], tmp_path: Path) -> None:
    path = tmp_path / "memory.png"
    draw(spike_run, path, memory_mib=1024, subtitle="invented")

    assert path.read_bytes().startswith(b"\x89PNG\r\n")
    assert matplotlib.image.imread(path).shape[:2] == (800, 1600)
    for colour in (MARK, PEAK, CURRENT):
        assert pixels(path, colour)[0].size > 500
    rows, columns = pixels(path, MARK)
    left_of_its_name = rows[columns < 1250]
    assert np.bincount(left_of_its_name).max() > 800  # the flat part: 25 of 30 invocations, in one row of pixels


def test_bounds_apart_are_drawn_as_a_band(make_row: MakeRow, tmp_path: Path) -> None:
    sure = [make_row(n, peak=100, current=90, mark=150) for n in range(1, 11)]
    unsure = [make_row(n, peak=100, current=90, mark=150, peakLower=60) for n in range(1, 11)]
    draw(sure, tmp_path / "sure.png", memory_mib=1024, subtitle="same")
    draw(unsure, tmp_path / "unsure.png", memory_mib=1024, subtitle="same")

    def pale(name: str) -> int:
        count: int = pixels(tmp_path / name, "#BFDBEC")[0].size  # the peak's blue at a quarter, on white
        return count

    assert pale("sure.png") < 100
    assert pale("unsure.png") > 50_000


@pytest.mark.parametrize("memory_mib", [128, 1024])
def test_missing_figures_are_gaps(make_row: MakeRow, tmp_path: Path, memory_mib: int) -> None:
    lost = Row(number=2, call=Call(1), record=None, mark=None, error="Runtime.OutOfMemory")
    path = tmp_path / "memory.png"
    draw([make_row(1, 100, 90, 110), lost, make_row(3, 100, 90, 120)], path, memory_mib=memory_mib, subtitle="")
    assert pixels(path, PEAK)[0].size > 100
    draw([lost], path, memory_mib=memory_mib, subtitle="")
    assert pixels(path, PEAK)[0].size == 0
