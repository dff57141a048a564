"""What one process could not send, for the next one: a small file in /tmp, which outlives a reset.

An environment that dies of its function is reset, and a collector may end before the sidecar has sent that death.
"""

from __future__ import annotations

import posix

from ..support.files import SAFE_FLAGS, is_private
from ..support.minijson import loads
from ..support.named_tuple import NamedTuple

LIMIT = 256 * 1024
"""Bytes of the file."""
_FLAGS = posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_CLOEXEC | posix.O_NOFOLLOW


class UnsentPeriod(NamedTuple):
    """What one period has seen, as JSON, and how many records that are."""

    text: str
    records: int


def leave(path: str, periods: list[UnsentPeriod]) -> bool:
    """Write them for the next process. False if that is not possible."""
    content = "".join([f"{records} {text}\n" for text, records in periods]).encode()
    _remove(path)
    if len(content) > LIMIT:
        return False
    whole = False
    try:
        descriptor = posix.open(path, _FLAGS, 0o600)
        try:
            whole = posix.write(descriptor, content) == len(content)
        finally:
            posix.close(descriptor)
    except OSError:
        pass
    if not whole:
        _remove(path)  # a part of it would be sent, and counted as dropped here
    return whole


def take(path: str) -> list[UnsentPeriod]:
    """What an earlier process has left, once. Other programs can write there: what is not as `leave` wrote it is not
    taken, as it would spoil the request that it is a part of."""
    try:
        descriptor = posix.open(path, SAFE_FLAGS)
    except OSError:
        return []
    try:
        content = posix.read(descriptor, LIMIT) if is_private(descriptor, 1, most=LIMIT) else b""
    except OSError:
        content = b""
    posix.close(descriptor)
    _remove(path)
    periods = []
    try:
        for line in content.split(b"\n")[:-1]:
            records, _, text = line.partition(b" ")
            if isinstance(loads(text), dict):
                periods.append(UnsentPeriod(text.decode(), int(records)))
    except ValueError:
        return []
    return periods


def _remove(path: str) -> None:
    try:
        posix.unlink(path)
    except OSError:
        pass
