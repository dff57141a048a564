"""Serves requests at once. KEEPS: `each` worker keeps 16 KiB of every request, `one` of them does, or none."""

import os
from contextlib import suppress
from pathlib import Path

kept: list[bytearray] = []
KEEPS = os.environ.get("KEEPS", "")


def handler(event: object, context: object) -> int:
    mine = Path(os.environ["TMPDIR"], "the-one")
    if KEEPS == "one":
        with suppress(FileExistsError):
            mine.symlink_to(str(os.getpid()))
    if KEEPS == "each" or (KEEPS == "one" and str(mine.readlink()) == str(os.getpid())):
        kept.append(bytearray(16 << 10))
    return len(kept)
