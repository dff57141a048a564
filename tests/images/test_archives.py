"""Archives of images: what `docker save`, buildah and skopeo write, and what is refused."""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.local.images import image as images
from truemem_workbench.local.images.image import Image, load
from truemem_workbench.local.images.unpack import Leaves, within
from truemem_workbench.support.bad_input import BadInput

from testing.images import OURS, Made, digest, docker_archive, layer, oci_archive, oci_blobs, oci_folder, packed

OTHER = {"amd64": "arm64", "arm64": "amd64"}[OURS]
PROGRAM = {"main": b"#!/bin/sh\n"}
PLAIN = Made([layer(PROGRAM)], {"Entrypoint": ["/main"]})

Write = Callable[[Path, dict[str, Made]], Path]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUEMEM_CACHE", str(tmp_path / "cache"))


def loaded(path: Path, name: str = "") -> Image:
    return load("image.tar", path, name, lambda done, of: None)


def root_of(tmp_path: Path, *layers: bytes) -> Path:
    """The root of an image with these layers."""
    made = Made([*layers], {"Entrypoint": ["/main"]})
    return loaded(docker_archive(tmp_path / "image.tar", {"app:1": made})).root


def refusal(path: Path, name: str = "") -> str:
    with pytest.raises(BadInput) as refused:
        loaded(path, name).checked()
    return str(refused.value)


