"""A file of the kernel that is read again and again."""

from __future__ import annotations

import posix

from .files import READ_FLAGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from mypy_extensions import i64

READ_BYTES: Final = 16384
LINE_MOVES: Final = 512
"""Bytes that the lines above another one may become shorter by, or the lines between two of them have."""


class KeptFile:
    """A file that is read again and again, on a descriptor that stays open."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.descriptor = -1
        self._before = 0
        """The line that is looked for begins later than this (`line`)."""

    def read(self, limit: int, offset: int = 0) -> bytes:
        """Up to `limit` bytes from `offset`. Raises OSError."""
        if self.descriptor < 0:
            self.descriptor = posix.open(self._path, READ_FLAGS)
        return posix.pread(self.descriptor, limit, offset)

    def line(self, label: bytes, piece: int = READ_BYTES) -> tuple[bytes, i64]:
        """The text as far as the line is whole that begins with `label` (a line's end, and what follows it), and where
        that is; below 0 where it is not. /proc gives a page at a time: it is read in pieces. Raises OSError."""
        text = b""
        at: i64 = -1
        while True:
            more = self.read(piece, len(text))
            text = text + more if text else more
            if at < 0:
                at = text.find(label, self._before)
            if not more or (at >= 0 and text.find(b"\n", at + 1) >= 0):
                break
        # Where it was is where it will be, but for some digits.
        self._before = max(0, at - LINE_MOVES)
        return text, at if at >= 0 else text.find(label)
