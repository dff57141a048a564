"""Holds the body of one request, and frees it. One request in a hundred is large."""

import itertools

requests = itertools.count(1)


def handler(event: dict[str, int], context: object) -> int:
    megabytes = event.get("megabytes") or (150 if next(requests) % 97 == 41 else 1)
    body = b"\1" * (megabytes << 20)
    return len(body)
