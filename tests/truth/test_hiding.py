"""The real sidecar, and invocations whose memory is easy to miss: no record says less than was held."""

import random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from testing.environment import Environment
from testing.workload import HIDDEN, HIDING_FUNCTION, HIDING_MEMORY_MIB, HiddenJudgement, hidden_event

plans = st.lists(st.tuples(st.sampled_from(HIDDEN), st.integers(0, 1 << 32)), min_size=12, max_size=24)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", [{"exact": True}, {"release": "aws"}, {"release": "runtime:500"}], ids=str)
@settings(max_examples=max(2, settings().max_examples // 20), phases=[Phase.generate])
@given(plan=plans)
def test_no_record_says_less_than_was_held(mode: dict[str, Any], plan: list[tuple[str, int]]) -> None:
    with Environment(HIDING_FUNCTION, memory_mib=HIDING_MEMORY_MIB, **mode) as environment:
        answers = [environment.invoke(**hidden_event(kind, random.Random(seed))) for kind, seed in plan]
        records = environment.records()
    pairs = zip(plan, records, answers, strict=True)
    verdicts = [HiddenJudgement(kind, record, answer["truth"]) for (kind, _), record, answer in pairs]
    assert [verdict for verdict in verdicts if verdict.is_false] == []
