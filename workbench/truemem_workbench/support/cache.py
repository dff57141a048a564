"""Where this machine keeps what is made once: clients of runtimes, and images that are unpacked."""

from __future__ import annotations

import os
from pathlib import Path


def cache() -> Path:
    """The folder of $TRUEMEM_CACHE, else that of the XDG base directory specification."""
    chosen = os.environ.get("TRUEMEM_CACHE")
    return Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "truemem"
