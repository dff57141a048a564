"""Keep something of some kinds of events, and of all."""

from typing import Any

kept: list[object] = []


def keeps_refunds(event: dict[str, Any], context: object) -> None:
    if event["kind"] == "refund":
        kept.append(bytearray(20_000))


def keeps_what_fails(event: dict[str, Any], context: object) -> None:
    if event["kind"] == "bad":
        kept.append(bytearray(40_000))
        raise ValueError(event["kind"])


def opens_for_refunds(event: dict[str, Any], context: object) -> None:
    if event["kind"] == "refund":
        kept.append(open(__file__))  # noqa: PTH123, SIM115


def keeps_all(event: dict[str, Any], context: object) -> None:
    kept.append(bytearray(8_000))
