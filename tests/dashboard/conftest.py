"""The command against moto's server, with functions in it."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.report.conftest import Command, Ran, aws, aws_answers, aws_endpoint, put_function, truemem

__all__ = ["aws", "aws_answers", "aws_endpoint", "truemem"]

Account = Callable[[str], Any]


@pytest.fixture
def account(aws: Account) -> Account:
    """Clients of an account with the functions `orders` (512 MiB) and `payments-api` (1024 MiB)."""
    put_function(aws, "orders", MemorySize=512)
    put_function(aws, "payments-api", MemorySize=1024, Environment={"Variables": {"TRUEMEM_NAMESPACE": "Pay/Memory"}})
    return aws


@pytest.fixture
def dashboard(account: Account, truemem: Command) -> Callable[..., Ran]:
    """`truemem dashboard` in that account."""
    return lambda *arguments: truemem("dashboard", *arguments)
