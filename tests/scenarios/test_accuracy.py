"""Truth lies within every record's bounds, and what claims to be exact is exact, in any order of release."""

from collections.abc import Iterator

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


def judged(count: int, release: str, exact: bool = False) -> Iterator[Judgement]:
    with Environment(memory_mib=LIMIT_MIB, release=release, exact=exact) as environment:
        answers = [environment.invoke(**event) for event in events(count)]
        records = environment.records()
    assert len(records) == count
    for record, answer in zip(records, answers, strict=True):
        yield Judgement(record, answer, LIMIT_MIB)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("release", ORDERS)
def test_in_default_mode_no_record_says_more_than_is_known(release: str) -> None:
    judgements = list(judged(120, release))
    assert [judgement for judgement in judgements if not judgement.honest] == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("release", [*ORDERS[:-1], pytest.param(ORDERS[-1], marks=pytest.mark.smoke)])
def test_in_exact_mode_every_peak_of_one_process_is_exact(release: str) -> None:
    judgements = list(judged(120, release, exact=True))
    assert [judgement for judgement in judgements if not judgement.within_bounds] == []
    assert {(judgement.record.mode, judgement.record.closedBy) for judgement in judgements} == {
        ("exact", "next-request")
    }
    assert [judgement for judgement in judgements if judgement.record.raced] == []
    one_process = [judgement for judgement in judgements if judgement.record.method == "vmhwm"]
    assert len(one_process) >= 100
    assert [judgement for judgement in one_process if not judgement.exact] == []
