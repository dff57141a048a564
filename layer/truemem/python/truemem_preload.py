"""Loads truemem_heap into a function in Python without a change of its code: PYTHONPATH=/opt/truemem/python:...

Python imports `sitecustomize`, then `usercustomize` when it starts (module `site`). Both are here, and import this one:
OpenTelemetry's wrapper puts a `sitecustomize` of its own before ours. Others of these names on the path run after ours.
sys.path and child processes of the function are as they would be without it. Its errors do not reach the function.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib costs start time
PROBE = os.path.join(os.path.dirname(os.path.dirname(FOLDER)), "python")  # noqa: PTH118, PTH120
"""Folder of truemem_heap. Lambda puts it on the path, but only later."""


CLIENT = "awslambdaric.lambda_runtime_client"


def hide() -> None:
    """Take this folder off the path: of this process, and of those that it starts."""
    sys.path[:] = [entry for entry in sys.path if entry != FOLDER]
    rest = [entry for entry in os.environ.get("PYTHONPATH", "").split(":") if entry != FOLDER]
    if any(rest):
        os.environ["PYTHONPATH"] = ":".join(rest)
    else:
        os.environ.pop("PYTHONPATH", None)


def load() -> None:
    """Load the probe, which hooks into the client. Last on the path: no other module is replaced."""
    hide()
    sys.modules.pop(__name__, None)
    sys.path.append(PROBE)
    try:
        import truemem_heap  # type: ignore[import-not-found]  # noqa: F401
    finally:
        sys.path.remove(PROBE)


class AfterClient:
    """Waits until the runtime imports its client, from wherever it has it, and then loads the probe.

    It only passes on what the other finders find. A process that imports no client, such as a vendor's wrapper in
    Python that starts the runtime, keeps its path as it is.
    """

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != CLIENT:
            return None
        sys.meta_path.remove(self)
        finders = (finder.find_spec(name, path, target) for finder in sys.meta_path)
        found = next(filter(None, finders), None)
        if found is not None and found.loader is not None:
            run = found.loader.exec_module

            def exec_module(module: Any) -> None:
                run(module)
                try:  # noqa: SIM105 - contextlib costs start time
                    load()
                except Exception:
                    pass

            found.loader.exec_module = exec_module  # type: ignore[method-assign]
        return found


def run_next(name: str) -> None:
    """Run the module of this name that Python would have found without ours. Its errors are its own, as ever."""
    from importlib.machinery import PathFinder

    found = PathFinder.find_spec(name, [entry for entry in sys.path if entry != FOLDER])
    if found is None or found.loader is None:
        return
    from importlib.util import module_from_spec

    module = module_from_spec(found)
    sys.modules[name] = module
    found.loader.exec_module(module)


if "_HANDLER" in os.environ:  # of the runtime: an extension in Python has the same PYTHONPATH
    sys.meta_path.insert(0, AfterClient())
