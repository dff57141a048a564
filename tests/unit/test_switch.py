"""Words for on and off."""

from __future__ import annotations

import pytest
from truemem.support import switch


@pytest.mark.parametrize("word", ["true", " On ", "1", "YES", "false", "OFF", "0", "no"])
def test_a_word_for_on_or_off(word: str) -> None:
    assert switch.parse(word) is (word in ("true", " On ", "1", "YES"))


@pytest.mark.parametrize("word", ["", "maybe", "tru"])
def test_neither(word: str) -> None:
    with pytest.raises(ValueError):
        switch.parse(word)
