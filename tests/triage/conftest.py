"""The commands as a user runs them, and an account at moto's server."""

from tests.report.conftest import aws, aws_answers, aws_endpoint, truemem

__all__ = ["aws", "aws_answers", "aws_endpoint", "truemem"]
