"""Truth lies within every record's bounds, and what claims to be exact is exact, in any order of release."""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from testing.environment import Environment
from testing.workload import Judgement, events

LIMIT_MIB = 1024
ORDERS = (
    "runtime:50",
    pytest.param("runtime:100", marks=pytest.mark.nightly),
    "runtime:500",
    "together",
    "extension:300",
    "aws",
)


def judged(
    planned: Iterable[dict[str, Any]], release: str, exact: bool = False, runtime: str | None = None
) -> Iterator[Judgement]:
    with Environment(memory_mib=LIMIT_MIB, release=release, exact=exact, runtime=runtime) as environment:
        answers = [environment.invoke(**event) for event in planned]
        records = environment.records()
    assert len(records) == len(answers)
    for record, answer in zip(records, answers, strict=True):
        yield Judgement(record, answer, LIMIT_MIB)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("release", ORDERS)
def test_in_default_mode_no_record_says_more_than_is_known(release: str) -> None:
    judgements = list(judged(events(120), release))
    assert [judgement for judgement in judgements if not judgement.honest] == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("release", ORDERS)
def test_in_exact_mode_every_peak_of_one_process_is_exact(release: str) -> None:
    judgements = list(judged(events(120), release, exact=True, runtime="python3.11"))
    assert [judgement for judgement in judgements if not judgement.within_bounds] == []
    assert {(judgement.record.mode, judgement.record.closedBy) for judgement in judgements} == {
        ("exact", "next-request")
    }
    assert [judgement for judgement in judgements if judgement.record.raced] == []
    one_process = [judgement for judgement in judgements if judgement.record.method == "vmhwm"]
    assert len(one_process) >= 100
    assert [judgement for judgement in one_process if not judgement.exact] == []


@pytest.mark.smoke
def test_a_client_that_polls_from_a_thread_has_figures() -> None:
    """From Python 3.12 on: that thread runs before the handler, and after it."""
    blocks = [{"do": "hold", "mib": mib, "ms": 5} for mib in (1, 5, 20, 64)]
    judgements = list(judged(blocks * 10, "aws", exact=True))
    assert [judgement for judgement in judgements if not judgement.honest] == []
    figures = [judgement for judgement in judgements if judgement.claims_exactness]
    assert len(figures) >= 30
    assert [judgement for judgement in figures if not judgement.exact] == []


def test_child_of_the_last_invocation_has_a_bound_of_its_own() -> None:
    """That window may be judged when the environment ends, after the platform has waited for the runtime: the runtime's
    own page faults, 64 KiB each, are none of a child's."""
    with Environment(memory_mib=3008, exact=True) as environment:
        for _ in range(2):
            environment.invoke("child", mib=5, ms=100)
        *_, last = environment.records()
    assert last.closedBy == "next-request"
    assert last.peakLower <= last.peakUpper < 1000
