"""The command, as in the gate's own tests."""

from __future__ import annotations

from tests.check.conftest import invoke_check, refused

__all__ = ["invoke_check", "refused"]
