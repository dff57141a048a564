"""Commands of the AWS CLI that `truemem doctor` tells its user to type (bash). Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

WRAPPER = "/opt/truemem/exact"
"""Value of AWS_LAMBDA_EXEC_WRAPPER for exact mode."""


def set_variable(function: str, variable: str, value: str) -> str:
    """The command that sets a variable and keeps the others (bash)."""
    query = f"{{Variables: merge(Environment.Variables || \\`{{}}\\`, {{{variable}: '{value}'}})}}"
    name = shlex.quote(function)
    now = f'aws lambda get-function-configuration --function-name {name} --output json --query "{query}"'
    return f'aws lambda update-function-configuration --function-name {name} --environment "$({now})"'


def set_layers(function: str, layers: Sequence[str]) -> str:
    """The command that sets the layers. It replaces all, so the others are in it."""
    named = " ".join(map(shlex.quote, layers))
    return f"aws lambda update-function-configuration --function-name {shlex.quote(function)} --layers {named}"


def invoke_twice(function: str) -> str:
    """The command that makes the first line: it is printed when the second invocation begins."""
    return f"for i in 1 2; do aws lambda invoke --function-name {shlex.quote(function)} /dev/null; done"
