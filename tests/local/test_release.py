"""Who gets an invocation first, and how long before the other side."""

import statistics
from datetime import datetime
from random import Random

import pytest
from truemem_workbench.local import BadInput
from truemem_workbench.local.configuration.settings import EXTENSION_LEAD_US, Lead, release_lead

from tests.local.conftest import Start

DRAWS = 20_000


def test_aws_is_mostly_the_runtime_by_measured_leads() -> None:
    chance = Random(14)
    drawn = [release_lead("aws", chance) for _ in range(DRAWS)]
    runtime = [each.us for each in drawn if each.runtime_first]
    extension = [each.us for each in drawn if not each.runtime_first]
    assert len(runtime) / DRAWS == pytest.approx(0.95, abs=0.01)
    percentiles = statistics.quantiles(runtime, n=100)
    assert [percentiles[at - 1] for at in (25, 50, 90, 99)] == pytest.approx([40, 80, 200, 550], rel=0.1)
    assert 0 <= min(extension) <= max(extension) <= EXTENSION_LEAD_US


def test_together_is_either_first_and_nothing_waits() -> None:
    chance = Random(14)
    drawn = [release_lead("together", chance) for _ in range(1000)]
    assert {each.us for each in drawn} == {0}
    assert sum(each.runtime_first for each in drawn) == pytest.approx(500, abs=60)


def test_a_chosen_lead_is_the_same_each_time() -> None:
    for order, expected in (("runtime:0", Lead(True, 0)), ("extension:1000000", Lead(False, 1_000_000))):
        assert {release_lead(order, Random(seed)) for seed in range(20)} == {expected}


@pytest.mark.parametrize("order", ["", "AWS", "runtime", "runtime:", "runtime:-1", "runtime:1.5", "extension:1000001"])
def test_an_order_that_there_is_not(order: str) -> None:
    with pytest.raises(BadInput, match=r"it is aws, together, runtime:US or extension:US.*Try --release aws"):
        release_lead(order, Random())


@pytest.mark.parametrize(("order", "runtime_first"), [("runtime:200000", True), ("extension:200000", False)])
def test_the_side_that_is_chosen_gets_its_event_first(start: Start, order: str, runtime_first: bool) -> None:
    local = start(behaviour={"types": []}, release=order)
    in_handler = local.finish({"now": True}).payload  # time_ns, as `at`
    (invoked,) = (entry["at"] for entry in local.read_by_recorder("INVOKE"))
    assert (in_handler < invoked) == runtime_first
    # The invocation's own times begin when the runtime gets its event.
    (record,) = local.of_type("runtimeDone")
    handed_over = next(span for span in record["spans"] if span["name"] == "responseLatency")["start"]
    assert (datetime.fromisoformat(handed_over).timestamp() < invoked / 1e9) == runtime_first


def test_each_side_gets_every_invocation_once(start: Start) -> None:
    local = start(behaviour={}, release="together")
    answers = [local.invoke({"n": number}) for number in range(5)]
    local.settle()
    assert [answer.function_error for answer in answers] == [None] * 5
    received = [entry["event"]["requestId"] for entry in local.read_by_recorder("INVOKE")]
    assert received == [answer.request_id for answer in answers]
