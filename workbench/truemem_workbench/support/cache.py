"""Where this machine keeps what is made once: clients of runtimes, and images that are unpacked."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .bad_input import BadInput


def cache() -> Path:
    """The folder of $TRUEMEM_CACHE, else that of the XDG base directory specification."""
    chosen = os.environ.get("TRUEMEM_CACHE")
    return Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "truemem"


@contextmanager
def made_once(folder: Path) -> Iterator[Path]:
    """A new folder to make it in, which becomes `folder` at the end, and goes after an error. Raises BadInput if it
    cannot be written."""
    making = folder.with_name(f"{folder.name}-{os.getpid()}")
    try:
        making.mkdir(parents=True)
        yield making
        if not folder.exists():  # another run may have been faster
            making.rename(folder)
    except OSError as error:
        raise BadInput(f"cannot write {making}: {error.strerror}. Try TRUEMEM_CACHE=FOLDER") from None
    finally:
        shutil.rmtree(making, ignore_errors=True)
