"""The report in parts, as many machines make it, is that of one machine. Here one process does all the parts."""

import runpy
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from truemem_workbench.printed.reader import Job, Loaded
from truemem_workbench.report import collect, spark
from truemem_workbench.report.spark import File, Piece
from truemem_workbench.report.summary import Report
from truemem_workbench.support.bad_input import BadInput

from tests.report.fleet_files import write
from tests.report.written import life, line, log

ROOT = Path(__file__).parents[2]
PRICES = collect.Prices(per_month=1e6)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write(tmp_path_factory.mktemp("fleet"))


def here(files: Sequence[Path], job: Job) -> Report:
    """The report of one machine."""
    return collect.collect(files, job, PRICES)


def shuffled(pieces: Iterable[Piece]) -> Iterator[Iterator[Piece]]:
    """Bring the pieces of a part together, as Spark does."""
    parts: dict[int, list[Piece]] = {}
    for piece in pieces:
        parts.setdefault(piece.part, []).append(piece)
    return (iter(parts[part]) for part in sorted(parts))


def in_parts(shares: Sequence[Sequence[File]], job: Job, parts: int) -> tuple[Loaded, Report | None]:
    pieces = [piece for share in shares for piece in spark.read_files(share, job, parts)]
    if job.by is not None:
        pieces = [piece for part in shuffled(pieces) for piece in spark.match_lines(part, job, parts)]
    pieces = [piece for part in shuffled(pieces) for piece in spark.judge_lines(part, job, parts)]
    return spark.gather_report(pieces, job, PRICES)


def shares_of(files: Sequence[Path], size: int) -> list[list[File]]:
    contents: list[File] = [(str(file), [file.read_bytes()]) for file in files]
    return [contents[at : at + size] for at in range(0, len(contents), size)]


@pytest.mark.parametrize(
    ("parts", "size", "asked"),
    [
        (7, 1, {}),
        pytest.param(40, 4, {}, marks=pytest.mark.nightly),
        pytest.param(5, 2, {"by": "status"}, marks=pytest.mark.nightly),
        (4, 2, {"function": "leaks-alone", "by": "model_id"}),
        (3, 3, {"environment": "small-1", "since_ms": 1_795_288_667_424 + 150_000}),
    ],
)
def test_the_report_in_parts_is_that_of_one_machine(
    parts: int, size: int, asked: dict[str, str], fleet: list[Path]
) -> None:
    job = Job(**asked)  # type: ignore[arg-type]
    _, report = in_parts(shares_of(fleet, size), job, parts)
    assert report is not None
    assert report.functions
    assert report == here(fleet, job)


def test_a_file_that_is_no_log_is_named_as_it_was_given() -> None:
    shares: list[list[File]] = [[("s3://bucket/log", [line().encode()])], [("s3://bucket/x", [bytes(range(256)) * 40])]]
    with pytest.raises(BadInput, match=r"^s3://bucket/x is not a log"):
        in_parts(shares, Job(), 2)


def test_no_line_is_no_report() -> None:
    loaded, report = in_parts([[("log", [b"START\n"])], [], [("log", [b""])]], Job(function="x"), 2)
    assert (loaded.lines, loaded.elsewhere, report) == (0, 0, None)
    loaded, report = in_parts([[("log", [line().encode()])]], Job(function="x"), 2)
    assert (loaded.lines, loaded.elsewhere, report) == (0, 1, None)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (["s3://b/p", "--output", "s3://b/report.json"], ["s3://b/p", "--output", "s3://b/report.json"]),
        (["--JOB_NAME", "x", "--report", "'s3://b/a b' --by model"], ["s3://b/a b", "--by", "model"]),
    ],
)
def test_submitted_file_takes_arguments_of_glue_too(given: list[str], line: list[str]) -> None:
    script = runpy.run_path(str(ROOT / "deploy" / "spark" / "truemem_report.py"), run_name="script")
    assert script["arguments"](given) == ["report", "--engine", "spark", *line]


def test_the_submitted_file_ends_without_an_exit_if_all_is_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = runpy.run_path(str(ROOT / "deploy" / "spark" / "truemem_report.py"), run_name="script")
    monkeypatch.setitem(script["run"].__globals__, "arguments", lambda _: ["report", str(log(tmp_path, life("a")))])
    monkeypatch.setattr(sys, "argv", ["truemem_report.py"])
    script["run"]()
    assert "1 function, 200 invocations" in capsys.readouterr().out
    monkeypatch.setitem(script["run"].__globals__, "arguments", lambda _: ["report", "/nowhere"])
    with pytest.raises(SystemExit, match="2"):
        script["run"]()
