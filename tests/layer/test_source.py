"""CPython's source is the pinned one or none."""

import functools
import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from layer import source
from layer.errors import BuildError
from layer.pins import DEBIAN_POOL

CONTENT = b"a tarball"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """A mirror that has the file."""
    folder = tmp_path / "served"
    (folder / Path(DEBIAN_POOL).parent).mkdir(parents=True)
    (folder / DEBIAN_POOL).write_bytes(CONTENT)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *arguments: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture(autouse=True)
def pinned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The pinned file is CONTENT, the release's own place does not answer, and there is no apt."""
    monkeypatch.setattr(source, "SOURCE_SHA256", hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setattr(source, "RELEASE", "http://127.0.0.1:9/Python.tar.xz")
    monkeypatch.setattr(source, "APT", tmp_path / "apt")


def apt(tmp_path: Path, mirror: str) -> None:
    (tmp_path / "apt").mkdir()
    (tmp_path / "apt" / "sources.list").write_text(f"deb {mirror} trixie main\n")


def test_without_the_release_the_machines_mirror_is_used(tmp_path: Path, served: str) -> None:
    apt(tmp_path, served)
    said: list[str] = []
    found = source.fetch(tmp_path, said.append)
    assert found.read_bytes() == CONTENT
    assert len(said) == 2
    assert source.fetch(tmp_path, said.append) == found
    assert len(said) == 2, "the second time it is there"


def test_another_file_of_that_name_is_not_taken(tmp_path: Path, served: str, monkeypatch: pytest.MonkeyPatch) -> None:
    apt(tmp_path, served)
    monkeypatch.setattr(source, "SOURCE_SHA256", "0" * 64)
    with pytest.raises(BuildError, match=f"pinned is {'0' * 64}"):
        source.fetch(tmp_path, print)
    assert [path for path in tmp_path.iterdir() if path.is_file()] == []


def test_a_file_that_has_changed_in_the_cache_is_not_taken(tmp_path: Path, served: str) -> None:
    apt(tmp_path, served)
    source.fetch(tmp_path, print).write_bytes(b"something else")
    with pytest.raises(BuildError, match="delete it"):
        source.fetch(tmp_path, print)


def test_a_source_that_is_nowhere_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"Python\.tar\.xz.*--source FILE") as raised:
        source.fetch(tmp_path, print)
    assert "\n" not in str(raised.value)


def test_a_file_that_is_given_is_checked_too(tmp_path: Path) -> None:
    given = tmp_path / "given"
    with pytest.raises(BuildError, match="no such file"):
        source.fetch(tmp_path, print, given)
    given.write_bytes(b"something else")
    with pytest.raises(BuildError, match="pinned is"):
        source.fetch(tmp_path, print, given)
    given.write_bytes(CONTENT)
    assert source.fetch(tmp_path, print, given) == given


def test_both_formats_of_apts_sources_are_read(tmp_path: Path) -> None:
    (tmp_path / "sources.list").write_text("# deb http://not.this x\ndeb [arch=amd64] http://one/debian/ stable main\n")
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list.d" / "a.sources").write_text("Types: deb\nURIs: https://two/debian\nSuites: x\n")
    (tmp_path / "sources.list.d" / "b.sources").write_text("URIs: http://three/debian-security\n")
    assert list(source.debian_mirrors(tmp_path)) == ["http://one/debian", "https://two/debian"]
