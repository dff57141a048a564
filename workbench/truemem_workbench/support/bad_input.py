"""The error for input that cannot be used, or for a missing package of an extra (`pip install 'truemem[spark]'`)."""

from __future__ import annotations

import sys
from importlib.util import find_spec


class BadInput(Exception):
    """Input that cannot be used. The message is one line: what was asked, what is there, what to type."""


class BadFunction(BadInput):
    """The same where it is the function itself that cannot be used: its code, not an option of the command."""


MODULES = {
    "demo": ("aws_lambda_powertools", "onnxruntime", "matplotlib"),
    "locust": ("locust",),
    "mcp": ("mcp",),
    "pictures": ("matplotlib",),
    "spark": ("pyspark",),
}
"""What each extra must bring, by the names that are imported."""


def need_linux(what: str) -> None:
    """Raises BadInput where there is no Linux: the local Lambda is made of its processes, /proc and cgroups."""
    if sys.platform != "linux":
        here = "WSL or a container" if sys.platform == "win32" else "a container or a virtual machine"
        raise BadInput(f"{what} needs Linux. Try {here}; or a deployed function: truemem check NAME")


def need(extra: str) -> None:
    """Raises BadInput if a package of this extra is not installed. Imports none of them."""
    missing = next((module for module in MODULES[extra] if find_spec(module) is None), None)
    if missing is not None:
        raise BadInput(f"{missing} is not installed. Try pip install 'truemem[{extra}]'")
