"""The error that stops the build."""

from __future__ import annotations


class BuildError(Exception):
    """The build cannot go on. The message is one line: what is wrong, and how to fix it."""
