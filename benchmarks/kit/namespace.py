"""A separate PID namespace for a benchmark, as each execution environment has one.

There an extension sees little more than the function's processes and other extensions'. On a machine with hundreds of
processes it would have to look at them all.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

INSIDE = "TRUEMEM_BENCH_NAMESPACE"
COMMAND = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


def enter() -> bool:
    """Start this program again in one (unshare(1)), unless it is in one. Returns False if that is not permitted."""
    if INSIDE in os.environ:
        return True
    if not shutil.which(COMMAND[0]) or subprocess.run([*COMMAND, "true"], check=False, capture_output=True).returncode:
        return False
    os.environ[INSIDE] = "1"
    os.execvp(COMMAND[0], [*COMMAND, sys.executable, *sys.orig_argv[1:]])
    return False  # not reached


def described() -> str:
    """For the results page."""
    seen = "a PID namespace of its own, as in Lambda" if INSIDE in os.environ else "the machine's own PID namespace"
    return f"In {seen}: {sum(path.name.isdigit() for path in Path('/proc').iterdir())} processes to be seen."
