"""The commands, as in the gate's and the report's own tests."""

from __future__ import annotations

from tests.check.conftest import invoke_check, refused
from tests.page.conftest import started
from tests.report.conftest import aws, aws_endpoint, truemem

__all__ = ["aws", "aws_endpoint", "invoke_check", "refused", "started", "truemem"]
