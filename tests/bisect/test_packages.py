"""Versions of a package, from an index that is a folder here, by the ordinary pip."""

from __future__ import annotations

import io
import json
import tarfile
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from truemem_workbench.bisect.packages import Packages
from truemem_workbench.bisect.search import Unready
from truemem_workbench.support.bad_input import BadInput
from truemem_workbench.target.resolve import resolve
from truemem_workbench.target.target import Target

from tests.bisect.conftest import wheel


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    """A handler, and an index with six versions of `thing`, of which 1.2 has no wheel and 2.0 needs more."""
    simple = tmp_path / "index" / "thing"
    simple.mkdir(parents=True)
    files = [wheel(simple, "thing", each).name for each in ("1.0", "1.1", "1.10", "2.0rc1")]
    files.append(wheel(simple, "thing", "2.0", ["other"]).name)
    with tarfile.open(simple / "thing-1.2.tar.gz", "w:gz"):
        files.append("thing-1.2.tar.gz")
    for name, listed in (("thing", files), ("other", [wheel(_made(simple.parent / "other"), "other", "3.0").name])):
        links = "".join(f'<a href="{each}">{each}</a>\n' for each in listed)
        (simple.parent / name / "index.html").write_text(f"<!DOCTYPE html><html><body>{links}</body></html>")
    monkeypatch.setenv("PIP_INDEX_URL", simple.parent.as_uri())
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "app.py").write_text("def handler(event, context): ...")
    return resolve(f"{tmp_path}/src/app.py:handler")


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_a_version_comes_before_what_is_installed(target: Target, tmp_path: Path) -> None:
    history = Packages(target, "thing", "1.0", "2.0", tmp_path / "place", build=None)
    assert [each.name for each in history.order] == ["1.0", "1.1", "1.2", "1.10", "2.0"]
    for name in ("1.10", "2.0"):
        with history.ready(name) as ready:
            ((option, value),) = ready.options
            folder = Path(value.removeprefix("PYTHONPATH="))
            assert (option, ready.spec) == ("--env", target.spec)
            assert f"VERSION = '{name}'" in (folder / "thing.py").read_text()
        assert not folder.exists()
    assert history.others("1.10", "2.0") == ["other (none) to 3.0"]
    with pytest.raises(Unready, match="it has no wheel for Python 3"), history.ready("1.2"):
        pass


@pytest.mark.nightly
def test_a_copy_beside_the_handler_is_refused(target: Target, tmp_path: Path) -> None:
    """Python would find it first."""
    Path(target.function.task_root, "thing.py").touch()
    history = Packages(target, "thing", "1.0", "1.1", tmp_path / "place", build=None)
    with pytest.raises(BadInput, match=r"has its own thing.py, which comes before"), history.ready("1.0"):
        pass


@pytest.mark.parametrize(
    ("package", "good", "said"),
    [
        ("thing==1.0", "1.0", "give its name alone"),
        ("--upgrade", "1.0", "give its name alone"),
        ("nothing", "1.0", "--package nothing: .*No matching distribution"),
        ("thing", "3", "thing has no version 3. There are"),
        ("thing", "2", "are both thing 2.0"),
    ],
)
def test_what_the_index_has_not_is_refused(target: Target, tmp_path: Path, package: str, good: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        Packages(target, package, good, "2.0", tmp_path, build=None)


class _Registry(BaseHTTPRequestHandler):
    """npm's registry with three versions of `thing`, the last of which needs the first of `other`."""

    def do_GET(self) -> None:
        name, _, file = self.path.strip("/").partition("/-/")
        body = _tarball(name, file) if file else json.dumps(self._packument(name)).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def _packument(self, name: str) -> dict[str, object]:
        at = f"http://{self.headers['Host']}/{name}/-"
        versions = {
            each: {
                "name": name,
                "version": each,
                "dist": {"tarball": f"{at}/{each}.tgz"},
                "dependencies": {"other": "1.0.0"} if (name, each) == ("thing", "2.0.0") else {},
            }
            for each in ("1.0.0", "2.0.0-beta.1", "1.10.0", "2.0.0")
        }
        return {"name": name, "dist-tags": {"latest": "2.0.0"}, "versions": versions}

    def log_message(self, *_: object) -> None:
        pass


def _tarball(name: str, file: str) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        text = json.dumps({"name": name, "version": file.removesuffix(".tgz")}).encode()
        info = tarfile.TarInfo("package/package.json")
        info.size = len(text)
        tar.addfile(info, io.BytesIO(text))
    return made.getvalue()


@pytest.mark.nightly
def test_a_version_of_npm_is_beside_a_copy_of_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with HTTPServer(("127.0.0.1", 0), _Registry) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("npm_config_registry", f"http://127.0.0.1:{server.server_port}/")
        monkeypatch.setenv("npm_config_cache", str(tmp_path / "cache"))
        project = _made(tmp_path / "project")
        (_made(project / "src") / "index.js").write_text("exports.handler = async () => 1;")
        (project / "package.json").write_text('{"dependencies": {"thing": "1.0.0"}}')
        (_made(project / "node_modules") / "old").write_text("")
        target = resolve(f"{project}/src/index.js:handler")
        history = Packages(target, "thing", "1", "2", tmp_path / "place", build="echo built > src/built")
        assert [each.name for each in history.order] == ["1.10.0", "2.0.0"]
        for version in ("1.10.0", "2.0.0"):
            with history.ready(version) as ready:
                file = Path(ready.spec.removesuffix(":handler"))
                copy = file.parents[1]
                installed = json.loads((copy / "node_modules" / "thing" / "package.json").read_text())
                assert (installed["version"], (file.parent / "built").read_text()) == (version, "built\n")
                assert not (copy / "node_modules" / "old").exists()
        assert history.others("1.10.0", "2.0.0") == ["other (none) to 1.0.0"]
        server.shutdown()
    assert sorted(each.name for each in project.rglob("*")) == [
        "index.js",
        "node_modules",
        "old",
        "package.json",
        "src",
    ]
