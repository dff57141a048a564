"""Lines to a stdout that does not read, closes, or reads slowly."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from truemem.records.stdout_writer import BACKLOG, StdoutWriter


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    for descriptor in (reader, writer):
        try:
            os.close(descriptor)
        except OSError:
            continue


def test_a_line_is_written_at_once(pipe: tuple[int, int]) -> None:
    StdoutWriter(pipe[1]).put("a line")
    assert os.read(pipe[0], 100) == b"a line\n"


def test_a_full_pipe_keeps_lines_in_order_and_drops_the_oldest_whole(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    output = StdoutWriter(writer)
    count = BACKLOG + 200
    for number in range(count):
        output.put(f"{number:06d} " + "x" * 1000)
    assert output.dropped > 0
    text = b""
    while not output.flush():
        text += os.read(reader, 1 << 20)
    text += os.read(reader, 1 << 20)
    lines = text.decode().splitlines()
    assert len(lines) == count - output.dropped
    assert all(len(line) == 1007 for line in lines)
    assert [line[:6] for line in lines] == sorted(line[:6] for line in lines)
    assert lines[-1].startswith(f"{count - 1:06d}")


@pytest.mark.parametrize("tells", [0, 2])
def test_a_closed_pipe_loses_the_line_and_those_that_it_tells_of(pipe: tuple[int, int], tells: int) -> None:
    os.close(pipe[0])
    output = StdoutWriter(pipe[1])
    output.put("a line without a reader", lost=tells)
    assert output.dropped == 1 + tells
