"""Words for on and off."""

from __future__ import annotations

import pytest
from truemem.support import switch


@pytest.mark.parametrize("word", ["true", " On ", "1", "YES"])
def test_on(word: str) -> None:
    assert switch.parse(word) is True


@pytest.mark.parametrize("word", ["false", "OFF", "0", "no"])
def test_off(word: str) -> None:
    assert switch.parse(word) is False


@pytest.mark.parametrize("word", ["", "maybe", "tru"])
def test_neither(word: str) -> None:
    with pytest.raises(ValueError):
        switch.parse(word)
