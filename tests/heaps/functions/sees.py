"""A function that knows nothing of the probe. It answers all that it, and a child of it, can see of its start."""

import json
import os
import subprocess
import sys

CHILD = "import json, os, sys; print(json.dumps([sys.path, dict(os.environ), 'truemem_heap' in sys.modules]))"


def handler(event: object, context: object) -> dict[str, object]:
    child = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True)
    path, environment, probe = json.loads(child.stdout)
    return {
        "path": sys.path,
        "argv": sys.argv,
        "finders": len(sys.meta_path),
        "environment": dict(os.environ),
        "child": {"path": path, "environment": environment, "probe": probe},
    }
