"""Keep something of each customer: without a bound, with one, and of seven kinds of customers."""

from functools import lru_cache
from typing import Any

kept: dict[str, bytes] = {}


def without_bound(event: dict[str, Any], context: object) -> None:
    kept.setdefault(event["customer"], bytes(2048))


@lru_cache(maxsize=100)
def made(customer: str) -> bytes:
    return bytes(4096)


def with_bound(event: dict[str, Any], context: object) -> None:
    made(event["customer"])


def of_few_kinds(event: dict[str, Any], context: object) -> None:
    kept.setdefault(event["customer"][-1], bytes(2048))
