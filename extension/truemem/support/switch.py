"""Words for on and off. Apart from the other settings, because one switch is read before registering."""

from __future__ import annotations

ON = ("true", "1", "yes", "on")
OFF = ("false", "0", "no", "off")


def parse(text: str) -> bool:
    """Raises ValueError for anything that is neither."""
    word = text.strip().lower()
    if word not in ON + OFF:
        raise ValueError
    return word in ON
