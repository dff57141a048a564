"""Requests to Lambda keep below the account's rate limit, whatever asks for them."""

from hypothesis import given
from hypothesis import strategies as st
from truemem_workbench.attach.lambda_calls import LambdaCalls
from truemem_workbench.aws.clients import CALLS_PER_S, Pace

from tests.account.conftest import Account

LIMIT = 15
"""Control plane requests each second that Lambda permits an account (Lambda quotas)."""


class Clock:
    """A clock that moves only when it is slept on."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@given(st.lists(st.floats(0, 3), max_size=60))
def test_no_second_has_more_requests_than_lambda_permits(pauses: list[float]) -> None:
    clock = Clock()
    pace = Pace(CALLS_PER_S, clock, clock.sleep)
    sent = []
    for pause in pauses:
        clock.sleep(pause)
        pace.wait()
        sent.append(clock.now)
    assert all(sum(begin <= moment < begin + 1 for moment in sent) < LIMIT for begin in sent)


def test_each_request_waits_for_its_turn_whatever_the_region(account: Account) -> None:
    name = account.function("one")
    clock = Clock()
    calls = LambdaCalls(Pace(CALLS_PER_S, clock, clock.sleep))
    for _ in range(5):
        calls.read(name)
    calls.read(f"arn:aws:lambda:us-east-1:123456789012:function:{name}")
    assert round(clock.now * CALLS_PER_S) == 5
