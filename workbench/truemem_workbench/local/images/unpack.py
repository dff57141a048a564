"""Unpacks the layers of an image into a folder, as a container's file system has them. No path leaves that folder."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tarfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, cast

from ...support.bad_input import BadInput
from ...support.untrusted_text import visible
from .archive import AGAIN, COPIED_BYTES, DAMAGED, Layer, decompressed

WHITEOUT, OPAQUE = ".wh.", ".wh..wh..opq"
"""Names of files that say what of lower layers is gone: one entry, or all of the folder (OCI image-spec, layer.md)."""
MOST_LINKS = 40  # links on the way to a file, as the kernel has it (path_resolution(7))
KEPT_MODE = 0o1777
"""What of a mode is kept. Lambda's user becomes no other by setuid."""


class Leaves(ValueError):
    """A path that leaves the folder, has links in a circle, or is a link to nothing."""


def within(root: Path, path: str, *, follows: bool = True) -> Path:
    """Where a path of the image is below its root: links are followed as processes in this root would, so that none
    leads out of it. `follows`: the last part too. The file need not be there. Raises Leaves."""
    left, found, links = _parts(path), root, 0
    while left:
        part = left.pop(0)
        if part == "..":
            found = found if found == root else found.parent
            continue
        place = found / part
        if (left or follows) and place.is_symlink():
            links += 1
            if links > MOST_LINKS:
                raise Leaves(f"{path}: too many links")
            target = os.readlink(place)  # noqa: PTH115  # pathlib drops a last slash
            found = root if target.startswith("/") else found
            left = _parts(target) + left
        else:
            found = place
    return found


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def unpack(layers: Sequence[Layer], root: Path, progress: Callable[[int, int], None]) -> None:
    """Unpack them, the lowest first, into this empty folder. `progress` gets bytes done and of all. Raises BadInput for
    one that is damaged, or whose digest is another; OSError if it cannot be written."""
    total, done = sum(layer.size for layer in layers), 0
    for number, layer in enumerate(layers, 1):
        which = f"layer {number} of {len(layers)} ({layer.digest[:19]})"
        with layer.stored() as stored:
            counted = _Counted(stored, lambda read, before=done: progress(before + read, total))  # type: ignore[misc]
            try:
                _unpack(cast(IO[bytes], counted), root, layer.digest)
            except DAMAGED as error:
                raise BadInput(f"{which} is damaged ({error}). {AGAIN}") from None
            except (Leaves, ValueError) as error:
                raise BadInput(f"{which} cannot be used: {visible(str(error))}. Try docker build once more") from None
        done += layer.size


def _unpack(stored: IO[bytes], root: Path, digest: str) -> None:
    with decompressed(stored) as plain:
        hashed = _Hashed(plain)
        with tarfile.open(fileobj=cast(IO[bytes], hashed), mode="r|") as tar:
            layer = _Layer(root)
            for entry in tar:
                layer.add(entry, tar)
        while hashed.read(COPIED_BYTES):  # what follows the archive's end is in its digest too
            pass
    layer.finish()
    if f"sha256:{hashed.hash.hexdigest()}" != digest:
        raise tarfile.ReadError("its digest is another")


class _Layer:
    """One layer while it is unpacked."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._is_root = os.geteuid() == 0
        self._own: set[Path] = set()
        """What this layer has brought, with the folders above it: no whiteout of its own takes that away."""
        self._folders: dict[Path, tarfile.TarInfo] = {}

    def add(self, entry: tarfile.TarInfo, tar: tarfile.TarFile) -> None:
        """Raises Leaves, OSError and what tarfile raises."""
        if ".." in entry.name.split("/"):
            raise Leaves(f"{entry.name} leaves its folder")
        path = within(self._root, entry.name, follows=False)
        if path == self._root:
            return
        parent, name = path.parent, path.name
        if name == OPAQUE:
            self._empty(parent)
        elif name.startswith(WHITEOUT):
            if (gone := name.removeprefix(WHITEOUT)) not in ("", ".", "..") and not gone.startswith(WHITEOUT):
                self._hide(parent / gone)
        else:
            self._make_parents(parent)
            if self._write(entry, path, tar):
                while path != self._root and path not in self._own:
                    self._own.add(path)
                    path = path.parent

    def finish(self) -> None:
        """Folders get their modes last: one may forbid to write into it. Meanwhile a link may have taken the place of a
        folder above one."""
        for path, entry in reversed(self._folders.items()):
            if path.is_dir() and within(self._root, str(path.relative_to(self._root))) == path:
                self._own_by(path, entry)
                path.chmod(entry.mode & KEPT_MODE | (0 if self._is_root else 0o700))

    def _make_parents(self, parent: Path) -> None:
        if not parent.is_dir():
            if parent.is_symlink() or parent.exists():
                self._remove(parent)
            self._make_parents(parent.parent)
            parent.mkdir()
            parent.chmod(0o755)

    def _write(self, entry: tarfile.TarInfo, path: Path, tar: tarfile.TarFile) -> bool:
        """Whether it is anything that Lambda's user could use: no device."""
        if entry.isdir():
            if path.is_symlink() or not path.is_dir():
                self._remove(path)
                path.mkdir()
            self._folders[path] = entry
            return True
        source = within(self._root, entry.linkname, follows=False) if entry.islnk() else None
        if source == path:
            return True
        if path.is_symlink() or path.exists():
            self._remove(path)
        if entry.issym():
            path.symlink_to(entry.linkname)
            self._own_by(path, entry)
        elif source is not None:
            if not source.is_symlink() and not source.exists():
                raise Leaves(f"{entry.name} is a link to {entry.linkname}, which is not there")
            os.link(source, path, follow_symlinks=False)
        elif entry.isfile():
            file = tar.extractfile(entry)
            assert file is not None
            with path.open("xb") as out:
                shutil.copyfileobj(file, out, COPIED_BYTES)
            self._own_by(path, entry)
            path.chmod(entry.mode & KEPT_MODE)
            os.utime(path, (entry.mtime, entry.mtime))  # Python compares them with those in its .pyc files
        elif entry.isfifo():
            os.mkfifo(path, entry.mode & KEPT_MODE)
        else:
            return False
        return True

    def _own_by(self, path: Path, entry: tarfile.TarInfo) -> None:
        if self._is_root:
            os.lchown(path, entry.uid, entry.gid)

    def _empty(self, folder: Path) -> None:
        """Without what lower layers have in it."""
        if folder.is_dir() and not folder.is_symlink():
            for each in folder.iterdir():
                self._hide(each)

    def _hide(self, path: Path) -> None:
        self._empty(path) if path in self._own else self._remove(path)

    def _remove(self, path: Path) -> None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


class _Hashed(io.RawIOBase):
    """Reads a stream, and hashes it."""

    def __init__(self, file: IO[bytes]) -> None:
        self.hash = hashlib.sha256()
        self._file = file

    def read(self, size: int = -1, /) -> bytes:
        data = self._file.read(size)
        self.hash.update(data)
        return data


class _Counted(io.RawIOBase):
    """Reads a stream, and tells how much of it was read."""

    def __init__(self, file: IO[bytes], tell: Callable[[int], None]) -> None:
        self._file, self._tell = file, tell

    def read(self, size: int = -1, /) -> bytes:
        data = self._file.read(size)
        with suppress(ValueError):
            self._tell(self._file.tell())
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()
