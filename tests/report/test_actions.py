"""A fleet's report: what to act on comes first, fits a small terminal, and leaves nothing out."""

from pathlib import Path

import pytest

from tests.report.conftest import Command
from tests.report.written import life, line, log

LONGEST = "x" * 64
"""Lambda's longest name."""


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """Functions that need different things; the quiet ones come first by name."""
    lines = []
    for number in range(12):
        lines += life(f"quiet{number}", 120, FunctionName=f"a-{number:02}", memoryLimit=128)
    lines += life("big", 120, FunctionName="oversized", cpuMs=5.0)
    lines += life("old", 120, FunctionName="old")
    lines += life("busy", 120, FunctionName="busy", cpuMs=57.5)
    lines += life("near", 120, FunctionName="near", memoryLimit=128, PeakRSS=120)
    lines += life("soon", 200, grows=1.0, FunctionName="grows-soon", memoryLimit=320)
    lines += life("later", 200, grows=1.0, FunctionName=LONGEST)
    lines += [*life("dead", 120, FunctionName="dead"), line("dead", 121, FunctionName="dead", OutOfMemory=1)]
    return log(tmp_path, lines)


FIRST = [
    ("dead", "out of memory: 1 of 121 invocations, 1,024 MB; try 2,048 MB"),
    ("grows-soon", "growing: leak 1,024 KiB per invocation, 18 invocations left"),
    (LONGEST, "growing: leak 1,024 KiB per invocation, 722 invocations left"),
    ("near", "near the limit: needs 125.0 of 128 MB (98%); smallest safe size 192 MB"),
    ("oversized", "oversized: needs 100.0 of 1,024 MB; 128 MB costs at least 78% less"),
    ("old", "to measure: needs 100.0 of 1,024 MB; CPU time is not known: truemem size"),
    ("a-00", "nothing to do: 128 MB fits"),
]


def test_what_to_act_on_is_the_first_screen_of_80_columns(
    truemem: Command, fleet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    first, *told = truemem("report", fleet).out.splitlines()
    assert f"{first} {told[0].strip()}" == (
        "19 functions, 2,441 invocations: 1 out of memory, 2 growing, 1 near the limit, 1 oversized, 1 to measure"
    )
    assert [line.split()[1].rpartition(":")[0] for line in told[1:15:2]] == [name for name, _ in FIRST]
    assert [line.strip() for line in told[2:16:2]] == [text for _, text in FIRST]
    assert "9 more: --top N, --all" in told[21]
    assert max(map(len, told)) <= 80
    assert any("near:$LATEST" in line for line in told[22:])  # its environment


def test_nothing_is_lost_in_json(truemem: Command, fleet: Path) -> None:
    document = truemem("report", fleet, "--json", "--top", 3).document
    assert len(document["functions"]) == len(document["actions"]) == len(document["environments"]) == 19
    assert [(each["function"], each["text"]) for each in document["actions"][:7]] == FIRST
    assert document["summary"].startswith(
        "19 functions, 2,441 invocations: 1 out of memory (dead), 2 growing (grows-soon, "
    )


@pytest.mark.parametrize(("order", "first"), [("growth", "grows-soon"), ("saving", "oversized"), ("cost", LONGEST)])
def test_the_list_has_other_orders(order: str, first: str, truemem: Command, fleet: Path) -> None:
    assert truemem("report", fleet, "--sort", order).out.splitlines()[1].split() == ["1", f"{first}:$LATEST"]


def test_what_a_function_costs_is_beside_its_name(truemem: Command, fleet: Path) -> None:
    options = ("--invocations-per-month", "2441000000")
    told = truemem("report", fleet, *options).out.splitlines()
    functions = truemem("report", fleet, *options, "--json").document["functions"]
    (near,) = (each["cost"] for each in functions if each["function"] == "near")
    assert near["invocations"] == pytest.approx(120e6)
    assert near["computing"] == pytest.approx(1e6 * 128 / 1024 * 0.1 * 0.0000166667)
    assert f"  4 near:$LATEST  ${near['per_month']:.2f} a month" in told
    assert f"  3 {LONGEST}:$LATEST" in told  # it has no room


def test_all_is_all_in_full(truemem: Command, fleet: Path) -> None:
    told = truemem("report", fleet, "--all").out
    assert "a-11:$LATEST: Smallest safe memory size: 128 MB." in told
    assert told.count("quiet11") == 1


def test_one_function_of_many_is_told_in_full(truemem: Command, fleet: Path) -> None:
    told = truemem("report", fleet, "--function", "near").out
    assert told.startswith("1 function, 120 invocations: 1 near the limit (2,321 lines of another time, function or ")
    assert "Smallest safe memory size: 192 MB." in told


class TestSavedRun:
    """Against a report that was saved: what rose is told, and fails where that was asked for."""

    @pytest.fixture
    def saved(self, truemem: Command, tmp_path: Path) -> Path:
        before = log(tmp_path, [*life("a", 150), *life("g", 150, FunctionName="gone")], "before.log")
        assert truemem("report", before, "--output", tmp_path / "saved.json").code == 0
        return tmp_path / "saved.json"

    @pytest.mark.parametrize(
        ("members", "count", "options", "code"),
        [
            ({"PeakRSS": 150.0}, 150, ["peak"], 1),
            ({"PeakRSS": 150.0}, 150, ["duration"], 0),
            ({"PeakRSS": 150.0}, 99, ["peak"], 0),  # too few to say so
            ({"PeakRSS": 105.0}, 150, ["peak"], 0),  # within 10 %
            ({"PeakRSS": 105.0}, 150, ["peak", "--max-growth", "2"], 1),
            ({"durationMs": 150.0}, 150, ["duration"], 1),
            ({"durationMs": 150.0}, 150, ["peak"], 0),
        ],
    )
    def test_a_rise_fails(
        self, members: dict[str, float], count: int, options: list[str], code: int, truemem: Command, saved: Path
    ) -> None:
        now = log(saved.parent, life("b", count, **members), "now.log")
        assert truemem("report", now, "--baseline", saved, "--fail-on", *options).code == code

    def test_both_are_shown_beside_each_other(self, truemem: Command, saved: Path) -> None:
        lines = [*life("b", 150, PeakRSS=150.0, durationMs=50.0), *life("n", 20, FunctionName="new")]
        now = log(saved.parent, lines, "now.log")
        told = truemem("report", now, "--baseline", saved).out
        assert "100.0 → 150.0" in told
        assert "99.5 → 50.0" in told
        assert "1 new; 1 gone" in told
        (change,) = truemem("report", now, "--baseline", saved, "--json").document["changes"]["changes"]
        assert (change["function"], change["peak_rose"], change["duration_rose"]) == ("orders", True, False)


def test_one_line_for_a_chat(truemem: Command, fleet: Path) -> None:
    (told,) = truemem("report", fleet, "--format", "line").out.splitlines()
    assert "1 near the limit (near), 1 oversized (oversized), 1 to measure (old)" in told
