"""The pages "from zero to the line": their commands are typed as a reader types them, and say what the page says.

`pip install` is left out of all but one: a benchmark (first_line) does it too, with empty caches."""

import os
from pathlib import Path

import pytest
from truemem_workbench.support.cache import cache

from testing import first_line, installs
from testing.first_line import LANGUAGES, Done, read
from tests.install.conftest import wheel, zips

__all__ = ["wheel", "zips"]

SLOWEST = ("nodejs", "typescript", "java")
"""In the nightly run: the five take 70 s of CPU time, these three 50 of them."""


@pytest.fixture(params=[pytest.param(each, marks=[pytest.mark.nightly] * (each in SLOWEST)) for each in LANGUAGES])
def language(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def project(language: str, tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A folder with the page's files, and the variables of a new user."""
    folder, home, programs = (tmp_path / name for name in ("orders", "home", "bin"))
    for each in (folder, home, programs):
        each.mkdir()
    first_line.write(read(language), folder)
    first_line.our_command(programs)
    try:
        own = first_line.stand_ins(language, folder, home, programs)
    except installs.Missing as why:
        pytest.skip(str(why))
    ours = os.pathsep.join(str(first_line.ROOT / each) for each in ("extension", "workbench", ""))
    return folder, first_line.variables(home, programs, TRUEMEM_CACHE=str(cache()), PYTHONPATH=ours, **own)


@pytest.mark.timeout(400)
def test_a_page_leads_to_its_line_and_its_repair(language: str, project: tuple[Path, dict[str, str]]) -> None:
    folder, variables = project
    page = read(language)
    installed, *steps = page.steps
    done = [Done(installed, installed.quoted, 0, 0.0), *first_line.take(tuple(steps), folder, variables)]
    first_line.repair(page, folder)
    done += first_line.take(page.proof, folder, variables)
    assert first_line.faults(page, done) == [], done[2].printed


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_from_the_wheel_a_page_leads_to_its_line(wheel: Path, tmp_path: Path) -> None:
    """With pip itself, and its network; the other languages are in the benchmark."""
    page, done = first_line.typed("python", wheel, tmp_path)
    assert first_line.faults(page, done) == [], [each.printed for each in done]


def test_the_pages_name_the_line_and_have_one_shape() -> None:
    """Short, the same headings, and no more than three commands to the line."""
    for language in LANGUAGES:
        page = read(language)
        prose = first_line.prose(page.text)
        assert len(page.steps) == 3
        assert f"**`{page.leak}`**" in prose
        assert len(prose.split()) < 250
        assert prose.count("\n# ") + prose.count("\n## ") == 1
