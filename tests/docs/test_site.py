"""`make docs`: the pages are a site, and a link that leads nowhere fails the build."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def build(folder: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """What `make docs` runs, in that folder."""
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(site)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100, check=False)


def test_the_site_is_built_and_no_link_is_broken(tmp_path: Path) -> None:
    done = build(ROOT, tmp_path)

    assert done.returncode == 0, done.stderr
    for page in (ROOT / "docs").glob("*.md"):
        assert (tmp_path / "docs" / page.with_suffix(".html").name).is_file()
    home = (tmp_path / "index.html").read_text()
    loaded = re.findall(r'<(?:script|link|img)[^>]* (?:src|href)="(?!https?:)([^"?]+)', home)
    assert {Path(path).suffix for path in loaded} >= {".css", ".js", ".png"}
    assert [path for path in loaded if not (tmp_path / path).is_file()] == []
    linked_from_docs = ["index.html", "template.yaml", "benchmarks/results/accuracy.html", "sample_function/index.html"]
    assert [path for path in linked_from_docs if not (tmp_path / path).is_file()] == []


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Another repository of two pages, with the settings and the hooks of this one."""
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "site_hooks.py", tmp_path / "docs")
    settings, _, _ = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")
    (tmp_path / "mkdocs.yml").write_text(f"{settings}\n")
    (tmp_path / "README.md").write_text("# Home\n\n[A page](docs/page.md#a-part), [its source](docs/site_hooks.py)\n")
    (tmp_path / "docs" / "page.md").write_text("# Page\n\n## A part\n\n[Home](../README.md)\n")
    return tmp_path


def test_links_into_and_out_of_docs_work(repository: Path) -> None:
    done = build(repository, repository / "site")

    assert done.returncode == 0, done.stderr
    assert 'href="docs/page.html#a-part"' in (repository / "site" / "index.html").read_text()
    assert 'href="../index.html"' in (repository / "site" / "docs" / "page.html").read_text()


def test_a_broken_link_fails_the_build(repository: Path) -> None:
    links = ["../other.md", "#another-part", "../README.md#another-part", "/docs/page.md"]
    with (repository / "docs" / "page.md").open("a") as page:
        page.writelines(f"\n[Broken]({link})\n" for link in links)

    done = build(repository, repository / "site")

    warned = [line for line in done.stderr.splitlines() if line.startswith("WARNING")]
    assert done.returncode == 1
    assert [link for link in links if not any(f"'{link}'" in line for line in warned)] == []
