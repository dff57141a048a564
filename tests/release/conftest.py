"""A release of this tree: an account at moto's server, and the layer that `make layer` left here."""

from tests.install.conftest import zips
from tests.report.conftest import aws, aws_endpoint

__all__ = ["aws", "aws_endpoint", "zips"]
