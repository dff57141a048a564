"""The line that ran when memory ran out, at real kills by the kernel: it is the planted one, or there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from testing.environment import Environment
from tests.local.conftest import needs_cgroups
from tests.stacks.rounds import one_is_named

pytestmark = needs_cgroups

FUNCTION = Path(__file__).with_name("functions") / "runs_out.py"
PRELOAD = Path(__file__).parents[2] / "layer/truemem/python"
PLANTED = {
    line.rpartition("# ")[2]: number
    for number, line in enumerate(FUNCTION.read_text().splitlines(), 1)
    if "  # " in line
}
MIB = 512


def running(*events: dict[str, Any], probe: bool = True, **settings: Any) -> list[dict[str, Any]]:
    """`outOfMemory` of the line of each of these invocations."""
    variables = {"PYTHONPATH": str(PRELOAD)} if probe else {}
    with Environment(FUNCTION, environment=variables, memory_mib=MIB, timeout_s=60, **settings) as environment:
        for event in ({}, *events):
            environment.local.invoke(event)
        _, *records = environment.records()
    return [record.outOfMemory or {} for record in records]


CASES = ["lists", "dicts", "documents", "one_call", "whole_file", "generator", "in_a_thread", "in_a_child"]

TRIES = 4
"""Rounds until a death has its line: a burst may be faster than a look, and then there is none."""


def test_the_line_is_the_one_that_allocates() -> None:
    def check(case: str, line: dict[str, Any]) -> bool:
        assert (line["file"], line["line"]) == (FUNCTION.name, PLANTED[case])
        assert MIB / 2 <= line["level"] < 1.25 * MIB  # pages of files are in RSS, and not all in the limit
        assert f"{FUNCTION.name}:{PLANTED[case]} {line['function']}" in line["stack"]
        return True

    assert one_is_named(CASES, lambda case, exact: running({"case": case}, exact=exact)[0], check, TRIES)


@pytest.mark.parametrize("case", ["many_threads", "with_another_state", "without_a_page", "in_another_program"])
def test_there_is_no_line_where_it_is_not_known(case: str) -> None:
    (found,) = running({"case": case})
    assert "kernel" in found["signals"]
    assert "running" not in found


def test_there_is_no_line_without_the_probe() -> None:
    assert "running" not in running({"case": "lists"}, probe=False)[0]


def test_who_was_near_and_lives_has_no_line() -> None:
    assert running({"mib": 440}, {"mib": 440}) == [{}, {}]


def test_the_next_death_has_its_own_line() -> None:
    cases = ("lists", "dicts", "generator")
    deaths = running(*({"case": case} for case in cases))
    named = {case: found["running"]["line"] for case, found in zip(cases, deaths, strict=True) if "running" in found}
    assert named
    assert named == {case: PLANTED[case] for case in named}
