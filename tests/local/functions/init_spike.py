"""A function whose init takes 200 MiB and gives them back."""

from typing import Any


def spike() -> None:
    bytearray(b"\1" * 1024 * 1024) * 200


spike()


def handler(event: dict[str, Any], _: Any) -> dict[str, Any]:
    return event
