"""The wing's small files below /tmp, where the function can write as well: no link is followed."""

from __future__ import annotations

import posix

from ..support.files import SAFE_FLAGS, is_private


def make(path: str, text: bytes) -> None:
    """A private file with this text, in the place of what was there: never seen half written. Raises OSError, and
    leaves no file then."""
    new = f"{path}.new"
    remove(new)
    flags = posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_NOFOLLOW | posix.O_CLOEXEC
    descriptor = posix.open(new, flags, 0o600)
    try:
        posix.write(descriptor, text)  # of some bytes there is all or nothing
        posix.rename(new, path)
    except OSError:
        remove(new)
        raise
    finally:
        posix.close(descriptor)


def remove(path: str) -> None:
    """Remove the file, if it is there and can be removed."""
    try:
        posix.unlink(path)
    except OSError:
        pass


def read(path: str, most: int) -> bytes | None:
    """The file; None as long as there is none. Nothing of what is no private file, or has more bytes than `most`."""
    try:
        descriptor = posix.open(path, SAFE_FLAGS)
    except FileNotFoundError:
        return None
    except OSError:  # a link
        return b""
    try:
        return posix.read(descriptor, most) if is_private(descriptor, 1, most=most) else b""
    except OSError:
        return b""
    finally:
        posix.close(descriptor)
