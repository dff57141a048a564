"""Gets CPython's source, the release tarball, and checks that it is the pinned one."""

from __future__ import annotations

import hashlib
import re
import shutil
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import requests

from .errors import BuildError
from .pins import DEBIAN_POOL, PYTHON, RELEASE, SOURCE_SHA256

APT = Path("/etc/apt")
TIMEOUT_S = 30
CHUNK_BYTES = 1 << 20


def fetch(cache: Path, say: Callable[[str], None], given: Path | None = None) -> Path:
    """The tarball in `cache`, downloaded if it is not there; or `given`, checked. Raises BuildError."""
    if given is not None:
        if not given.is_file():
            raise BuildError(f"--source {given}: no such file")
        check(given)
        return given
    target = cache / f"Python-{PYTHON}.tar.xz"
    if target.exists():
        check(target)
        return target
    failures = []
    for url in (RELEASE, *(f"{mirror}/{DEBIAN_POOL}" for mirror in debian_mirrors(APT))):
        say(f"downloading {url}")
        try:
            download(url, target)
            return target
        except (requests.RequestException, OSError, BuildError) as error:
            failures.append(f"{url}: {error}")
    raise BuildError(
        f"CPython {PYTHON}'s source could not be downloaded: {'; '.join(failures)}. Download it elsewhere, and "
        "try --source FILE"
    )


def download(url: str, target: Path) -> None:
    """Download to `target`. Raises requests' errors, and BuildError if it is not the pinned file."""
    partial = target.with_suffix(".partial")
    with requests.get(url, stream=True, timeout=TIMEOUT_S) as answer, partial.open("wb") as file:
        answer.raise_for_status()
        for chunk in answer.iter_content(CHUNK_BYTES):
            file.write(chunk)
    try:
        check(partial)
    except BuildError:
        partial.unlink()
        raise
    partial.replace(target)


def check(tarball: Path) -> None:
    """Raise BuildError if it is not the pinned file."""
    with tarball.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != SOURCE_SHA256:
        raise BuildError(f"{tarball}: sha256 is {found}, pinned is {SOURCE_SHA256}: delete it, and build again")


def debian_mirrors(apt: Path) -> Iterator[str]:
    """The archives that this machine's own apt uses (sources.list(5), both formats), each once."""
    seen: set[str] = set()
    for path in (apt / "sources.list", *sorted(apt.glob("sources.list.d/*"))):
        try:
            text = path.read_text()
        except OSError:
            continue
        for uri in re.findall(r"^(?:deb(?:-src)?\s+(?:\[[^]]*\]\s+)?|URIs:\s*)(https?://\S+)", text, re.MULTILINE):
            if "security" not in uri and uri not in seen:
                seen.add(uri)
                yield uri.rstrip("/")


def unpack(tarball: Path, folder: Path) -> None:
    """Unpack into `folder`, without the tarball's own top folder, tests and documentation."""
    left_out = ("/Lib/test/", "/Doc/", "/Lib/idlelib/")
    with tarfile.open(tarball) as archive:
        members = [member for member in archive if not any(part in member.name for part in left_out)]
        archive.extraction_filter = lambda member, _: member  # pinned: to be trusted. (Python before 3.11.4 does.)
        archive.extractall(folder.parent, members)
    shutil.move(folder.parent / f"Python-{PYTHON}", folder)
