"""`python -m truemem_workbench.mcp.beside PID WORDS`: the command `truemem WORDS`, which ends when its server PID does.

A server that is killed (SIGKILL, out of memory) cannot end its commands. On Linux the kernel does it: the command gets
SIGTERM, and ends what it has begun. Elsewhere it runs to its end; the local Lambda, which takes long, needs Linux.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main() -> None:
    server = int(sys.argv.pop(1))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != server:  # it has ended before that
            return
    runpy.run_module("truemem_workbench.commands", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
