"""A function without the probe in its code. It answers what it sees of the folder that loads it."""

import os
import subprocess
import sys

kept: list[bytes] = []


def handler(event: dict[str, int], context: object) -> dict[str, object]:
    kept.append(b"1" * (event.get("mib", 0) << 20))
    child = subprocess.run(
        [sys.executable, "-c", "import sys; print('truemem_heap' in sys.modules, *sys.path)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return {"path": sys.path, "PYTHONPATH": os.environ.get("PYTHONPATH"), "child": child.stdout.split()}
