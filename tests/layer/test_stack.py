"""JSON nested deeper than the stack is large, where the environment gives little of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.test_hostile_function import Attacked, post
from tests.layer.built import Layer, script


@pytest.mark.parametrize("kib", [256, 8192])
def test_nesting_without_end_does_not_end_it(native: Layer, tmp_path: Path, kib: int) -> None:
    attacked = Attacked(script(tmp_path, f"ulimit -S -s {kib} && exec {native.executable}"))
    with attacked.platform:
        for body in (b"[" * 500_000, b'{"a":' * 100_000, b"[{" * 5000):
            attacked.send(post(body))
        assert sum(record.get("dropped", 0) for record in attacked.end()) == 3
