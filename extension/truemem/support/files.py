"""Reads small files without Python's file objects: one descriptor, one read."""

from __future__ import annotations

import posix

FLAGS = posix.O_RDONLY | posix.O_CLOEXEC


def read(path: str, limit: int) -> bytes:
    """The first `limit` bytes: files of /proc have no size. Raises OSError."""
    descriptor = posix.open(path, FLAGS)
    try:
        return posix.read(descriptor, limit)
    finally:
        posix.close(descriptor)


class KeptFile:
    """A file that is read again and again, on a descriptor that stays open."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.descriptor = -1

    def read(self, limit: int, offset: int = 0) -> bytes:
        """Up to `limit` bytes from `offset`. Raises OSError."""
        if self.descriptor < 0:
            self.descriptor = posix.open(self._path, FLAGS)
        return posix.pread(self.descriptor, limit, offset)
