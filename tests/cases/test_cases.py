"""Public reports, rebuilt: the finding of `truemem check` names their known cause, and our own measurement shows it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from testing.cases import CAUSES, HARMLESS, Case, cases, ready, slope
from testing.installs import Missing

TRUEMEM = Path(sys.executable).with_name("truemem")
KIB_OF_A_LEAK = 2.0
"""Least that a leak among the cases keeps of an invocation."""
SAYS_LEAK = re.compile(r"\bis a leak\b|\bA leak with\b")
SAYS_NO_LEAK = re.compile(r"\b(?:not|no sign of) a leak\b")
UNDECIDED = frozenset({"failing", "undecided"})
ALL = [pytest.param(case, id=case.name) for case in cases()]
AT_NIGHT = [pytest.mark.nightly, pytest.mark.timeout(900)]
RUN = [pytest.param(case, True, id=f"{case.name}, explained", marks=AT_NIGHT) for case in cases()] + [
    pytest.param(case, False, id=case.name) for case in cases() if not case.nightly
]


def check(case: Case, explain: bool) -> tuple[dict[str, Any], int]:
    """The document of `truemem check --json` and its exit code. `explain`: with the lines, which take most of the
    time."""
    try:
        program = ready(case)
    except Missing as missing:
        pytest.skip(str(missing))
    events = () if "--events" in case.options else ("--event", case.event)
    options = (*case.options, *([] if explain else ["--no-explain"]))
    command = [str(TRUEMEM), "check", *program.arguments, *events, *options, "--json"]
    variables = {name: value for name, value in os.environ.items() if name != "GITHUB_STEP_SUMMARY"}
    done = subprocess.run(command, cwd=program.folder, env=variables, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    return json.loads(done.stdout), done.returncode


def contradictions(document: dict[str, Any], code: int) -> list[str]:
    """What the document says beside its finding, and cannot be true if the finding is."""
    cause, outcome = document["finding"]["cause"], document["outcome"]
    harmless = cause in HARMLESS
    said = json.dumps({name: value for name, value in document.items() if name not in ("log", "currents", "peaks")})
    says_leak = SAYS_LEAK.search(said) and (harmless or cause in {"hoarding", "failing"})
    faults = {
        f"exit code {code} with outcome {outcome}": ("passed", "failed", "unknown")[code] != outcome,
        f"failed for {cause}": outcome == "failed" and (harmless or cause in UNDECIDED),
        f"passed with {cause}": outcome == "passed" and not harmless and cause != "hoarding",
        "nothing grows, and it ends": cause == "none" and document["finding"].get("invocationsLeft") is not None,
        "a leak, and no leak": cause == "leak" and SAYS_NO_LEAK.search(said),
        f"{cause}, and a leak": says_leak,
    }
    return [fault for fault, is_there in faults.items() if is_there]


@pytest.mark.parametrize(("case", "explain"), RUN)
def test_finding_names_the_known_cause(case: Case, explain: bool) -> None:
    document, code = check(case, explain)
    finding = document["finding"]
    said = json.dumps(finding, indent=1)
    assert finding["cause"] in case.causes, said
    assert code in case.exits, said
    assert contradictions(document, code) == [], said
    if case.holder is not None:
        assert case.holder in finding["holder"], said
    if case.hidden is not None:
        assert finding["hidden"] is case.hidden, said
    if finding["cause"] not in HARMLESS:
        assert finding["evidence"] and finding["next"], said


def shown(cause: str, figures: dict[str, Any]) -> bool:
    """True if what measure.py saw shows the cause. Sizes in KiB."""
    run, collected = figures["asItIs"], figures["collected"]

    def pace(row: list[int] | None) -> float:
        return slope(row, figures["invocations"]) if row else 0.0

    live, rss = pace(collected.get("used")), pace(run["rss"])
    fraction = abs(live) < 0.1 * rss
    match cause:
        case "leak":
            return max(live, pace(collected.get("metaspace"))) > KIB_OF_A_LEAK
        case "native":
            return rss > KIB_OF_A_LEAK and (fraction or pace(run.get("held")) < 0.1 * rss)
        case "hoarding":
            return rss > 10 * KIB_OF_A_LEAK and fraction
        case "processes" | "threads" | "descriptors":
            return pace(run[cause]) >= 1
        case "tmp":
            return pace(run["tmp"]) > 100
        case "extension":
            return rss > 100
        case "page-cache":
            return bool(max(run["pageCache"]) > 100 * 1024 and rss < 1)
        case "failing":
            return bool(run["failed"][-1] == figures["invocations"] * len(run["failed"]))
        case "collector":
            grown = max(max(run[name]) - run[name][0] for name in ("used", "rss") if name in run)
            return bool(grown > 4 * 1024 and live < KIB_OF_A_LEAK)
        case "cache":
            row, half = collected["used"], len(collected["used"]) // 2
            grown = max(row[:half]) - row[0]
            return bool(grown > 512 and max(row[half:]) - max(row[:half]) < 0.1 * grown)
    return live < KIB_OF_A_LEAK / 4 and rss < KIB_OF_A_LEAK / 4


@pytest.mark.parametrize("case", ALL)
def test_measured_figures_show_the_known_cause(case: Case) -> None:
    figures = json.loads((case.folder / "measured.json").read_text())
    assert shown(case.causes[0], figures)
    if case.hidden:
        rss = slope(figures["asItIs"]["rss"], figures["invocations"])
        live = slope(figures["collected"]["used"], figures["invocations"])
        assert rss < 0.05 * live


def test_most_causes_and_all_runtimes_have_a_case() -> None:
    """A judge must not know leaks alone."""
    assert {case.causes[0] for case in cases()} >= set(CAUSES) - {"none"}
    assert {case.runtime for case in cases()} == {"python", "nodejs", "java", "dotnet", "shell", "executable"}
    assert sum(case.causes[0] in HARMLESS | {"hoarding"} for case in cases()) >= len(cases()) / 4
    assert all(case.sources and case.established for case in cases())
    in_ci = [case for case in cases() if not case.nightly]
    assert 0 < len(in_ci) <= 4
    assert not any(case.packages for case in in_ci)
