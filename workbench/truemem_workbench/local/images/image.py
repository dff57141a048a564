"""An image of a function: its root folder, unpacked once into a cache, and what is started in it."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ...support.bad_input import BadInput
from ...support.cache import cache
from ...support.untrusted_text import visible
from .archive import LAMBDAS, OURS, Archive, opened
from .unpack import Leaves, unpack, within

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""PATH in an image that sets none (Docker's default)."""
EXTENSIONS = "/opt/extensions"
TASK_ROOT = "LAMBDA_TASK_ROOT"
KEPT = 5  # images in the cache: those used last
MACHINES = {62: "amd64", 183: "arm64"}
"""e_machine of an ELF header (elf.h), as images name architectures."""
_USED: dict[Path, int] = {}
"""Locks of the images that this process uses, until it ends."""

Language = Literal["python", "nodejs", "java", ""]
_LANGUAGES: Sequence[tuple[Language, re.Pattern[str]]] = (
    ("python", re.compile(r"(?:^|/)(?:python|pypy)[\d.]*$")),
    ("nodejs", re.compile(r"(?:^|/)(?:node|npx|aws-lambda-ric)$")),
)
_OF_BASE: Mapping[str, Language] = {"/var/lang/bin/python3": "python", "/var/lang/bin/node": "nodejs"}
"""Programs of AWS's base images."""
SCRIPT_BYTES = 1 << 16
_OF_ROOT = re.compile(r"/.*?/truemem-[^/]+/root(?=/)")
"""The place of a root (root.Root)."""


@dataclass(frozen=True)
class Image:
    """A container image that is unpacked. Paths in it are texts, those on this machine are Paths."""

    spec: str
    """Where it came from, as the user wrote it."""
    root: Path
    """Its file system."""
    entrypoint: tuple[str, ...]
    cmd: tuple[str, ...]
    folder: str
    """WORKDIR."""
    variables: Mapping[str, str]
    """ENV."""
    exact: Path | None = None
    """The program of exact mode, on this machine: it is run before the root is entered."""

    @property
    def command(self) -> tuple[str, ...]:
        return (*self.entrypoint, *self.cmd)

    @property
    def program(self) -> Path:
        """The file that is started. Raises BadInput if it cannot be."""
        if not self.command:
            raise BadInput(f"{self.spec} has neither ENTRYPOINT nor CMD: Lambda starts nothing. Add an ENTRYPOINT")
        name = self.command[0]
        path = self.variables.get("PATH", PATH)
        places = [f"{self.folder}/{name}"] if "/" in name else [f"{folder}/{name}" for folder in path.split(":")]
        found = [self.outside(name if name.startswith("/") else place) for place in places]
        program = next((each for each in found if each.is_file()), None)
        first = f"{self.spec}: {visible(name)}, the first word of ENTRYPOINT and CMD,"
        if program is None:
            fix = 'Try ENTRYPOINT ["/usr/local/bin/python", "-m", "awslambdaric"] for a handler in Python'
            raise BadInput(f"{first} is no program in the image. {fix}")
        if not program.stat().st_mode & 0o111:
            raise BadInput(f"{first} is not executable. Try RUN chmod +x {visible(name)}")
        with program.open("rb") as file:
            begin = file.read(20)
        machine = MACHINES.get(int.from_bytes(begin[18:20], "little"), OURS)
        if begin.startswith(b"\x7fELF") and machine != OURS:
            theirs, ours = (LAMBDAS.get(each, each) for each in (machine, OURS))
            raise BadInput(f"{first} is a program for {theirs}, and this machine is {ours}: build it for {ours}")
        return program

    @property
    def language(self) -> Language:
        """What its command, or the script that it starts, says. Empty for any other."""
        words = [" ".join(self.command)]
        with self.program.open("rb") as file:
            if (text := file.read(SCRIPT_BYTES)).startswith(b"#!"):
                words.append(text.decode(errors="replace"))
        for each in words:
            for word in re.split(r"[\s\"';#!]+", each):
                for language, pattern in _LANGUAGES:
                    if pattern.search(word):
                        return language
        return next((each for place, each in _OF_BASE.items() if self.outside(place).is_file()), "")

    @property
    def task_root(self) -> str:
        """The folder of the function's code: what AWS's base images say, else WORKDIR."""
        return self.variables.get(TASK_ROOT, self.folder)

    @property
    def extensions(self) -> dict[str, Path]:
        """The executables in its folder of extensions, by name."""
        folder = self.outside(EXTENSIONS)
        names = sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []
        found = {name: self.outside(f"{EXTENSIONS}/{name}") for name in names}
        return {name: path for name, path in found.items() if path.is_file() and path.stat().st_mode & 0o111}

    def outside(self, path: str) -> Path:
        """Where a path of the image is on this machine. Raises BadInput if its links lead nowhere."""
        try:
            return within(self.root, path)
        except Leaves as error:
            raise BadInput(f"{self.spec}: {visible(str(error))}. Try docker build once more") from None

    def inside(self, path: Path) -> str:
        """The path in the image of a file below its root."""
        return f"/{path.relative_to(self.root)}"

    def placed(self, value: Any) -> Any:
        """A copy of a JSON document of the function's process in which each path of a file of the image is that of this
        machine. So is one that /proc has told here, of a root that is gone."""
        if isinstance(value, str):
            return _file(self.root, _OF_ROOT.sub("", value, count=1)) or value if value.startswith("/") else value
        if isinstance(value, dict):
            return {name: self.placed(each) for name, each in value.items()}
        return [*map(self.placed, value)] if type(value) in (list, tuple) else value

    def configured(self, entrypoint: object, cmd: object, folder: str = "") -> Image:
        """With another ENTRYPOINT, CMD and WORKDIR, as a function's ImageConfig has them: lists of words. None, or an
        empty text, leaves the image's."""
        return dataclasses.replace(
            self,
            entrypoint=self.entrypoint if entrypoint is None else _words(entrypoint),
            cmd=self.cmd if cmd is None else _words(cmd),
            folder=folder or self.folder,
        )

    def checked(self) -> Image:
        """Itself. Raises BadInput if it cannot be started."""
        if not self.outside(self.folder).is_dir():
            folder = visible(self.folder)
            raise BadInput(f"{self.spec} has no folder {folder}, its WORKDIR. Try RUN mkdir {folder} in the Dockerfile")
        assert self.program
        return self


