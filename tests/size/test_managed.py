"""Managed Instances: which concurrency fits which memory size."""

import json
from typing import Any

import pytest
from truemem_workbench.size.at_once import SIZES, Needs, Result, Tried, needs_of

from tests.size.conftest import HASHING, Size

PARTS = Needs(fixed=20.0, worker=50.0, request=30.0, others=14.0)


def ran(at_once: int, *, kept: float = 0.0) -> Tried:
    """A function with these parts. `kept`: what a worker keeps of what a request took."""
    held = PARTS.fixed + at_once * (PARTS.worker + kept)
    return Tried(at_once, at_once, held, held + at_once * (PARTS.request - kept))


def result(needs: Needs | None = PARTS, **members: Any) -> Result:
    given: dict[str, Any] = {
        "spec": "app.py:handler",
        "at_once": 8,
        "memory": 2048,
        "sizes": SIZES,
        "gib_per_vcpu": 4.0,
    }
    return Result(needs=needs, **{"tried": [], "finding": None, **given, **members})


@pytest.mark.parametrize("kept", [0.0, 30.0])
def test_two_concurrencies_tell_all_parts(kept: float) -> None:
    """Whether memory that a request took stays with its worker does not change what is needed."""
    needs = needs_of([ran(1), ran(8, kept=kept)], others=14.0)
    assert needs.of(8, 2048) == pytest.approx(PARTS.of(8, 2048))
    assert needs.of(100, 2048) == pytest.approx(PARTS.of(100, 2048))


def test_threads_follow_the_vcpus_not_the_requests() -> None:
    needs = Needs(50.0, 8.0, 1.0, 14.0, threads_per_mib=8 / 4096, least_threads=8)
    assert needs.of(64, 2048) == needs.of(64, 4096) == 50 + 14 + 8 * 8 + 64
    assert needs.of(64, 32_768) == 50 + 14 + 64 * 8 + 64


def test_the_most_is_the_last_that_fits() -> None:
    most = PARTS.most(2048)
    assert most == 20
    assert PARTS.fits(most, 2048)
    assert not PARTS.fits(most + 1, 2048)


def test_the_smallest_size_that_holds_it_is_suggested() -> None:
    assert result().suggested == 2048
    assert result(at_once=32).suggested == 4096
    assert result(at_once=32).exit_code == 0


def test_what_fits_nowhere_says_what_would() -> None:
    none = result(at_once=500)
    assert (none.suggested, none.exit_code) == (None, 1)
    assert none.sentences()[0].startswith("No size holds 500 at once with 20% headroom: 32,768 MB hold 340 at most.")


def test_the_table_has_the_functions_own_concurrency() -> None:
    rows = {row[0]: row[1:] for row in result(at_once=6).rows()}
    assert list(rows) == ["1", "2", "4", "6", "8", "16"]
    assert rows["6"] == ["514", "25%", "13%", "6%", "3%", "2%"]
    assert {row[0]: row for row in result(at_once=32).rows()}["32"][2] == "out"


def test_what_grows_has_no_table() -> None:
    assert (result(None).rows(), result(None).exit_code) == ([], 2)


def test_the_document_is_json() -> None:
    document = json.loads(json.dumps(result(tried=[ran(8)]).document()))
    assert document["suggested"] == 2048
    assert document["mostAtOnce"]["2048"] == 20
    assert document["tried"][0]["needs"] == 660.0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--strategy", "speed"], "not paid for by duration"),
        (["--max-duration", "5"], "not paid for by duration"),
        (["--memory", "512"], "Managed Instances have 2048 to 32768 MB"),
    ],
)
def test_questions_of_functions_on_demand_are_refused(invoke_size: Size, options: list[str], said: str) -> None:
    ran = invoke_size(HASHING, "--managed-instances", 4, *options)
    assert ran.exit_code == 2
    assert said in ran.stderr


def test_on_demand_there_are_no_32_gib(invoke_size: Size) -> None:
    ran = invoke_size(HASHING, "--memory", "16384")
    assert ran.exit_code == 2
    assert "128 to 10240 MB" in ran.stderr


@pytest.mark.nightly
def test_a_function_is_tried_with_several_concurrencies(invoke_size: Size) -> None:
    ran = invoke_size(HASHING, "--managed-instances", 3, "--json")
    document = json.loads(ran.stdout)
    assert (ran.exit_code, document["suggested"]) == (0, 2048), ran.stdout
    assert sorted(each["at_once"] for each in document["tried"]) == [1, 3]
    assert document["next"] == f"truemem check {HASHING} --managed-instances 3"
