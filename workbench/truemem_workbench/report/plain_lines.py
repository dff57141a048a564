"""Takes wrapped events apart into plain lines, which DuckDB reads. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..lines.unread import Unread, reason
from ..lines.wrapped import Event, around, compact, inside


def plain_lines(events: Iterable[Event], unread: Unread, *, texts: bool) -> Iterator[tuple[bool, str]]:
    """The sidecar's lines inside these events, each with True. What is not read is added to `unread`.

    With `texts`, also all other JSON, each with False: for --by.
    """
    for event in events:
        for found in inside(event):
            if isinstance(found, str):
                continue
            if why := reason(found):
                unread[why] += 1
            else:
                yield True, compact(found)
        if texts:
            yield from ((False, each) for each in around(event))
