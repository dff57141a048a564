"""Lines without metadata (TRUEMEM_OUTPUT=json): to a reader they are the lines with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from truemem_workbench.lines.line import read
from truemem_workbench.lines.record import parse_lines

from tests.printed import printed, record
from tests.report.conftest import Command
from tests.report.written import log

TOGETHER = {b"TRUEMEM_AGGREGATE": b"60"}


@pytest.mark.parametrize("environ", [{}, TOGETHER], ids=["alone", "together"])
def test_lines_without_metadata_are_reported_as_lines_with_it(
    environ: dict[bytes, bytes], tmp_path: Path, capfd: pytest.CaptureFixture[str], truemem: Command
) -> None:
    def made(output: bytes) -> Path:
        records = [record(number, 90 + number / 2, 240 + number % 9) for number in range(1, 151)]
        lines = printed(capfd, records, {**environ, b"TRUEMEM_OUTPUT": output})
        return log(
            tmp_path, (json.dumps(json.loads(each) | {"environmentId": "env"}) for each in lines), output.decode()
        )

    usual, plain = made(b"emf"), made(b"json")
    assert "_aws" not in plain.read_text()
    found = [[(line.request_id, line.time_ms, line.may_repeat) for line in read([path])] for path in (usual, plain)]
    assert found[0] == found[1]
    assert len(found[0]) == len(parse_lines(plain.read_text().splitlines())) == 150
    assert truemem("report", plain, "--json").document == truemem("report", usual, "--json").document
