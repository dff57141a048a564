"""Moves files through the page cache, or maps them: what of it does Max Memory Used count?"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

from notes import TMP

BUFFER = 1 << 20
FILE = TMP / "truemem-probe.bin"
CODE = ("/var/lang", "/usr/lib64", "/usr/lib", "/usr/bin")
"""Folders of a zip function's read-only files: the runtime and the operating system."""
PAGE = 4096


def write_file(size: int) -> int:
    """Write a file to /tmp. Returns its bytes."""
    block = os.urandom(BUFFER)
    with FILE.open("wb", buffering=0) as file:
        for _ in range(size // BUFFER):
            file.write(block)
    return size // BUFFER * BUFFER


def read_file(path: Path, limit: int) -> int:
    """Bytes read, at most `limit`, into one small buffer: RSS does not grow."""
    done, buffer = 0, memoryview(bytearray(BUFFER))
    with path.open("rb", buffering=0) as file:
        while done < limit and (count := file.readinto(buffer[: limit - done])):
            done += count
    return done


def read_folders(folders: tuple[str, ...], limit: int) -> int:
    """Bytes read of what is below `folders`, at most `limit`."""
    done = 0
    for path in _files(folders):
        if done >= limit:
            break
        try:
            done += read_file(path, limit - done)
        except OSError:
            continue  # not ours to read
    return done


class Mapped:
    """Files below `folders`, mapped and touched page by page, at most `limit` bytes. RSS has them until the end."""

    def __init__(self, folders: tuple[str, ...], limit: int) -> None:
        self.bytes = 0
        self._maps: list[mmap.mmap] = []
        for path in _files(folders):
            if self.bytes >= limit:
                break
            try:
                self._map(path, limit - self.bytes)
            except (OSError, ValueError):
                continue  # not ours to read, or empty

    def _map(self, path: Path, limit: int) -> None:
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), min(path.stat().st_size, limit), prot=mmap.PROT_READ)
        for at in range(0, len(mapped), PAGE):
            mapped[at]
        self._maps.append(mapped)
        self.bytes += len(mapped)

    def close(self) -> None:
        for mapped in self._maps:
            mapped.close()


def _files(folders: tuple[str, ...]) -> Iterator[Path]:
    for folder in folders:
        for parent, _, names in os.walk(folder):
            paths = (Path(parent, name) for name in sorted(names))
            yield from (path for path in paths if path.is_file() and not path.is_symlink())
