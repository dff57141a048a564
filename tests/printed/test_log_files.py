"""Logs as people have them: whatever stands around a line, it is found, once, and as it was."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from truemem_workbench.judge.drift import points
from truemem_workbench.printed.line import read
from truemem_workbench.printed.parts import merged
from truemem_workbench.printed.reader import Job, Reader
from truemem_workbench.report.judging import ordered
from truemem_workbench.support.bad_input import BadInput

from tests.report.conftest import Command
from tests.report.forms import subscription
from tests.report.written import line, log


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["as it came", "packed again"])
def test_records_that_were_packed_one_by_one_are_one_file(
    pack: Callable[[bytes], bytes], truemem: Command, tmp_path: Path
) -> None:
    """As Firehose writes what CloudWatch Logs has packed."""
    path = tmp_path / "delivery"
    path.write_bytes(pack(b"".join(gzip.compress(subscription(line("a", n)).encode()) for n in (1, 2))))

    assert truemem("report", path, "--json").document["lines"] == 2


def one_by_one(paths: list[Path]) -> int:
    return len(list(read(paths)))


def in_columns(paths: list[Path]) -> int:
    return len(ordered(merged(Reader(Job()).read(paths))).rows)


AGAIN = line("a", 2, recovered=True, mayRepeat=True, _aws=None)
"""As the next process prints it."""


@pytest.mark.parametrize("count", [one_by_one, in_columns])
@pytest.mark.parametrize(
    "lines",
    [[line("a", 1), line("a", 2), AGAIN], [AGAIN, line("a", 1), line("a", 2)], [line("a", 1), AGAIN]],
    ids=["the line came", "the line comes later", "the line never came"],
)
def test_a_line_that_may_repeat_counts_once(
    count: Callable[[list[Path]], int], lines: list[str], tmp_path: Path
) -> None:
    path = log(tmp_path, lines)

    assert count([path]) == 2
    assert count([path, path]) == 2  # the same log twice


def test_members_that_are_not_known_are_passed_over(truemem: Command, tmp_path: Path) -> None:
    later = [line("a", n, largestRSS=80.0, shards={"a": [1]}) for n in (1, 2)]
    ran = truemem("report", log(tmp_path, [*later, line("a", 3)]), "--json")
    assert ran.document["lines"] == 3
    assert ran.document["environments"][0]["peaks"]["highest"] == 100
    for command in ("doctor", "page"):
        assert (
            truemem(command, log(tmp_path, later), *["--output", tmp_path / "x.html"] * (command == "page")).code == 0
        )


def test_a_line_cut_off_is_counted_and_harms_nothing(tmp_path: Path) -> None:
    cut = line("a", 2)[:200] + '"environmentId":"schema","schema"'
    path = log(tmp_path, [line("a", 1), cut, '{"schema": "of something else", "environmentId": 7}', line("a", 3)])
    with path.open("ab") as file:
        file.write(b'\xff\xfe{"schema":1,"environmentId":"\xff"}\n')

    reader = Reader(Job())
    assert len(list(reader.read([path]))) == 1
    loaded = reader.loaded

    assert (loaded.lines, loaded.unread) == (3, {"cut_off": 1})  # what is not UTF-8 is read as well


def test_a_broken_gzip_file_is_bad_input(tmp_path: Path) -> None:
    path = tmp_path / "broken.gz"
    path.write_bytes(gzip.compress(line().encode() * 100)[:200])

    with pytest.raises(BadInput, match=r"broken.gz cannot be read"):
        list(read([path]))


def test_the_verdict_gets_what_each_invocation_left_behind(tmp_path: Path) -> None:
    path = log(tmp_path, [line("a", 1), line("a", 2, CurrentRSS=95.5, raced=True), line("a", 3, closedBy="shutdown")])

    first, raced, last = points(list(read([path])))

    assert (first.current_kib, first.peak_kib, first.certain) == (90 * 1024, 100 * 1024, True)
    assert (raced.current_kib, raced.invocation, raced.certain) == (95.5 * 1024, 2, False)
    assert not last.certain
