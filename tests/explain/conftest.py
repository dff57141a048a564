"""The commands, as in the gate's own tests."""

from tests.check.conftest import invoke_check, refused
from tests.page.conftest import started

__all__ = ["invoke_check", "refused", "started"]
