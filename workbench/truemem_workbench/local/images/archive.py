"""Reads a container image from a file or folder: what `docker save` writes, and an OCI layout. Nothing of it is run."""

from __future__ import annotations

import gzip
import hashlib
import io
import platform
import re
import shutil
import subprocess
import tarfile
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from ...support.bad_input import BadInput
from ...support.cache import cache
from ...support.untrusted_text import loads, visible

OURS = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
"""The architecture of this machine, as images name it."""
LAMBDAS = {"amd64": "x86_64"}
"""Lambda's names of architectures, where they are others."""
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
MOST_JSON_BYTES = 8 << 20
COPIED_BYTES = 1 << 20
MOST_NESTED = 4
"""Depth of indexes in indexes."""
DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
NAMED_BY_DIGEST = re.compile(r"([0-9a-f]{64})(?:\.json)?$")
"""A blob of an OCI layout, and the configuration of an older `docker save`."""
NAMES = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
"""Annotations with an image's name (containerd's) or its tag."""
AGAIN = "Try docker save or buildah push once more"
DAMAGED = (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile)


@dataclass(frozen=True)
class Layer:
    """One layer of a file system, the lowest first."""

    digest: str
    """Digest of the tar archive, not compressed: `sha256:...` (diff_id)."""
    size: int
    """Bytes as it is stored."""
    stored: Callable[[], IO[bytes]]


@dataclass(frozen=True)
class Archive:
    """One image of an archive, for this machine."""

    config: Mapping[str, Any]
    """Its configuration's `config`: Entrypoint, Cmd, Env, WorkingDir."""
    layers: Sequence[Layer]


class _Folder:
    def __init__(self, path: Path) -> None:
        self._path = path

    def open(self, name: str) -> IO[bytes]:
        """Raises OSError."""
        return (self._path / name).open("rb")


class _Tar:
    def __init__(self, file: IO[bytes]) -> None:
        self._tar = tarfile.open(fileobj=file, mode="r:")  # noqa: SIM115  # closed with its file
        self._members = {each.name.removeprefix("./"): each for each in self._tar}

    def open(self, name: str) -> IO[bytes]:
        """Raises OSError."""
        with suppress(KeyError):  # docker save before 25 has links to a layer that is there already
            if file := self._tar.extractfile(self._members[name]):
                return file
        raise FileNotFoundError(name)


@contextmanager
def opened(path: Path, name: str = "") -> Iterator[Archive]:
    """The image for this machine in this archive, or folder with an OCI layout; of several, the one with this name.
    Raises BadInput."""
    if path.is_dir():
        if not (path / "index.json").is_file():
            raise BadInput(f"{path} is no OCI layout: it has no index.json. Try buildah push IMAGE oci:{path}")
        yield _Reading(_Folder(path), path, name).image()
        return
    try:
        with path.open("rb") as file, _plain(file) as plain:
            yield _Reading(_Tar(plain), path, name).image()
    except tarfile.TarError as error:
        raise BadInput(f"{path} is no archive of an image ({error}). Try docker save -o {path} NAME") from None
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror or error}. Try docker save -o {path} NAME") from None