def names(root: Path) -> set[str]:
    return {str(each.relative_to(root)) for each in root.rglob("*")}


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", data: bytes = b"") -> bytes:
    """A layer with one entry."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        made = tarfile.TarInfo(name)
        made.type, made.linkname, made.size, made.mode = kind, link, len(data), 0o644
        tar.addfile(made, io.BytesIO(data))
    return out.getvalue()


# --- formats ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "write",
    [
        docker_archive,
        oci_folder,
        oci_archive,
        lambda path, made: oci_archive(path, made, ""),
        lambda path, made: oci_archive(path, made, "zstd"),
    ],
    ids=["docker save", "oci folder, gzip", "oci archive, gzip", "plain", "zstd"],
)
def test_each_form_of_an_archive_is_unpacked(tmp_path: Path, write: Write) -> None:
    config = {"Entrypoint": ["/main"], "Cmd": ["app.handler"], "WorkingDir": "/task", "Env": ["A=1", "B=x=y"]}
    made = Made([layer(PROGRAM), layer({"task": None, "task/app.py": b"code"})], config)
    image = loaded(write(tmp_path / "image", {"app:1": made})).checked()
    assert image.command == ("/main", "app.handler")
    assert (image.folder, image.variables) == ("/task", {"A": "1", "B": "x=y"})
    assert (image.root / "task" / "app.py").read_text() == "code"


def test_a_compressed_archive_is_read(tmp_path: Path) -> None:
    plain = docker_archive(tmp_path / "image.tar", {"app:1": PLAIN})
    packed_ = tmp_path / "image.tar.gz"
    packed_.write_bytes(gzip.compress(plain.read_bytes()))
    assert loaded(packed_).checked().command == ("/main",)


def test_docker_25_writes_both_and_the_oci_one_is_read(tmp_path: Path) -> None:
    blobs = oci_blobs({"app:1": PLAIN}, "")
    place = f"blobs/sha256/{digest(PLAIN.layers[0])}"
    entries = [{"Config": f"blobs/sha256/{digest(PLAIN.configuration)}", "RepoTags": ["app:1"], "Layers": [place]}]
    path = tmp_path / "image.tar"
    path.write_bytes(layer({**blobs, "manifest.json": json.dumps(entries).encode()}))
    assert loaded(path).checked().command == ("/main",)


def test_a_layer_that_is_a_link_to_another_is_read(tmp_path: Path) -> None:
    """As `docker save` before 25 writes a layer that two images have."""
    path = docker_archive(tmp_path / "image.tar", {"app:1": PLAIN})
    place = f"{digest(PLAIN.layers[0])}/layer.tar"
    with tarfile.open(path) as tar:
        files = {each.name: tar.extractfile(each).read() for each in tar.getmembers()}  # type: ignore[union-attr]
    linked: dict[str, Any] = {**files, "first/layer.tar": files[place], place: "../first/layer.tar"}
    path.write_bytes(layer(linked))
    assert (loaded(path).root / "main").is_file()


def test_of_several_architectures_ours_is_taken(tmp_path: Path) -> None:
    other = dataclasses.replace(PLAIN, config={"Entrypoint": ["/other"]}, architecture=OTHER)
    blobs = oci_blobs({"app:1": other, "app": PLAIN}, "")
    index = blobs.pop("index.json")
    outer = {"mediaType": "application/vnd.oci.image.index.v1+json", "digest": f"sha256:{digest(index)}"}
    attested = {"mediaType": "m", "digest": "sha256:0", "annotations": {"vnd.docker.reference.type": "attestation"}}
    blobs |= {
        f"blobs/sha256/{digest(index)}": index,
        "index.json": json.dumps({"manifests": [outer, attested]}).encode(),
    }
    path = tmp_path / "image.tar"
    path.write_bytes(layer(blobs))
    assert loaded(path).command == ("/main",)


def test_of_several_images_a_name_takes_one(tmp_path: Path) -> None:
    second = Made([layer({"main": b"2"})], {"Entrypoint": ["/main", "2"]})
    path = docker_archive(tmp_path / "image.tar", {"app:1": PLAIN, "app:2": second})
    assert refusal(path) == f"{path} has 2 images (app:1, app:2). Try {path}:NAME"
    assert loaded(path, "app:2").command == ("/main", "2")
    assert refusal(path, "app:3") == f"no image app:3 in {path} (found: app:1, app:2). Try {path}:app:1"


# --- layers -----------------------------------------------------------------------------------------------------------


def test_whiteouts_take_away_what_lower_layers_have(tmp_path: Path) -> None:
    first = layer({"main": b"1", "a": None, "a/one": b"1", "a/two": b"2", "b": None, "b/old": None, "b/old/file": b"1"})
    second = layer({"a/.wh.one": b"", "b/new": b"2", "b/.wh..wh..opq": b"", "b/old": None, ".wh.nothing": b""})
    assert names(root_of(tmp_path, first, second)) == {"main", "a", "a/two", "b", "b/new", "b/old"}


def test_a_later_layer_replaces_files_and_folders(tmp_path: Path) -> None:
    first = layer({"main": b"1", "file": b"1", "folder": None, "folder/in": b"1", "link": "file"})
    second = layer({"file": None, "file/in": b"2", "folder": b"2", "link": b"2"})
    root = root_of(tmp_path, first, second)
    assert names(root) == {"main", "file", "file/in", "folder", "link"}
    assert not (root / "link").is_symlink()


def test_modes_times_and_hard_links_are_kept(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "main").write_bytes(b"1")
    os.link(source / "main", source / "same")
    os.utime(source / "main", (1_000_000, 1_000_000))
    (source / "main").chmod(0o4755)
    root = root_of(tmp_path, packed(source))
    status = (root / "main").stat()
    assert (status.st_mode & 0o7777, status.st_mtime) == (0o755, 1_000_000)  # no setuid
    assert (root / "same").stat().st_ino == status.st_ino


@pytest.mark.parametrize("target", ["/", "../../../..", "/elsewhere"], ids=["/", "up", "nothing there"])
def test_no_link_leads_out_of_the_root(tmp_path: Path, target: str) -> None:
    inside = f"out{tmp_path}/written"
    root = root_of(tmp_path, layer({"main": b"1", "out": target}), layer({inside: b"2"}))
    assert not (tmp_path / "written").exists()
    assert within(root, inside).read_bytes() == b"2"


@pytest.mark.parametrize(
    "bad",
    [
        entry("../written", data=b"2"),
        entry("a/../../written", data=b"2"),
        entry("copy", tarfile.LNKTYPE, "../../../../../../../../../etc/passwd"),
        entry("copy", tarfile.LNKTYPE, "/etc/passwd"),
    ],
    ids=["..", "a/../..", "hard link up", "hard link"],
)
def test_a_path_that_leaves_the_root_is_refused(tmp_path: Path, bad: bytes) -> None:
    path = docker_archive(tmp_path / "image.tar", {"app:1": Made([layer(PROGRAM), bad], {"Entrypoint": ["/main"]})})
    assert refusal(path).startswith("layer 2 of 2 (sha256:")
    assert not [*(tmp_path / "cache" / "images").iterdir()]


def test_a_link_that_takes_a_folders_place_changes_no_modes(tmp_path: Path) -> None:
    """A folder gets its mode last, and by then its path leads elsewhere."""
    outside = tmp_path / "outside"
    (outside / "in").mkdir(parents=True)
    (outside / "in").chmod(0o700)
    root_of(tmp_path, layer({"main": b"1", "a": None, "a/in": None, "./a": str(outside)}, {"a/in": 0o777}))
    assert (outside / "in").stat().st_mode & 0o777 == 0o700


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(Leaves, match="too many links"):
        within(tmp_path, "/a/x")


# --- the cache --------------------------------------------------------------------------------------------------------


def test_the_second_time_nothing_is_unpacked(tmp_path: Path) -> None:
    path, told = docker_archive(tmp_path / "image.tar", {"app:1": PLAIN}), list[int]()
    first = load("x", path, "", lambda done, of: told.append(done))
    assert max(told) == len(PLAIN.layers[0])
    told.clear()
    assert load("x", path, "", lambda done, of: told.append(done)).root == first.root
    assert told == []


def test_images_that_were_not_used_for_long_go(tmp_path: Path) -> None:
    roots = []
    for number in range(images.KEPT + 3):
        made = Made([layer({"main": b"%d" % number})], {"Entrypoint": ["/main"]})
        roots.append(loaded(docker_archive(tmp_path / "image.tar", {"app:1": made})).root.parent)
        os.utime(roots[-1], (number, number))
        if number:  # the first one is in use all the time
            os.close(images._USED.pop(roots[-1]))
    assert {each for each in roots if each.exists()} == {roots[0], *roots[-images.KEPT :]}


# --- what is refused --------------------------------------------------------------------------------------------------


def test_a_damaged_layer_is_named(tmp_path: Path) -> None:
    path = oci_archive(tmp_path / "image.tar", {"app:1": PLAIN}, "gzip")
    blobs = oci_blobs({"app:1": PLAIN}, "gzip")
    name = next(name for name, data in blobs.items() if data.startswith(b"\x1f\x8b"))
    for data in (blobs[name][:-40], layer({"main": b"other"})):
        path.write_bytes(layer({**blobs, name: data}))
        assert refusal(path).startswith(f"layer 1 of 1 (sha256:{digest(PLAIN.layers[0])[:12]}) is damaged (")


def test_a_damaged_manifest_and_a_missing_layer_are_told(tmp_path: Path) -> None:
    blobs = oci_blobs({"app:1": PLAIN}, "")
    manifest = next(name for name, data in blobs.items() if b"schemaVersion" in data and name != "index.json")
    path = tmp_path / "image.tar"
    path.write_bytes(layer({**blobs, manifest: blobs[manifest] + b" "}))
    assert "is damaged, its digest is another" in refusal(path)
    docker_archive(path, {"app:1": PLAIN})
    path.write_bytes(path.read_bytes().replace(b'"/main"', b'"/mail"'))
    assert "is damaged, its digest is another" in refusal(path)
    del blobs[f"blobs/sha256/{digest(PLAIN.layers[0])}"]
    path.write_bytes(layer(blobs))
    assert "it was not written whole" in refusal(path)


def test_another_architecture_is_refused_with_both_names(tmp_path: Path) -> None:
    path = docker_archive(tmp_path / "image.tar", {"app:1": dataclasses.replace(PLAIN, architecture=OTHER)})
    said = refusal(path)
    assert {"x86_64", "arm64"} <= set(said.replace(",", " ").replace(":", " ").split())
    assert f"docker build --platform linux/{OURS}" in said


def test_a_program_of_another_architecture_is_refused(tmp_path: Path) -> None:
    machine = {"amd64": 183, "arm64": 62}[OURS]
    program = b"\x7fELF\x02\x01\x01".ljust(18, b"\0") + machine.to_bytes(2, "little")
    path = docker_archive(tmp_path / "image.tar", {"app:1": Made([layer({"main": program})], PLAIN.config)})
    assert "is a program for" in refusal(path)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (dataclasses.replace(PLAIN, system="windows"), "is an image for windows: Lambda runs Linux"),
        (Made([layer(PROGRAM)]), "has neither ENTRYPOINT nor CMD"),
        (Made([layer(PROGRAM)], {"Cmd": ["app.handler"]}), "app.handler, the first word of ENTRYPOINT and CMD, is no"),
        (Made([layer(PROGRAM, {"main": 0o644})], PLAIN.config), "is not executable. Try RUN chmod +x /main"),
        (Made([layer(PROGRAM)], {**PLAIN.config, "WorkingDir": "/task"}), "has no folder /task, its WORKDIR"),
    ],
    ids=["windows", "nothing to start", "no such program", "not executable", "no workdir"],
)
def test_what_cannot_be_started_is_refused(tmp_path: Path, made: Made, said: str) -> None:
    assert said in refusal(docker_archive(tmp_path / "image.tar", {"app:1": made}))


def test_what_is_no_archive_of_an_image_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "image.tar"
    path.write_text("text")
    assert "is no archive of an image" in refusal(path)
    path.write_bytes(layer({"a": b"1"}))
    assert "it has neither index.json nor manifest.json" in refusal(path)
    assert "is no OCI layout: it has no index.json" in refusal(tmp_path)


@pytest.mark.parametrize(
    "hostile",
    [b"[]", b"{", b'{"manifests": 3}', b'{"manifests": [{"digest": "sha256:../../x"}]}', b'{"manifests": [[]]}'],
)
def test_hostile_indexes_are_refused(tmp_path: Path, hostile: bytes) -> None:
    (tmp_path / "index.json").write_bytes(hostile)
    assert "Try" in refusal(tmp_path) or "sha256" in refusal(tmp_path)
