"""Container images made by hand: root folders, layers and archives, as Docker and buildah write them."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

OURS = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
LEFT_OUT = re.compile(
    r"test|tests|idlelib|ensurepip|(site|dist)-packages|tkinter|lib2to3|turtledemo|distutils|pydoc_data|config-.*"
)
"""Parts of Python's library that no function needs."""
PYTHON = "/usr/local/bin/python3"
ENTRYPOINT = (PYTHON, "-m", "awslambdaric")


@dataclass(frozen=True)
class Made:
    """An image: its layers as tar archives, the lowest first, and its configuration."""

    layers: Sequence[bytes]
    config: Mapping[str, Any] = field(default_factory=dict)
    architecture: str = OURS
    system: str = "linux"

    @property
    def configuration(self) -> bytes:
        return json.dumps(
            {
                "architecture": self.architecture,
                "os": self.system,
                "config": self.config,
                "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest(each)}" for each in self.layers]},
            }
        ).encode()


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def layer(files: Mapping[str, bytes | str | None], modes: Mapping[str, int] | None = None) -> bytes:
    """A layer with these files; None is a folder, and a text a symbolic link."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.mode = (modes or {}).get(name, 0o755)
            if content is None:
                entry.type = tarfile.DIRTYPE
            elif isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
            else:
                entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content) if isinstance(content, bytes) else None)
    return out.getvalue()


def packed(folder: Path) -> bytes:
    """A layer with what is in this folder."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for each in sorted(folder.iterdir()):
            tar.add(each, each.name)
    return out.getvalue()


def docker_archive(path: Path, images: Mapping[str, Made]) -> Path:
    """As `docker save` wrote it before Docker 25: manifest.json, and a folder for each layer."""
    files: dict[str, bytes] = {}
    entries = []
    for name, made in images.items():
        config = f"{digest(made.configuration)}.json"
        places = [f"{digest(each)}/layer.tar" for each in made.layers]
        files |= {config: made.configuration, **dict(zip(places, made.layers, strict=True))}
        entries.append({"Config": config, "RepoTags": [name], "Layers": places})
    path.write_bytes(layer({**files, "manifest.json": json.dumps(entries).encode()}))
    return path


def oci_blobs(images: Mapping[str, Made], compress: str = "gzip") -> dict[str, bytes]:
    """The files of an OCI layout. `compress`: gzip, zstd or empty."""
    blobs: dict[str, bytes] = {}

    def blob(data: bytes, kind: str) -> dict[str, Any]:
        blobs[f"blobs/sha256/{digest(data)}"] = data
        media = f"application/vnd.oci.image.{kind}"
        return {"mediaType": media, "digest": f"sha256:{digest(data)}", "size": len(data)}

    manifests = []
    for name, made in images.items():
        manifest = {
            "schemaVersion": 2,
            "config": blob(made.configuration, "config.v1+json"),
            "layers": [blob(compressed(each, compress), f"layer.v1.tar+{compress}") for each in made.layers],
        }
        platform_ = {"architecture": made.architecture, "os": made.system}
        described = blob(json.dumps(manifest).encode(), "manifest.v1+json")
        notes = {"org.opencontainers.image.ref.name": name}
        manifests.append({**described, "platform": platform_, "annotations": notes})
    blobs["index.json"] = json.dumps({"schemaVersion": 2, "manifests": manifests}).encode()
    blobs["oci-layout"] = b'{"imageLayoutVersion": "1.0.0"}'
    return blobs


def compressed(data: bytes, how: str) -> bytes:
    if how == "zstd":
        return subprocess.run(["zstd", "-qc"], input=data, stdout=subprocess.PIPE, check=True).stdout
    return gzip.compress(data, 1) if how == "gzip" else data


def oci_folder(path: Path, images: Mapping[str, Made], compress: str = "gzip") -> Path:
    """As `buildah push IMAGE oci:FOLDER` writes it."""
    for name, data in oci_blobs(images, compress).items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    return path


def oci_archive(path: Path, images: Mapping[str, Made], compress: str = "gzip") -> Path:
    """As `buildah push IMAGE oci-archive:FILE` writes it."""
    path.write_bytes(layer(oci_blobs(images, compress)))
    return path


def python_root(root: Path) -> Path:
    """This machine's Python with AWS's runtime client and the libraries that they need, as `FROM python` and
    `RUN pip install awslambdaric` leave them below /usr/local."""
    library = Path(sysconfig.get_path("stdlib"))
    target = root / "usr" / "local" / "lib" / library.name
    shutil.copytree(library, target, ignore=_left_out, symlinks=True)
    packages = target / "site-packages"
    packages.mkdir()
    (target / "dist-packages").symlink_to("site-packages")  # Debian's Python looks there
    python = Path(os.path.realpath(sys.executable))
    (root / "usr/local/bin").mkdir(parents=True)
    shutil.copy(python, root / PYTHON.lstrip("/"))
    for name in ("awslambdaric", "runtime_client", "simplejson", "snapshot_restore_py"):
        spec = find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        origin = Path(spec.origin)
        if spec.submodule_search_locations:
            shutil.copytree(origin.parent, packages / name, ignore=_left_out)
        else:
            shutil.copy(origin, packages)
    programs = [root / PYTHON.lstrip("/"), *target.rglob("*.so"), *root.rglob("*.so.*")]
    for path in libraries(programs):
        place = root / str(path).lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists():
            shutil.copy(path, place)
    return root


def _left_out(_: object, names: list[str]) -> list[str]:
    return [name for name in names if LEFT_OUT.fullmatch(name)]


def libraries(programs: Sequence[Path]) -> Iterator[Path]:
    """The shared libraries that these need, with the loader."""
    found = set()
    for program in programs:
        said = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
        found |= {*re.findall(r"(?:=> |^\s+)(/\S+)", said, re.MULTILINE)}
    yield from sorted(map(Path, found))


def python_image(base: bytes, source: str | bytes, folder: str = "/function", **config: Any) -> Made:
    """An image of a handler in app.py, upon a layer with Python."""
    code = source.encode() if isinstance(source, str) else source
    function = layer({folder.lstrip("/"): None, f"{folder.lstrip('/')}/app.py": code})
    variables = ["PATH=/usr/local/bin:/usr/bin:/bin", "PYTHONHOME=/usr/local"]
    given = {"Entrypoint": list(ENTRYPOINT), "Cmd": ["app.handler"], "WorkingDir": folder, "Env": variables, **config}
    return Made([base, function], given)
