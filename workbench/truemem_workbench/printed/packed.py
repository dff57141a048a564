"""Brings what a person names to the disk, as files of one log each: pipes, archives, and files packed with zstd."""

from __future__ import annotations

import shutil
import stat
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from typing import IO

from ..support.bad_input import BadInput
from ..support.untrusted_text import chunks
from .log_files import unpacked

ZIP, ZSTD, TAR = b"PK\x03\x04", b"\x28\xb5\x2f\xfd", b"ustar"
_TAR_PLACE = 257


def on_disk(files: Iterable[Path], folder: Path) -> list[Path]:
    """Return the files; of a pipe, and of standard input (`-`), a copy in `folder`; of an archive or a file of zstd
    copies of what is in it, in its order. Raises BadInput.

    Copies, because the input may be larger than memory, and its form must be known before it is read.
    """
    return [each for file in files for each in _members(_copied(file, folder), folder, file)]


def _place(folder: Path, name: str) -> Path:
    return folder / f"{len(list(folder.iterdir()))}-{name}"


def _copied(file: Path, folder: Path) -> Path:
    if str(file) != "-" and not _is_pipe(file):
        return file
    path = folder / ("standard-input" if str(file) == "-" else f"pipe-{len(list(folder.iterdir()))}")
    try:
        with path.open("wb") as copy:
            if str(file) == "-":
                shutil.copyfileobj(sys.stdin.buffer, copy)
            else:
                copy.writelines(chunks(file))
    except OSError as error:
        raise BadInput(f"{file} cannot be read: {error.strerror}") from error
    return path


def _is_pipe(file: Path) -> bool:
    """True if the file can be read only once."""
    try:
        return stat.S_ISFIFO(file.stat().st_mode)
    except OSError:
        return False  # reported where it is opened


def _members(path: Path, folder: Path, named: Path) -> list[Path]:
    """The file itself, or copies of what is in it."""
    try:
        with path.open("rb") as raw:
            head = raw.read(len(ZIP))
            raw.seek(0)
            is_tar = unpacked(raw).read(_TAR_PLACE + len(TAR))[_TAR_PLACE:] == TAR
    except (OSError, EOFError, zlib.error):
        return [path]  # reported where it is read
    try:
        if head == ZSTD:
            return _members(_without_zstd(path, folder, named), folder, named)
        return [*_copies(path, folder, is_tar=is_tar)] if is_tar or head == ZIP else [path]
    except (OSError, EOFError, zlib.error, RuntimeError, tarfile.TarError, zipfile.BadZipFile) as error:
        raise BadInput(f"{named} cannot be unpacked: {error}. Try the logs in it") from error


def _copies(path: Path, folder: Path, *, is_tar: bool) -> Iterator[Path]:
    with ExitStack() as opened:
        files: Iterable[tuple[str, IO[bytes] | None]]
        if is_tar:
            tar = opened.enter_context(tarfile.open(path))
            files = ((each.name, tar.extractfile(each)) for each in tar if each.isfile())
        else:
            archive = opened.enter_context(zipfile.ZipFile(path))
            files = ((each.filename, archive.open(each)) for each in archive.infolist() if not each.is_dir())
        for name, content in files:
            copy = _place(folder, "-".join(PurePosixPath(name).parts)[-150:])  # a folder may be a log stream
            if content is None or PurePosixPath(name).parts[0] == "__MACOSX":
                continue
            with content, copy.open("wb") as file:
                shutil.copyfileobj(content, file)
            yield copy


def _without_zstd(path: Path, folder: Path, named: Path) -> Path:
    """A copy that zstd's own program has made: Python has it from 3.14 on only."""
    program = shutil.which("zstd")
    if program is None:
        raise BadInput(f"{named} is packed with zstd, and that is not here. Install zstd, or unpack it elsewhere")
    copy = _place(folder, named.name.removesuffix(".zst"))
    with path.open("rb") as file, copy.open("wb") as made:
        ended = subprocess.run([program, "-dcq"], stdin=file, stdout=made, stderr=subprocess.PIPE, check=False)
    if ended.returncode:
        raise BadInput(f"{named} cannot be unpacked: {ended.stderr.decode(errors='replace').strip()}")
    return copy
