"""glibc's malloc, as far as the incident needs it."""

from __future__ import annotations

import ctypes

M_MMAP_THRESHOLD = -3
"""From malloc.h: blocks of at least so many bytes get a mapping of their own, which free() gives back."""


def set_mmap_threshold(size: int) -> bool:
    """Set M_MMAP_THRESHOLD to `size` bytes, for every arena, from now on. False where it cannot be (no glibc).

    glibc starts at 128 KiB and slides up to the largest mapped block it has seen freed, at most 32 MiB: after
    the first few models, blocks of hundreds of KiB land in arenas and stay there. Setting it, to any value,
    also ends the sliding (mallopt(3)).
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, size))
