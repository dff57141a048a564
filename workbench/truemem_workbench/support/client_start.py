"""Starts AWS's runtime client in another Python interpreter than ours, whose environment need not have it.

`python client_start.py FOLDERS HANDLER` is `python -m awslambdaric HANDLER` with the client from FOLDERS. Without a
handler it only loads the client, and prints what it found as JSON. It runs in the function's process, so it imports
only what `python -m` imports too.
"""

import os
import runpy
import sys
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from typing import Any

CLIENT_MODULES = {"awslambdaric", "runtime_client", "simplejson", "snapshot_restore_py", "truemem_workbench"}
"""The client and its dependencies; and our own handler for the scenario `out-of-memory`."""
STAND_IN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "runtime_client.py")  # noqa: PTH100, PTH118, PTH120
"""Replaces the client's C part, which fits one minor version of Python alone."""


class LastFinder:
    """Finds CLIENT_MODULES in `folders`, and nothing else there. It is asked last: what the user has installed comes
    first."""

    def __init__(self, folders: list[str]) -> None:
        self._folders = folders

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if path is not None or name not in CLIENT_MODULES:
            return None
        found = PathFinder.find_spec(name, self._folders)
        return spec_from_file_location(name, STAND_IN) if found is None and name == "runtime_client" else found


def print_facts() -> None:
    """Load the client, and print the interpreter's facts."""
    import json
    import sysconfig

    import awslambdaric.bootstrap  # noqa: F401
    import runtime_client

    facts = {
        "python": sys.executable,
        "version": f"{sys.version_info[0]}.{sys.version_info[1]}",
        "standIn": runtime_client.__file__ == STAND_IN,
        "needs": [os.path.realpath(sys.executable), os.__file__, sysconfig.get_path("purelib")],
    }
    print(json.dumps(facts))


if __name__ == "__main__":
    folders, *handler = sys.argv[1:]
    sys.path[0] = os.getcwd()  # noqa: PTH109
    sys.meta_path.append(LastFinder(folders.split(os.pathsep)))
    if handler:
        sys.argv = ["awslambdaric", *handler]
        runpy.run_module("awslambdaric", run_name="__main__", alter_sys=True)
    else:
        print_facts()
