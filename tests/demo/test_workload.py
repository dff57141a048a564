"""The calls: the same every time, the spike early, said as they are."""

import pytest
from truemem_workbench.demo.workload import BATCH_ROWS, SPIKE_ROWS, Call, describe, working_day


@pytest.mark.parametrize("invocations", [1, 2, 3, 10, 64, 300])
def test_every_day_has_as_many_calls_as_asked_and_one_spike(invocations: int) -> None:
    calls = working_day(invocations)
    assert len(calls) == invocations
    assert [call.batch for call in calls].count(SPIKE_ROWS) == 1
    assert all(0 <= call.model < 40 for call in calls)
    assert {call.batch for call in calls} <= {1, SPIKE_ROWS, *range(BATCH_ROWS[0], BATCH_ROWS[1] + 1)}
    assert working_day(invocations) == calls


def test_the_day_is_described_as_it_is() -> None:
    calls = [Call(3), Call(4), Call(3, SPIKE_ROWS), Call(4, 1500), Call(4), Call(3, 1200)]
    assert describe(calls) == (
        "2 calls for 2 new models; then one batch of 4,000 rows (invocation 3);"
        " then 3 calls for 2 models, some popular, 2 of them with a batch (up to 1,500 rows)"
    )
    assert describe([Call(3, SPIKE_ROWS)]) == "one batch of 4,000 rows (invocation 1)"
    assert describe([Call(3, SPIKE_ROWS), Call(3)]).endswith("; then 1 call for 1 model")


def test_a_single_row_is_left_to_the_functions_default() -> None:
    assert Call(3).payload() == {"model": 3}
    assert Call(3, 20).payload() == {"model": 3, "batch": 20}
