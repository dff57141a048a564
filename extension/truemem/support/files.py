"""Small files, read without Python's file objects; and those that other programs can write as well, such as below /tmp:
what is not private is not read."""

from __future__ import annotations

import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

READ_FLAGS = posix.O_RDONLY | posix.O_CLOEXEC
SAFE_FLAGS = READ_FLAGS | posix.O_NOFOLLOW | posix.O_NONBLOCK
"""Follows no link, and waits neither for a FIFO nor for a lease (fcntl(2))."""
PAGE_BYTES = 4096
"""What the kernel has begun to copy it copies to the end of the page, whatever signal comes."""

_KIND, _REGULAR = 0o170000, 0o100000


def read(path: str, limit: int) -> bytes:
    """The first `limit` bytes: files of /proc have no size. Raises OSError."""
    descriptor = posix.open(path, READ_FLAGS)
    try:
        return posix.read(descriptor, limit)
    finally:
        posix.close(descriptor)


def tmp_of(environ: Mapping[bytes, bytes]) -> str:
    """The folder that belongs to one environment alone: /tmp, or a TMPDIR in it. (One elsewhere may be shared by
    many.)"""
    tmp = environ.get(b"TMPDIR", b"").decode("utf-8", "surrogateescape")
    return tmp.rstrip("/") if tmp.startswith("/tmp/") and ".." not in tmp else "/tmp"


def path_in(environ: Mapping[bytes, bytes], name: str) -> str:
    """Where the file `name` lies. The API's address tells local environments on one machine apart."""
    address = environ.get(b"AWS_LAMBDA_RUNTIME_API", b"").decode("latin-1")
    digits = "".join(c for c in address if c.isdigit())
    return f"{tmp_of(environ)}/.truemem-{name[:64]}-{digits[:32]}"


def is_private(descriptor: int, size: int, *, most: int = 0, owner: int = -1, denied: int = 0o077) -> bool:
    """Is it a regular file of ours (or of the user `owner`), with one name, of `size` bytes (or up to `most`), and do
    others have none of the permissions `denied`? Raises OSError."""
    about = posix.fstat(descriptor)
    is_own = about.st_uid == (posix.geteuid() if owner < 0 else owner) and not about.st_mode & denied
    is_file = about.st_mode & _KIND == _REGULAR and about.st_nlink == 1
    return is_own and is_file and size <= about.st_size <= max(size, most)


def write_private(path: str, text: bytes) -> None:
    """A private file with this text, in the place of what was there: never seen half written, and no link is followed.
    Raises OSError, and leaves no file then."""
    new = f"{path}.new"
    remove(new)
    flags = posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_NOFOLLOW | posix.O_CLOEXEC
    descriptor = posix.open(new, flags, 0o600)
    try:
        is_whole = posix.write(descriptor, text) == len(text)
        if is_whole:
            posix.rename(new, path)
    except OSError:
        remove(new)
        raise
    finally:
        posix.close(descriptor)
    if not is_whole:
        remove(new)
        raise OSError(f"no room for {path}")


def remove(path: str) -> None:
    """Remove the file, if it is there and can be removed."""
    try:
        posix.unlink(path)
    except OSError:
        pass


def read_private(path: str, most: int) -> bytes | None:
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
