"""Parses records with numbers of a hundred digits."""

import ujson

TEXT = "[" + ",".join(["1" + "0" * 100] * 50) + "]"


def handler(event: object, context: object) -> int:
    return len(ujson.loads(TEXT))
