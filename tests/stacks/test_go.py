"""What a program in Go answers: its page and its FIFO, as they are, broken, stale or another's."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.stacks import Look, OwnCode
from truemem.stacks.go import ANSWER_BYTES, OWN, parse, stacks_of
from truemem.stacks.python import Frame

FRAMES = (
    b"- 35 encoding/json.checkValid /usr/lib/go/src/encoding/json/scanner.go\n"
    b"+ 31 main.load /home/me/the shop/orders.go\n"
)
LATER_MS = 9_999_999_999_999


def page(number: int = 7, at_ms: int = 1_790_000_000_000, allocations: int = 2, frames: bytes = FRAMES) -> bytes:
    return b"truemem-stacks-go-1 %d %d %d\n%s%d\n" % (number, at_ms, allocations, frames, number)


def whole(text: bytes) -> bytes:
    return text.ljust(ANSWER_BYTES, b"\0")


class Program:
    """The page and the FIFO of a program with the library."""

    def __init__(self, folder: Path) -> None:
        self.answers, self.question = folder / ".truemem-running-12", folder / ".truemem-ask-12"
        os.mkfifo(self.question, 0o600)
        self.reader = os.open(self.question, os.O_RDWR | os.O_NONBLOCK)
        self.answers.touch(0o600)
        self.say(0)
        stacks = stacks_of(str(folder), 12)
        assert stacks is not None
        self.stacks = stacks

    def say(self, number: int, at_ms: int = LATER_MS) -> None:
        self.answers.write_bytes(whole(page(number, at_ms)))

    def asked(self) -> int:
        try:
            return len(os.read(self.reader, 1 << 20))
        except BlockingIOError:
            return 0


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def test_an_answer_has_its_frames_and_own_ones_are_marked() -> None:
    answer = parse(whole(page()))
    assert answer is not None
    assert (answer.number, answer.at_ms, answer.allocations) == (7, 1_790_000_000_000, 2)
    assert answer.frames == [
        Frame("/usr/lib/go/src/encoding/json/scanner.go", 35, "encoding/json.checkValid"),
        Frame("own://home/me/the shop/orders.go", 31, "main.load"),
    ]


def test_an_answer_may_be_that_it_is_not_known() -> None:
    answer = parse(whole(page(frames=b"")))
    assert answer is not None
    assert answer.frames == []


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        page().replace(b"go-1", b"go-2"),
        page()[:-3],
        page()[:-2] + b"8\n",
        page(number=0),
        page(frames=b"+ 31 main.load\n"),
        page(frames=b"* 31 main.load /orders.go\n"),
        page(frames=b"+ x main.load /orders.go\n"),
        page(frames=b"+ 31 main.load /\x1borders.go\n"),
        page(frames=b"+ 31 main.load /" + b"x" * 300 + b"\n"),
        page() + b"\0\0x",
    ],
)
def test_what_is_not_whole_is_no_answer(broken: bytes) -> None:
    assert parse(broken.ljust(ANSWER_BYTES, b"\0")) is None


@given(st.binary(max_size=300), st.integers(0, len(page())))
def test_any_bytes_are_an_answer_or_none(noise: bytes, at: int) -> None:
    parse(noise)
    parse(page()[:at] + noise)


OWN_FRAME = Frame("own://home/me/shop/orders.go", 31, "main.load")


def named(*looks: tuple[Frame, int]) -> dict[str, object]:
    return OwnCode(OWN).document([Look([frame], 450 * 1024, taken) for frame, taken in looks], True, is_asked=True)


def test_one_look_in_the_allocator_is_enough() -> None:
    assert named((OWN_FRAME, 1)) == {
        "file": "/home/me/shop/orders.go",
        "line": 31,
        "function": "main.load",
        "level": 450,
        "stack": ["/home/me/shop/orders.go:31 main.load"],
    }


def test_what_was_never_in_the_allocator_has_no_line() -> None:
    assert named((OWN_FRAME, 0), (OWN_FRAME, 0), (Frame("own:/sum.go", 1, "main.sum"), 1)) == {}


def test_most_looks_that_know_nothing_leave_no_line() -> None:
    nowhere = Frame("", 0, "")
    assert named((nowhere, 0), (OWN_FRAME, 1), (nowhere, 0)) == {}


def test_each_look_asks_and_reads_what_came_since_the_last(program: Program) -> None:
    program.say(3)
    assert program.stacks.answer() is None  # it was not asked
    assert program.asked() == 1
    program.say(4)
    answer = program.stacks.answer()
    assert answer is not None
    assert answer.number == 4
    assert program.stacks.answer() is None  # the same
    assert program.asked() == 2


def test_an_answer_before_the_last_look_but_one_is_stale(program: Program) -> None:
    before_ms = time.time_ns() // 1_000_000 - 1
    for number in range(1, 4):
        program.say(number, before_ms)
        assert program.stacks.answer() is None


def test_a_full_fifo_is_not_waited_for(program: Program) -> None:
    os.write(program.reader, b"?" * 65536)
    program.stacks.answer()
    program.say(1)
    assert program.stacks.answer() is not None
    assert program.asked() == 65536


def test_where_nobody_reads_nothing_is_waited_for(program: Program) -> None:
    os.close(program.reader)
    assert program.stacks.answer() is None
    program.question.unlink()
    assert program.stacks.answer() is None


@pytest.mark.parametrize("kind", ["a file", "a link", "open to others"])
def test_nothing_is_written_into_what_is_no_fifo_of_ours(kind: str, program: Program, tmp_path: Path) -> None:
    other = tmp_path / "other"
    if kind == "open to others":
        program.question.chmod(0o622)
    else:
        program.question.unlink()
        if kind == "a link":
            os.mkfifo(other, 0o600)
            program.reader = os.open(other, os.O_RDWR | os.O_NONBLOCK)
            program.question.symlink_to(other)
        else:
            program.question.touch(0o600)
    program.stacks.answer()
    assert program.asked() == 0
    assert kind != "a file" or program.question.read_bytes() == b""


def test_without_the_library_nobody_is_asked(tmp_path: Path) -> None:
    assert stacks_of(str(tmp_path), 12) is None
    (tmp_path / ".truemem-running-12").write_bytes(whole(page()))
    (tmp_path / ".truemem-running-12").chmod(0o644)
    assert stacks_of(str(tmp_path), 12) is None
