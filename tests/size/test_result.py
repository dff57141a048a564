"""The table, the document, the picture and the exit codes of a sweep with invented figures."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from truemem_workbench.judge.finding import Commands, Finding, unmeasured
from truemem_workbench.size.choice import Trial, Wanted, choose
from truemem_workbench.size.picture import draw
from truemem_workbench.size.result import FIGURES, LAST, TEXTS, Result

from tests.size.conftest import HASHED, tried

KILLED = tried(128, invocations=2, failures=1, killed=1, error="Runtime.OutOfMemory: signal: killed", peak=110.0)
GROWS = Finding(cause="leak", title="It leaks.", grows=True, next="truemem explain app.py:handler")


def result_of(*trials: Trial, wanted: Wanted | None = None) -> Result:
    choice = choose(trials, wanted or Wanted())
    return Result(spec="app.py:handler", choice=choice, notices=["here"], log=[], next="truemem check app.py:handler")


def document_of(*trials: Trial, wanted: Wanted | None = None) -> Any:
    return result_of(*trials, wanted=wanted).document()


def test_the_document_has_what_scripts_read() -> None:
    document = document_of(KILLED, *HASHED[1:])
    assert list(document)[:4] == ["sizes", "cheapest", "fastest", "suggested"]
    assert [document[name] for name in ("cheapest", "fastest", "suggested")] == [1024, 1769, 1024]
    killed, size, *_ = document["sizes"]
    assert list(size)[:5] == ["memory", "durationMs", "costPerMillion", "peak", "errors"]
    assert (size["memory"], size["peak"], size["errors"]) == (256, 50.0, 0)
    assert size["durationMs"] == {"p50": 1720, "p95": 1720, "p99": 1720}
    assert size["costPerMillion"] == size["costs"]["x86_64"] == pytest.approx(7.17, abs=0.01)
    assert size["costs"]["arm64"] == pytest.approx(5.73, abs=0.01)
    assert killed["durationMs"] == {}
    assert "costPerMillion" not in killed
    assert killed["against"] == {"killed": "killed for memory in 1 of 2 invocations"}


def test_cost_is_that_of_the_architecture_asked_for() -> None:
    (size,) = document_of(HASHED[0], wanted=Wanted(architecture="arm64"))["sizes"]
    assert size["costPerMillion"] == size["costs"]["arm64"]


def test_the_other_architecture_is_said_not_to_have_been_timed() -> None:
    assert "lines; on arm64 as if it took the same time" in result_of(HASHED[0]).all_notices()[1]
    assert "lines; on x86_64 as if" in result_of(HASHED[0], wanted=Wanted(architecture="arm64")).all_notices()[1]


def test_percentiles_are_durations_that_occurred() -> None:
    (size,) = document_of(tried(128, *range(100, 0, -1)))["sizes"]
    assert size["durationMs"] == {"p50": 50, "p95": 95, "p99": 99}


def test_a_row_has_a_cell_for_each_column() -> None:
    rows = result_of(KILLED, *HASHED[1:]).rows()
    assert {len(row) for row in rows} == {len((*TEXTS, *FIGURES, *LAST))}
    assert rows[0][:3] == ["out", "128", "-"]
    assert rows[3] == [
        "suggested, cheapest", "1,024", "421", "421", "421", "300", "50.0", "40.0", "1607%", "0", "7.02", "5.61", "-"
    ]  # fmt: skip


def test_too_few_invocations_for_a_finding_are_a_dash() -> None:
    few = unmeasured("Undecided: 10 invocations can be judged, 100 are needed.", Commands(again="truemem check"))
    assert result_of(tried(128, 10, finding=few)).rows()[0][-1] == "-"


@pytest.mark.parametrize(
    ("trials", "code"),
    [
        (HASHED, 0),
        ([KILLED], 1),
        ([tried(512, failures=2, invocations=2)], 2),
        ([KILLED, tried(512, failures=5, invocations=5)], 1),
        ([], 2),
    ],
)
def test_exit_codes(trials: list[Trial], code: int) -> None:
    assert result_of(*trials).exit_code == code


def test_no_size_is_suggested_while_memory_grows() -> None:
    result = result_of(tried(128, 10, finding=GROWS), KILLED, *HASHED[1:])
    assert (result.choice.suggested, result.exit_code) == (None, 1)
    assert result.sentences()[0] == "No size is suggested: memory grows, so none is safe for long."
    assert result.sentences()[1:] == ["It leaks.", "128 MB is out: killed for memory in 1 of 2 invocations."]


def test_what_was_not_tried_before_ctrl_c_is_not_out() -> None:
    result = replace(result_of(KILLED, HASHED[1], tried(512), Trial(memory=1024)), is_cut=True)
    assert [row[0] for row in result.rows()] == ["out", "suggested, cheapest, fastest", "not tried", "not tried"]
    cut, suggested, out = result.sentences()
    assert cut == "It was ended early. 512, 1,024 MB: not tried. What follows is from the invocations until then."
    assert suggested.startswith("Suggested: 256 MB")
    assert out == "128 MB is out: killed for memory in 1 of 2 invocations."
    none = replace(result_of(KILLED, Trial(memory=1024)), is_cut=True)
    assert none.sentences()[1] == "No size can be suggested: each that was tried is out."


NEAR = [tried(448, 756), tried(1024, 340), tried(1769, 330)]
"""The sentence about them is longer than a line, and has dollar signs in it."""


@pytest.mark.parametrize("trials", [[KILLED, *HASHED[1:]], [KILLED], HASHED[:1], [tried(256, peak=None)], [], NEAR])
def test_a_picture_is_drawn_of_whatever_is_known(tmp_path: Path, trials: list[Trial]) -> None:
    path = tmp_path / "sizes.png"
    draw("app.py:handler", result_of(*trials).choice, path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_the_picture_names_its_figures_and_cuts_no_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: figures.append(figure))
    draw("app.py:handler", result_of(tried(128, 200), tried(256, 199)).choice, Path("sizes.png"))
    durations, costs = figures[0].axes
    assert durations.get_ylim()[1] > 1.05 * 200
    assert costs.get_ylabel() == "USD a million, x86_64"
    (legend,) = figures[0].legends
    assert "below what function, sidecar and extensions need: 60 MiB" in [each.get_text() for each in legend.texts]
