"""`truemem page`, and what is gathered for it."""

from __future__ import annotations

import gzip
from itertools import chain
from pathlib import Path

from click.testing import CliRunner
from truemem_workbench import page
from truemem_workbench.cli.__main__ import cli
from truemem_workbench.page.environments import Flag, most
from truemem_workbench.testing.invented_lines import curve, leak, line, noisy, parsed, recorded, request_id


def log(path: Path) -> Path:
    """As a console's export has it, with other lines between."""
    lines = chain(["START RequestId: 1", '{"level":"INFO","message":"{{script}}"}'], leak(60), curve(noisy(40), "calm"))
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return path


def test_a_log_becomes_a_page_and_a_picture(tmp_path: Path) -> None:
    html, png = tmp_path / "out.html", tmp_path / "out.png"
    done = CliRunner().invoke(cli, ["page", str(log(tmp_path / "a.gz")), "--output", str(html), "--png", str(png)])
    assert (done.exit_code, done.output) == (0, f"{html}\n{png}\n")
    assert html.read_text().startswith("<!doctype html>")
    assert "{{" not in html.read_text().split("</style>")[0]
    assert png.read_bytes().startswith(b"\x89PNG")


def test_standard_input_and_one_environment(tmp_path: Path) -> None:
    html = tmp_path / "out.html"
    given = "\n".join(chain(leak(30), curve(noisy(30), "calm")))
    done = CliRunner().invoke(cli, ["page", "-", "--output", str(html), "--environment", "cal"], input=given)
    assert done.exit_code == 0
    assert '"id":"calm"' in html.read_text()
    assert '"id":"leak"' not in html.read_text()


def test_what_cannot_be_used_is_told_in_one_line(tmp_path: Path) -> None:
    other = tmp_path / "other.log"
    other.write_text("START RequestId: 1\n")
    good = log(tmp_path / "a.gz")
    for arguments, told in (
        ([tmp_path / "none.log"], "none.log cannot be read: No such file or directory"),
        ([other], "no line of the sidecar in"),
        ([good, "--environment", "x9"], "no line of the sidecar of x9 in"),
        (
            [good, "--output", tmp_path / "no" / "folder.html"],
            "folder.html cannot be written: No such file or directory",
        ),
    ):
        done = CliRunner().invoke(
            cli, ["page", *map(str, arguments), *([] if "--output" in arguments else ["--output", str(tmp_path / "x")])]
        )
        assert done.output.startswith("truemem page: ")
        assert told in done.output
        assert done.output.count("\n") == 1


def test_invocations_stand_in_their_order_whatever_the_log_s() -> None:
    made = [line(row, PeakRSS=100.0 + row) for row in (0, 3, 1, 2)]
    (environment,) = page.gather(parsed(made))
    assert list(environment.columns["peak"]) == [100, 101, 102, 103]
    assert environment.request_ids == [request_id(row) for row in range(4)]
    assert environment.count(Flag.COLD_START) == 1


def test_the_same_id_in_two_functions_is_two_environments() -> None:
    made = page.gather(parsed([line(0, FunctionName="a"), line(0, FunctionName="b")]))
    assert sorted(environment.function for environment in made) == ["a", "b"]


def test_what_does_not_fit_is_left_out_whole() -> None:
    big, small = page.gather(parsed(recorded(noisy(50))))[0], page.gather(parsed([line(0, "b")]))[0]
    assert most([big, small], 50) == [big]
    assert most([big, small], 51) == [big, small]
    assert most([big, small], 10) == [big]  # something is shown
