"""The commands that read lines, as a user runs them."""

from tests.report.conftest import truemem

__all__ = ["truemem"]
