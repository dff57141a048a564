"""Loads truemem_heap into a function in Python without a change of its code: PYTHONPATH=/opt/truemem/python:...

Python imports `sitecustomize` when it starts (module `site`). Another one on the path runs after this one. Child
processes and sys.path are as they would be without it. Its errors do not reach the function.
"""

from __future__ import annotations

import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib costs start time
PROBE = os.path.join(os.path.dirname(os.path.dirname(FOLDER)), "python")  # noqa: PTH118, PTH120
"""Folder of truemem_heap. Lambda puts it on the path, but only later."""


def hide() -> None:
    """Take this folder off the path: of this process, and of those that it starts."""
    sys.path[:] = [entry for entry in sys.path if entry != FOLDER]
    rest = [entry for entry in os.environ.get("PYTHONPATH", "").split(":") if entry != FOLDER]
    if any(rest):
        os.environ["PYTHONPATH"] = ":".join(rest)
    else:
        os.environ.pop("PYTHONPATH", None)


def load() -> None:
    """Load the probe, after the runtime client that it hooks into. Last on the path: no other module is replaced."""
    sys.path.append(PROBE)
    try:
        import awslambdaric.lambda_runtime_client  # noqa: F401
        import truemem_heap  # type: ignore[import-not-found]  # noqa: F401
    finally:
        sys.path.remove(PROBE)


def run_next() -> None:
    """Run the sitecustomize that Python would have found without this one. Its errors are its own, as ever."""
    from importlib.machinery import PathFinder

    found = PathFinder.find_spec("sitecustomize", sys.path)
    if found is None or found.loader is None:
        return
    from importlib.util import module_from_spec

    module = module_from_spec(found)
    sys.modules["sitecustomize"] = module
    found.loader.exec_module(module)


try:
    hide()
    if "_HANDLER" in os.environ:  # of the runtime alone: an extension in Python has the same PYTHONPATH
        load()
except Exception:
    pass
run_next()
