"""The PNG: panels for the most telling environments, and no spike lost."""

from itertools import chain
from pathlib import Path

import matplotlib.image
import numpy as np
from truemem_workbench import page
from truemem_workbench.page.picture import DEAD, thinned
from truemem_workbench.support.terminal import MARK, PEAK

from testing.invented_lines import curve, leak, line, noisy, parsed, recorded, spiked
from tests.page.pixels import pixels


def test_a_panel_for_each_environment_the_worst_at_the_top(tmp_path: Path) -> None:
    died = {"OutOfMemory": 1, "status": "failure", "errorType": "Runtime.OutOfMemory", "PeakRSS": 505.0}
    oom = (line(row, "oom", **(died if row == 30 else {})) for row in range(60))
    made = page.gather(parsed(chain(curve(noisy(60), "calm"), leak(300), oom)))
    assert [environment.id for environment in made[:2]] == ["oom", "leak"]

    path = tmp_path / "memory.png"
    page.draw(made, path)
    height, width = matplotlib.image.imread(path).shape[:2]
    assert width == 1080  # a phone's
    assert height > 1300
    rows, _ = pixels(path, DEAD)
    assert rows.size > 50
    assert rows.max() < height / 2 + 100  # the cross, and the two verdicts that are bad
    assert pixels(path, MARK)[0].size > 1500


def test_the_spike_among_thousands_is_drawn(tmp_path: Path) -> None:
    def drawn(peaks: list[float]) -> int:
        page.draw(page.gather(parsed(recorded(peaks))), tmp_path / "memory.png")
        return len(pixels(tmp_path / "memory.png", PEAK)[0])

    flat, spike = spiked(9_000, at=10), spiked(9_000, at=10)
    spike[7_012] = 390
    assert drawn(spike) > drawn(flat) + 100


def test_thinning_keeps_lowest_and_highest_and_gaps() -> None:
    x = np.arange(100_000, dtype=float)
    y = np.sin(x / 5000) * 10
    y[41_234], y[77_000], y[500:700] = 99, -99, np.nan
    thin_x, thin_y = thinned(x, y)
    assert len(thin_x) < 2000
    assert [float(np.nanmax(thin_y)), float(np.nanmin(thin_y))] == [99, -99]
    assert np.isnan(thin_y).any()
    assert (np.diff(thin_x) > 0).all()


def test_names_are_text_and_no_mathematics(tmp_path: Path) -> None:
    names = ["a$\\frac$", "$x$\x1b[2J\ud800", "{{script}}\n\n"]
    lines = (line(row, str(len(name)), FunctionName=name) for name in names for row in range(3))
    page.draw(page.gather(parsed(lines)), tmp_path / "memory.png")

    assert matplotlib.image.imread(tmp_path / "memory.png").shape[1] == 1080