class _Reading:
    def __init__(self, files: _Folder | _Tar, path: Path, name: str) -> None:
        self._files, self._path, self._name = files, path, name

    def image(self) -> Archive:
        for read in (self._of_oci, self._of_docker):
            with suppress(FileNotFoundError):
                return read()
        raise BadInput(
            f"{self._path} is no archive of an image: it has neither index.json nor manifest.json (docker export"
            f" leaves them out). Try docker save -o {self._path} NAME"
        )

    def _of_oci(self) -> Archive:
        with self._files.open("index.json") as file:
            index = _mapping(self._parsed(file, "index.json"))
        found = {each["digest"]: (each, names) for each, names in self._manifests(index, (), MOST_NESTED)}
        read, others = {}, set()
        for digest, (_, names) in found.items():
            manifest = self._document(_blob(digest))
            config = self._document(_blob(_text(_mapping(manifest.get("config")).get("digest"))))
            if self._name and self._name not in names:
                continue
            if _platform(config) == ("linux", OURS):
                read[digest] = manifest, config, names
            else:
                others.add(_platform(config))
        manifest, config = self._only(read, others, [name for _, names in found.values() for name in names])
        blobs = [_mapping(each) for each in _list(manifest.get("layers"))]
        return self._archive(config, [_blob(_text(each.get("digest"))) for each in blobs])

    def _manifests(
        self, index: Mapping[str, Any], names: tuple[str, ...], nested: int
    ) -> Iterator[tuple[Mapping[str, Any], tuple[str, ...]]]:
        for each in map(_mapping, _list(index.get("manifests"))):
            notes, digest = _mapping(each.get("annotations")), _text(each.get("digest"))
            own = (*names, *(notes[name] for name in NAMES if isinstance(notes.get(name), str)))
            if "vnd.docker.reference.type" in notes:  # an attestation of an image, of no platform
                continue
            if "index" in _text(each.get("mediaType")) or "manifest.list" in _text(each.get("mediaType")):
                if nested:
                    yield from self._manifests(self._document(_blob(digest)), own, nested - 1)
            else:
                yield {**each, "digest": digest}, own

    def _of_docker(self) -> Archive:
        with self._files.open("manifest.json") as file:
            entries = [_mapping(each) for each in _list(self._parsed(file, "manifest.json"))]
        read, others, known = {}, set(), []
        for number, entry in enumerate(entries):
            names = [name for name in _list(entry.get("RepoTags")) if isinstance(name, str)]
            known += names
            config = self._document(_text(entry.get("Config")))
            if self._name and self._name not in names:
                continue
            if _platform(config) == ("linux", OURS):
                read[str(number)] = entry, config, names
            else:
                others.add(_platform(config))
        entry, config = self._only(read, others, known)
        return self._archive(config, [_text(each) for each in _list(entry.get("Layers"))])

    def _only(
        self,
        read: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any], Sequence[str]]],
        others: set[tuple[str, str]],
        known: Sequence[str],
    ) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        shown = ", ".join(map(visible, dict.fromkeys(known))) or "without names"
        typed = f"oci:{self._path}" if self._path.is_dir() else str(self._path)
        if len(read) == 1:
            manifest, config, _ = next(iter(read.values()))
            return manifest, config
        if len(read) > 1:
            raise BadInput(f"{self._path} has {len(read)} images ({shown}). Try {typed}:NAME")
        if others and all(system != "linux" for system, _ in others):
            system = visible(next(iter(others))[0])
            raise BadInput(f"{self._path} is an image for {system}: Lambda runs Linux. Try docker build on Linux")
        if others:
            names = " and ".join(sorted(visible(LAMBDAS.get(each, each)) for _, each in others))
            raise BadInput(
                f"{self._path} is for {names}, and this machine is {LAMBDAS.get(OURS, OURS)}: nothing is emulated. Try"
                f" docker build --platform linux/{OURS}, or truemem on such a machine"
            )
        fix = f"Try {typed}:{visible(known[0])}" if known else AGAIN
        raise BadInput(f"no image {visible(self._name) or 'at all'} in {self._path} (found: {shown}). {fix}")

    def _archive(self, config: Mapping[str, Any], places: Sequence[str]) -> Archive:
        digests = _list(_mapping(config.get("rootfs")).get("diff_ids"))
        if len(digests) != len(places) or not all(DIGEST.fullmatch(_text(each)) for each in digests):
            raise BadInput(f"{self._path}: {len(places)} layers, {len(digests)} digests. {AGAIN}")
        layers = []
        for digest, place in zip(digests, places, strict=True):
            with self._stored(place) as file:
                size = file.seek(0, io.SEEK_END)
            layers.append(Layer(digest, size, lambda place=place: self._stored(place)))  # type: ignore[misc]
        return Archive(_mapping(config.get("config")), layers)

    def _stored(self, place: str) -> IO[bytes]:
        try:
            return self._files.open(place)
        except FileNotFoundError:
            raise BadInput(f"{self._path} lacks {visible(place)}: it was not written whole. {AGAIN}") from None

    def _document(self, place: str) -> Mapping[str, Any]:
        """A JSON document whose name is its digest. Raises BadInput if it is another one."""
        with self._stored(place) as file:
            text = file.read(MOST_JSON_BYTES)
        named = NAMED_BY_DIGEST.search(place)
        if named is not None and hashlib.sha256(text).hexdigest() != named[1]:
            raise BadInput(f"{self._path}: {place} is damaged, its digest is another. {AGAIN}")
        return _mapping(self._parsed(io.BytesIO(text), place))

    def _parsed(self, file: IO[bytes], name: str) -> Any:
        try:
            return loads(file.read(MOST_JSON_BYTES).decode())
        except ValueError:
            raise BadInput(f"{self._path}: {visible(name)} is no JSON. {AGAIN}") from None


def _blob(digest: str) -> str:
    """Where an OCI layout has it. Raises BadInput for what is no digest: it could name any file."""
    found = DIGEST.fullmatch(digest)
    if found is None:
        raise BadInput(f"{visible(digest) or 'nothing'} is no sha256 digest of a blob: other ones are not read")
    return f"blobs/sha256/{found[1]}"


def _platform(config: Mapping[str, Any]) -> tuple[str, str]:
    return _text(config.get("os")) or "linux", _text(config.get("architecture"))


@contextmanager
def _plain(file: IO[bytes]) -> Iterator[IO[bytes]]:
    """The file as it is; or a copy of it that is not compressed, to seek in."""
    begin = file.read(len(ZSTD))
    file.seek(0)
    if not begin.startswith((GZIP, ZSTD)):
        yield file
        return
    cache().mkdir(parents=True, exist_ok=True)  # where there is room for images
    with tempfile.TemporaryFile(dir=cache()) as copy, decompressed(file) as plain:
        shutil.copyfileobj(plain, copy, COPIED_BYTES)
        copy.seek(0)
        yield cast(IO[bytes], copy)


@contextmanager
def decompressed(file: IO[bytes]) -> Iterator[IO[bytes]]:
    """The bytes that are stored in this file: plain, gzip or zstd, as it begins. Raises BadInput without a zstd."""
    begin = file.read(len(ZSTD))
    file.seek(0)
    if begin.startswith(GZIP):
        yield cast(IO[bytes], gzip.GzipFile(fileobj=file))
    elif begin == ZSTD:
        program = shutil.which("zstd")
        if program is None:
            raise BadInput("a layer is compressed with zstd, and there is no zstd here. Try apt install zstd")
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        with subprocess.Popen([program, "-dcq"], stdin=pipe, stdout=pipe, stderr=nowhere) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            feeding = threading.Thread(target=_feed, args=(file, process.stdin), daemon=True)
            feeding.start()
            try:
                yield process.stdout
            finally:
                process.kill()
                feeding.join()
    else:
        yield file


def _feed(file: IO[bytes], into: IO[bytes]) -> None:
    with suppress(OSError, ValueError), into:  # it was read as far as it is needed
        shutil.copyfileobj(file, into, COPIED_BYTES)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
