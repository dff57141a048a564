"""The model store: a folder below /tmp that never holds more than it may."""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PATTERN = "model-*.onnx"
"""What the store takes for its own. Other files in the folder are neither counted nor dropped."""

UNFINISHED = ".model-*.part"
"""Being written, or left behind by a process that was killed: the kernel's lock on the file tells which."""


class StoreError(RuntimeError):
    """A model could not be put into the store. The message names the folder and the fix."""


class ModelStore:
    """Files of models, least recently used dropped first. What is handed out by `use` stays while it is used.

    For one process at a time, as an execution environment has it. Others may write to the same folder: a file is
    there whole or not at all. They may drop each other's files, though: give each its own where the bound matters.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        """A store in `folder` (made when first needed) of at most `limit` bytes."""
        self.folder = folder
        self.limit = limit
        self._in_use: Counter[str] = Counter()
        self._drop_leftovers()

    @contextmanager
    def use(self, name: str, size: int, make: Callable[[], Iterable[bytes]]) -> Iterator[Path]:
        """The file `name` of `size` bytes; if it is not there, from the pieces of `make()`. Raises StoreError."""
        self._in_use[name] += 1
        try:
            yield self.find(name, size) or self.add(name, size, make())
        finally:
            self._in_use[name] -= 1

    def find(self, name: str, size: int) -> Path | None:
        """Where file `name` is, and note its use. None if it is not there, or not of `size` bytes."""
        path = self.folder / name
        try:
            if path.stat().st_size != size:
                return None
        except (FileNotFoundError, NotADirectoryError):
            return None
        now = time.time_ns()
        with suppress(OSError):  # another user's file, or a read-only folder: it can still be read
            os.utime(path, ns=(now, now))
        return path

    def add(self, name: str, size: int, pieces: Iterable[bytes]) -> Path:
        """Write file `name`, whole or not at all, after making room for its `size` bytes. Raises StoreError."""
        path = self.folder / name
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._make_room(name, size)
            self._write(path, size, pieces)
        except OSError as error:
            fix = "set MODEL_DIR to a folder that can be written to"
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                fix = "lower MODEL_STORE_MIB, or give the function more ephemeral storage"
            raise StoreError(f"cannot write to {self.folder}: {error.strerror or error}: {fix}") from error
        return path

    def _write(self, path: Path, size: int, pieces: Iterable[bytes]) -> None:
        handle, temporary = tempfile.mkstemp(dir=self.folder, prefix=f".{path.name}.", suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed, or this process dies
                for piece in pieces:
                    file.write(piece)
                _check_size(path.name, file.tell(), size)
                file.flush()
                # mkstemp makes it private; under the local Lambda another user reads it
                os.fchmod(file.fileno(), 0o644)
                Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def _make_room(self, name: str, size: int) -> None:
        """Drop the least recently used files until `size` more bytes fit. Raises StoreError, OSError."""
        files = {path: path.stat() for path in self.folder.glob(PATTERN) if path.name != name}
        held = sum(status.st_size for status in files.values())
        held += sum(path.stat().st_size for path in self.folder.glob(UNFINISHED))
        for path in sorted(files, key=lambda path: files[path].st_mtime_ns):
            if held + size <= self.limit:
                return
            if not self._in_use[path.name]:
                path.unlink(missing_ok=True)
                held -= files[path].st_size
        if held + size > self.limit:
            mib = 2**20
            raise StoreError(
                f"{name} of {size / mib:.1f} MiB does not fit into {self.folder}: {held / mib:.1f} of"
                f" {self.limit / mib:.0f} MiB are in use: raise MODEL_STORE_MIB"
            )

    def _drop_leftovers(self) -> None:
        """Files that a killed process was writing: no process holds their lock any more."""
        for path in self.folder.glob(UNFINISHED):
            with suppress(OSError), path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()


def _check_size(name: str, written: int, size: int) -> None:
    if written != size:
        raise StoreError(f"{name} came with {written} bytes, not {size}: not kept, try again")
