"""The command `truemem`."""

from __future__ import annotations

import signal


def main() -> None:
    """Run the command and exit."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the modules are there, Ctrl-C ends it without a traceback
    from .__main__ import main as run

    run()
