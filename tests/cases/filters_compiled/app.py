"""Looks for the words of a search in a text: two in an invocation, each with a pattern of its own."""

import itertools
import re

searches = itertools.count(1)
TEXT = "the quick brown fox jumps over the lazy dog " * 5


def words(search: int) -> str:
    return "|".join(f"(?:{search:06}word{place:03}s?)" for place in range(100))


def handler(event: object, context: object) -> int:
    return sum(len(re.findall(words(next(searches)), TEXT)) for _ in range(2))
