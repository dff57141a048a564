"""AWS's own runtime clients for other interpreters than ours: installed once, in folders below the one of our own.

Each of these functions raises Missing where this machine cannot have the client.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from truemem_workbench.local import BadInput
from truemem_workbench.local.configuration.node_function import installed_client

from testing.installs import Missing, python

__all__ = ["aws_lambda_ric", "node", "python"]


def node() -> Path:
    """The node on the path."""
    found = shutil.which("node")
    if found is None:
        raise Missing("there is no node on the path")
    return Path(found)


def aws_lambda_ric() -> Path:
    """The script of aws-lambda-ric, to be run by `node()`: what `make layer` has compiled, or minutes of npm."""
    try:
        return installed_client(node())
    except BadInput as problem:
        raise Missing(str(problem)) from None
