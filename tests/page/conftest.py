"""A browser for all tests of the page: it takes a second to start."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from truemem_workbench import page
from truemem_workbench.printed.line import Line

from testing.browser import Browser, chromium
from testing.installs import Missing
from testing.invented_lines import parsed

Show = Callable[[Iterable[str | Line]], Browser]


@pytest.fixture(scope="session")
def started() -> Iterator[Browser]:
    try:
        program, environment = chromium()
    except Missing as reason:
        pytest.skip(str(reason))
    with Browser(program, environment) as browser:
        yield browser


@pytest.fixture
def show(started: Browser, tmp_path: Path) -> Iterator[Show]:
    """Write the page of these lines and open it. Afterwards it must have no complaint and no request."""
    started.complaints.clear()
    started.requests.clear()

    def opened(lines: Iterable[str | Line]) -> Browser:
        path = tmp_path / "page.html"
        page.write(page.gather(parsed(lines)), path)
        started.open(path)
        return started

    yield opened
    assert started.complaints == []
    assert started.requests == []
