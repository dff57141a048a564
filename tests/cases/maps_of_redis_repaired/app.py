"""Reads a hash of a Redis server that answers in RESP3: a session of 100 fields."""

import hiredis

FIELDS = b"".join(b"$8\r\nfield%03d\r\n$500\r\n%s\r\n" % (number, b"x" * 500) for number in range(100))
reader = hiredis.Reader()


def hgetall() -> dict[bytes, bytes]:
    reader.feed(b"%100\r\n" + FIELDS)
    return reader.gets()


def handler(event: object, context: object) -> int:
    session = hgetall()
    return len(session)
