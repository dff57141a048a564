"""The queries of docs/queries.md, by name, and which of them fits a question. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

_PART = re.compile(r"^## (?P<title>[^\n]+)$|^```cwli (?P<name>[\w-]+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")
_WORD = re.compile(r"[A-Z]?[a-z]{2,}|[A-Z]{2,}(?![a-z])")
_ENDING = re.compile(r"(?:ies|s|ing|ed|d|e)$")
WEIGHTS = (3, 2, 1)
"""Weights of a word in the name, the purpose and the text of a query."""


class Query(NamedTuple):
    purpose: str
    """The heading above it, and what the page says before it."""
    text: str
    """The query's text, for CloudWatch Logs Insights."""


def queries_of(page: str) -> dict[str, Query]:
    """The queries of the page, in its order. No two have the same purpose."""
    found, title, end = {}, "", 0
    for part in _PART.finditer(page):
        title = part["title"] or title
        if part["name"]:
            said = [each for each in page[end : part.start()].strip().split("\n\n") if each]
            last = _LINK.sub(r"\1", " ".join(said[-1].split())) if said else ""
            sentence = re.split(r"(?<=[.:;]) ", last)[-1 if last.endswith(":") else 0].rstrip(".:;")
            found[part["name"]] = Query(f"{title}: {sentence}" if sentence else title, part["text"])
        end = part.end()
    return found


def fitting(question: str, page: Mapping[str, Query]) -> list[str]:
    """Names of queries that fit a question or an error of a log, the best first; empty if none has a word of it."""
    places = {name: (name, *query) for name, query in page.items()}
    scores = dict.fromkeys(page, 0.0)
    for word in _words(question):
        weights = {name: max(_weights(word, texts), default=0) for name, texts in places.items()}
        having = sum(map(bool, weights.values()))
        for name, weight in weights.items():
            scores[name] += weight * math.log((1 + len(page)) / (1 + having)) if having else 0.0
    return [name for name in sorted(page, key=lambda each: -scores[each]) if scores[name]]


def _words(text: str) -> set[str]:
    """Stems: `killed` is `kill`."""
    return {_ENDING.sub("", each.lower()) for each in _WORD.findall(text.replace("timed out", "timeout"))} - _COMMON


def _weights(word: str, texts: Sequence[str]) -> Iterator[int]:
    for weight, text in zip(WEIGHTS, texts, strict=True):
        if any(each == word or (len(word) >= 4 and each.startswith(word)) for each in _words(text)):
            yield weight


_COMMON = {
    "the", "an", "and", "or", "of", "is", "in", "my", "why", "what", "which", "how", "to", "for", "do", "doe", "it",
    "wa", "ar", "with", "thi", "that", "at", "function", "lambda", "should", "tak", "after", "task",
}  # fmt: skip
"""Stems that tell no query from another."""
