"""Limits on /tmp and on descriptors: what breaks them, what keeps them, and what nobody can know."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.check.limits import Limits, find, undecided
from truemem_workbench.check.local_run import size_mib
from truemem_workbench.check.measurement import Measurement
from truemem_workbench.check.result import Result

from tests.check.conftest import Check, run_of, seen

USES = f"{Path(__file__).parents[1] / 'resources' / 'functions' / 'uses.py'}:handler"
COUNT = 200


def run_with(opened: list[int] | None = None, used: list[float] | None = None, **settings: Any) -> Measurement:
    """A run whose lines tell of these."""
    told: list[dict[str, Any]] = [{} for _ in range(len(opened or used or [0] * COUNT))]
    for resources, count in zip(told, opened or [], strict=bool(opened)):
        resources["descriptors"] = {"open": count, "limit": 1024}
    for resources, mib in zip(told, used or [], strict=bool(used)):
        resources["tmp"] = {"used": mib, "size": 512}
    made = run_of([50.0] * len(told), **settings)
    lines = [seen(n, 50, 55, closedBy="next-request", resources=each or None) for n, each in enumerate(told, 1)]
    return Measurement(**{**vars(made), "seen": lines})


@pytest.mark.parametrize(
    ("opened", "limit", "outcome", "why"),
    [
        ([10] * COUNT, 0, "kept", ""),
        ([10 + number for number in range(COUNT)], 0, "broken", ""),
        ([10 + number for number in range(COUNT)], 1.5, "kept", ""),
        ([10 + number // 20 for number in range(600)], 0, "broken", ""),
        ([10 + number // 20 for number in range(400)], 0, "broken", "descriptors still warming"),
        ([10 + number // 20 for number in range(400)], 0.1, "kept", ""),
        ([10 + min(20, number) for number in range(COUNT)], 0, "kept", ""),
        ([10 + number * 37 % 40 for number in range(COUNT)], 0.5, "kept", ""),
        ([10] * 100, 0, "unknown", "too few to judge"),
    ],
)
def test_descriptors_that_grow_beyond_the_limit_break_it(
    opened: list[int], limit: float, outcome: str, why: str
) -> None:
    measurement, limits = run_with(opened), Limits(descriptors_drift=limit, drift_kib=1e6)
    (finding,) = (each for each in find(measurement, limits) if each.name == "max-descriptors-drift")
    assert (finding.outcome, finding.why or "") == (outcome, why)
    assert undecided(measurement, limits) == why


@pytest.mark.parametrize(("allowed", "code"), [((), 1), (("descriptors",), 0), (("tmp",), 1)])
def test_descriptors_that_grow_break_the_gate_unless_allowed(allowed: tuple[str, ...], code: int) -> None:
    leaking = run_with([10 + number for number in range(COUNT)])
    for limits in (Limits(allowed=allowed), Limits(allowed=allowed, drift_kib=4)):
        assert Result(leaking, find(leaking, limits)).exit_code == code
    finding = leaking.finding
    assert (finding.cause, finding.holder, finding.invocations_left) == ("descriptors", "descriptors", 815)


@pytest.mark.parametrize(
    ("used", "limit", "outcome"),
    [([10.0] * 199 + [60.5], 60, "broken"), ([10.0] * 199 + [60.0], 60, "kept"), ([], 60, "unknown")],
)
def test_what_is_left_in_tmp_breaks_its_limit(used: list[float], limit: float, outcome: str) -> None:
    finding = find(run_with(used=used), Limits(tmp_mib=limit))[-1]
    assert (finding.name, finding.outcome) == ("max-tmp", outcome)
    if outcome == "unknown":
        assert "truemem attach NAME --set resources=always" in finding.sentence


def test_lines_that_tell_only_sometimes_keep_no_limit() -> None:
    """Of a deployed function without the setting: below a tenth they say nothing."""
    made = run_with(used=[60.0] * 100)
    rest = [seen(number, 50, 55) for number in range(101, 201)]
    mixed = Measurement(**{**vars(made), "seen": [*made.seen, *rest]})
    assert find(mixed, Limits(tmp_mib=100))[-1].outcome == "unknown"
    assert find(mixed, Limits(tmp_mib=50))[-1].outcome == "broken"
    assert find(run_with(), Limits(descriptors_drift=1))[-1].outcome == "unknown"
    assert undecided(run_with(), Limits(descriptors_drift=1)) == ""  # more of the same would not tell either


@pytest.mark.parametrize(
    ("event", "option", "limit", "code"),
    [
        ({"do": "file"}, "--max-descriptors-drift", 0, 1),
        ({"do": "burst", "every": 2}, "--max-descriptors-drift", 0.1, 0),
        ({"do": "tmp", "kib": 256}, "--max-tmp", 30, 1),
        ({"do": "tmp", "kib": 256}, "--max-tmp", 300, 0),
        ({"do": "burst of files"}, "--max-tmp", 0.5, 0),
    ],
)
def test_the_command_checks_a_real_function(
    invoke_check: Check, event: dict[str, Any], option: str, limit: float, code: int
) -> None:
    counts = ["--warm-up", 10, "--invocations", 140, "--most", 140, "--max-drift", 1000]
    done = invoke_check(USES, "--event", json.dumps(event), *counts, option, limit, "--json")
    assert done.exit_code == code, done.output
    (finding,) = (each for each in json.loads(done.stdout)["limits"] if each["name"] == option[2:])
    assert finding["outcome"] == ("broken" if code else "kept")


def test_the_size_of_a_folder_is_what_its_files_take(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "file").write_bytes(bytes(1 << 20))
    (tmp_path / ".truemem-journal").write_bytes(bytes(1 << 20))
    (tmp_path / "link").symlink_to("/nowhere")
    assert size_mib(tmp_path) == pytest.approx(1, abs=0.02)
    assert size_mib(tmp_path / "nowhere") == 0
