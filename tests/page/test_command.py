"""`truemem page`."""

import gzip
from itertools import chain
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from truemem_workbench.commands.__main__ import cli

from testing.invented_lines import curve, leak, noisy


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a log as a console's export has it, with other lines between."""
    lines = chain(["START RequestId: 1", '{"level":"INFO","message":"{{script}}"}'], leak(60), curve(noisy(40), "calm"))
    (tmp_path / "a.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    return tmp_path


def run_page(*arguments: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["page", *map(str, arguments)], input=stdin)


def test_a_log_becomes_a_page_and_a_picture(folder: Path) -> None:
    html, png = folder / "out.html", folder / "out.png"
    done = run_page(folder / "a.gz", "--output", html, "--output", png)
    assert (done.exit_code, done.output) == (0, f"{html}\n{png}\n")
    assert html.read_text().startswith("<!doctype html>")
    assert "{{" not in html.read_text().split("</style>")[0]
    assert png.read_bytes().startswith(b"\x89PNG")


def test_standard_input_and_one_environment(tmp_path: Path) -> None:
    html = tmp_path / "out.html"
    given = "\n".join(chain(leak(30), curve(noisy(30), "calm")))
    done = run_page("-", "--output", html, "--environment", "cal", stdin=given)
    assert done.exit_code == 0
    assert '"id":"calm"' in html.read_text()
    assert '"id":"leak"' not in html.read_text()
