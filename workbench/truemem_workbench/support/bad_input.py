"""The error for input that cannot be used."""

from __future__ import annotations


class BadInput(Exception):
    """Input that cannot be used. The message is one line: what was asked, what is there, what to type."""
