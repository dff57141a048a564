"""Keeps what the planted leaks give it."""

from __future__ import annotations

import json
from typing import Any


def parse(text: str) -> Any:
    return json.loads(text)


class Store:
    def __init__(self) -> None:
        self.data: dict[int, Any] = {}
        self.callbacks: dict[str, list[Any]] = {}

    def put(self, key: int, value: Any) -> None:
        self.data[key] = value  # instance

    def on(self, name: str, callback: Any) -> None:
        self.callbacks.setdefault(name, []).append(callback)  # callbacks