@functools.cache
def _file(root: Path, path: str) -> str:
    """Where this file is on this machine; empty if the image has none."""
    with suppress(OSError, ValueError):  # the function's process has told it: it may be no path
        found = within(root, path)
        return str(found) if found.is_file() else ""
    return ""


def load(spec: str, path: Path, name: str, progress: Callable[[int, int], None]) -> Image:
    """The image in this archive, unpacked in the cache: the second time it is there. `name`: one of several in it;
    empty takes the only one. Raises BadInput."""
    with opened(path, name) as archive:
        root = _unpacked(archive, progress)
        config = archive.config
    return Image(
        spec=spec,
        root=root,
        entrypoint=_words(config.get("Entrypoint")),
        cmd=_words(config.get("Cmd")),
        folder=str(config.get("WorkingDir") or "/"),
        variables=dict(each.split("=", 1) for each in _words(config.get("Env")) if "=" in each),
    )


def _words(value: object) -> tuple[str, ...]:
    return tuple(str(each) for each in value) if isinstance(value, list) else (value,) if isinstance(value, str) else ()


def _unpacked(archive: Archive, progress: Callable[[int, int], None]) -> Path:
    images = cache() / "images"
    digests = "\n".join(layer.digest for layer in archive.layers)
    folder = images / hashlib.sha256(digests.encode()).hexdigest()[:32]
    making = images / f"{folder.name}-{os.getpid()}"
    try:
        images.mkdir(parents=True, exist_ok=True)
        if not _use(folder):
            making.mkdir()
            _use(making)
            (making / "root").mkdir()
            unpack(archive.layers, making / "root", progress)
            if not folder.exists():  # another run may have been faster
                making.rename(folder)
            _use(folder)
            _forget(images)
    except OSError as error:
        raise BadInput(f"cannot write {making}: {error.strerror or error}. Try TRUEMEM_CACHE=FOLDER") from None
    finally:
        shutil.rmtree(making, ignore_errors=True)
        if making in _USED:
            os.close(_USED.pop(making))
    return folder / "root"


def _use(folder: Path) -> bool:
    """Keep other runs from removing it, as long as this process lives. False if it is not there."""
    import fcntl  # not on Windows, from where functions in AWS are looked after

    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    before = _USED.pop(folder, None)
    _USED[folder] = descriptor
    if before is not None:
        os.close(before)
    if not folder.exists():  # it was being removed
        return False
    os.utime(folder)
    return True


def _forget(images: Path) -> None:
    """Remove images that were not used for longest: each build of an image makes another one."""
    import fcntl

    with suppress(OSError):  # another run removes some as well
        for folder in sorted(images.iterdir(), key=lambda each: -each.stat().st_mtime)[KEPT:]:
            descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
            try:
                with suppress(BlockingIOError):  # a run uses it
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)
