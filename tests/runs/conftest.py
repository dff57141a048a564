"""Fixtures for runs here and in AWS: the command that makes one."""

from tests.check.conftest import invoke_check

__all__ = ["invoke_check"]
