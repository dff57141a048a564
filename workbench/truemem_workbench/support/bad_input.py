"""Something that a person typed cannot be used."""

from __future__ import annotations


class BadInput(Exception):
    """Something that a person typed cannot be used. One line: what was asked, what is there, what to type."""
