"""What one process could not send, for the next one: a small file in /tmp, which outlives a reset.

An environment that dies of its function is reset, and a collector may end before the sidecar has sent that death.
"""

from __future__ import annotations

from ..support.files import read_private, remove, write_private
from ..support.minijson import loads
from ..support.named_tuple import NamedTuple

MOST_UNSENT_BYTES = 256 * 1024
"""Bytes of the file."""


class UnsentPeriod(NamedTuple):
    """What one period has seen, as JSON, and how many records that are."""

    text: str
    records: int


def leave(path: str, periods: list[UnsentPeriod]) -> bool:
    """Write them for the next process. False if that is not possible."""
    content = "".join([f"{records} {text}\n" for text, records in periods]).encode()
    remove(path)
    if len(content) > MOST_UNSENT_BYTES:
        return False
    try:
        write_private(path, content)
    except OSError:
        return False
    return True


def take(path: str) -> list[UnsentPeriod]:
    """What an earlier process has left, once. Other programs can write there: what is not as `leave` wrote it is not
    taken, as it would spoil the request that it is a part of."""
    content = read_private(path, MOST_UNSENT_BYTES) or b""
    remove(path)
    periods = []
    try:
        for line in content.split(b"\n")[:-1]:
            records, _, text = line.partition(b" ")
            if isinstance(loads(text), dict):
                periods.append(UnsentPeriod(text.decode(), int(records)))
    except ValueError:
        return []
    return periods
