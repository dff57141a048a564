"""`make docs` and `make site`: a site of all pages and versions. A link that leads nowhere fails the build."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from testing.browser import Browser
from tests.page.conftest import started

__all__ = ["started"]

ROOT = Path(__file__).parents[2]


def build(folder: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """What `make docs` runs, in that folder."""
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(site)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of this repository."""
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT, folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_site_has_all_pages_and_no_link_is_broken(site: Path) -> None:
    for page in (ROOT / "docs").glob("*.md"):
        assert (site / "docs" / page.with_suffix(".html").name).is_file()
    home = (site / "index.html").read_text()
    loaded = re.findall(r'<(?:script|link|img)[^>]* (?:src|href)="(?!https?:)([^"?]+)', home)
    assert {Path(path).suffix for path in loaded} >= {".css", ".js", ".png"}
    assert [path for path in loaded if not (site / path).is_file()] == []
    linked_from_docs = ["index.html", "template.yaml", "benchmarks/results/accuracy.html", "sample_function/index.html"]
    assert [path for path in linked_from_docs if not (site / path).is_file()] == []


ADDRESS = "https://docs.example/a/"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Another repository of two pages, with the settings and the hooks of this one, and the address of its site."""
    (tmp_path / "docs").mkdir()
    for name in ("site_hooks.py", "site.css"):
        shutil.copy(ROOT / "docs" / name, tmp_path / "docs")
    (tmp_path / "pyproject.toml").write_text(f'[project]\nname = "a"\nurls.Documentation = "{ADDRESS}"\n')
    settings, _, _ = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")
    (tmp_path / "mkdocs.yml").write_text(f"{settings}\n")
    (tmp_path / "README.md").write_text("# Home\n\n[A page](docs/page.md#a-part), [its source](docs/site_hooks.py)\n")
    (tmp_path / "docs" / "page.md").write_text(
        '# Page\n\n<a id="an-old-name"></a>\n\n## A part\n\n[Home](../README.md#home), [here](#an-old-name)\n'
    )
    return tmp_path


def test_links_into_and_out_of_docs_work(repository: Path) -> None:
    done = build(repository, repository / "site")

    assert done.returncode == 0, done.stderr
    assert 'href="docs/page.html#a-part"' in (repository / "site" / "index.html").read_text()
    page = (repository / "site" / "docs" / "page.html").read_text()
    assert 'href="../index.html#home"' in page
    assert f'<link rel="canonical" href="{ADDRESS}docs/page.html"' in page


def test_a_broken_link_fails_the_build(repository: Path) -> None:
    links = ["../other.md", "#another-part", "../README.md#another-part", "/docs/page.md"]
    with (repository / "docs" / "page.md").open("a") as page:
        page.writelines(f"\n[Broken]({link})\n" for link in links)

    done = build(repository, repository / "site")

    warned = [line for line in done.stderr.splitlines() if line.startswith("WARNING")]
    assert done.returncode == 1
    assert [link for link in links if not any(f"'{link}'" in line for line in warned)] == []


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The folder on a web server. Yields its address."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def show(browser: Browser, address: str, width: int) -> None:
    """Open the page. It must ask no other host for anything."""
    browser.do("Emulation.setDeviceMetricsOverride", width=width, height=844, deviceScaleFactor=1, mobile=width < 500)
    browser.do("Page.navigate", url="about:blank")
    browser.until("location.href === 'about:blank'")
    browser.requests.clear()
    browser.do("Page.navigate", url=address)
    browser.until("location.protocol === 'http:' && document.readyState === 'complete'")
    (host,) = re.findall("http://[^/]+/", address)
    assert [request for request in browser.requests if not request.startswith(host)] == []


GIT = {f"GIT_{who}_{what}": "a@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def release(repository: Path, version: str) -> None:
    """What `make site` runs, for that version."""
    mike = Path(sys.executable).with_name("mike")
    variables = {**os.environ, **GIT, "PATH": f"{mike.parent}:{os.environ['PATH']}"}
    for command in (["deploy", "--update-aliases", version, "latest"], ["set-default", "latest"]):
        subprocess.run([mike, *command], cwd=repository, env=variables, check=True, capture_output=True)


def test_readers_choose_a_version_and_find_words(repository: Path, tmp_path: Path, started: Browser) -> None:
    for command in (["init", "--quiet", "-b", "main"], ["commit", "--quiet", "--allow-empty", "-m", "a"]):
        subprocess.run(["git", *command], cwd=repository, env={**os.environ, **GIT}, check=True)
    release(repository, "0.1.0")
    with (repository / "docs" / "page.md").open("a") as page:
        page.write("\n## New\n\nThis page speaks of marmalade.\n")
    release(repository, "0.2.0")
    subprocess.run(["git", "clone", "--quiet", "-b", "gh-pages", repository, tmp_path / "pages"], check=True)

    with served(tmp_path / "pages") as address:
        show(started, address, 1280)
        started.until("location.pathname === '/latest/'")
        show(started, f"{address}latest/search.html?q=marmalade", 1280)
        started.until("document.querySelector('#mkdocs-search-results article')")
        assert started.text("#mkdocs-search-results article").startswith("New")
        show(started, f"{address}latest/docs/page.html", 390)
        started.until("document.querySelector('#version-selector option')")
        choices = "[...document.querySelectorAll('#version-selector option')].map(choice => choice.value)"
        assert started.js(choices) == ["0.2.0", "0.1.0"]
        choose = "{ value = '0.1.0'; dispatchEvent(new Event('change')); }"
        started.do("Runtime.evaluate", expression=f"with (document.querySelector('#version-selector')) {choose}")
        started.until("location.pathname.startsWith('/0.1.0/')")


def test_pages_fit_a_phone_and_show_their_pictures(site: Path, started: Browser) -> None:
    pictures = "[...document.querySelectorAll('.document img')].map(image => image.naturalWidth > 0)"
    with served(site) as address:
        for page, shown in (("index.html", [True]), ("docs/report.html", [True]), ("docs/patterns.html", [])):
            for width in (390, 1280):
                show(started, f"{address}{page}", width)
                assert started.js(pictures) == shown, page
                assert started.js("document.documentElement.scrollWidth") == width, page
