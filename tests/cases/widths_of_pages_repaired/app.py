"""Lays out ten pages. How wide each is comes from a method without a cache."""

import random


class Page:
    def __init__(self) -> None:
        self.lines = [f"{random.random()} " * random.randrange(1, 20) for _ in range(60)]

    def width(self, margin: int) -> int:
        return max(map(len, self.lines)) + 2 * margin


def handler(event: object, context: object) -> int:
    pages = [Page() for _ in range(10)]
    return max(page.width(4) for page in pages)
