"""The error for input that cannot be used, or for a missing package of an extra (`pip install 'truemem[report]'`)."""

from __future__ import annotations

from importlib.util import find_spec


class BadInput(Exception):
    """Input that cannot be used. The message is one line: what was asked, what is there, what to type."""


_LOCAL = ("aiohttp", "awslambdaric", "jsonschema", "psutil")
_PAGE = ("matplotlib", "numpy", "scipy")
MODULES = {
    "check": (*_LOCAL, "numpy", "scipy", "yaml"),
    "demo": (*_LOCAL, *_PAGE, "aws_lambda_powertools", "onnxruntime"),
    "explain": ("memray", "plotly"),
    "local": _LOCAL,
    "locust": ("locust",),
    "page": _PAGE,
    "report": ("duckdb", "numpy", "scipy"),
    "spark": ("duckdb", "numpy", "pyspark", "scipy"),
}
"""What each extra installs, by the names that are imported. pyproject.toml has the names that are installed."""


def need(extra: str) -> None:
    """Raises BadInput if a package of this extra is not installed. Imports none of them."""
    missing = next((module for module in MODULES[extra] if find_spec(module) is None), None)
    if missing is not None:
        raise BadInput(f"{missing} is not installed. Try pip install 'truemem[{extra}]'")
