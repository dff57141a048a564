"""Fixtures for what is run and with which events: the commands that read it."""

from tests.check.conftest import invoke_check, refused
from tests.report.conftest import aws, aws_endpoint, truemem

__all__ = ["aws", "aws_endpoint", "invoke_check", "refused", "truemem"]
