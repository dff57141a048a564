"""What stops the build."""

from __future__ import annotations


class BuildError(Exception):
    """One line: what is wrong, and what mends it."""
