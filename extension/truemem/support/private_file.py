"""Small files of one environment below /tmp. The function can write there as well: what is not private is not read."""

from __future__ import annotations

import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

PAGE = 4096
"""What the kernel has begun to copy it copies to the end of the page, whatever signal comes."""

_REGULAR = 0o100000
_KIND = 0o170000


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


def is_private(descriptor: int, size: int) -> bool:
    """Is it a regular file of ours, of this size in bytes, with one name and no access for others? Raises OSError."""
    about = posix.fstat(descriptor)
    private = about.st_mode & _KIND == _REGULAR and not about.st_mode & 0o077 and about.st_uid == posix.geteuid()
    return private and about.st_nlink == 1 and about.st_size == size
