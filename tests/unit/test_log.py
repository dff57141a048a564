"""The sidecar's own log: whole lines, few, and never waited for."""

import os
import subprocess
import sys

import pytest
from truemem.support.log import MOST_LINES_LOGGED

PAGE = 4096


def run(program: str, stderr: int = subprocess.PIPE) -> bytes:
    """What it says on stderr."""
    done = subprocess.run(
        [sys.executable, "-c", f"from truemem.support.log import last_word, log, set_level\n{program}"],
        stderr=stderr,
        check=True,
        timeout=60,
    )
    return done.stderr or b""


def test_a_line_has_its_level_and_lower_ones_are_left_out() -> None:
    assert run('set_level("warn"); log("info", "not this"); log("error", "this")') == b"truemem ERROR this\n"


def test_what_others_have_said_stays_one_line_of_text() -> None:
    said = run(r'log("warn", "a\nb\rc\x1b[2Jd\u2028e\0f \ud800 \u00fc")')
    assert said == "truemem WARN a b c [2Jd e f   ü\n".encode()


@pytest.mark.parametrize("character", ["x", "ü", "💥"])
def test_a_long_message_is_not_waited_for(character: str) -> None:
    """The pipe polls as writable with a page free: what is longer would wait for a reader that there is not."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    filled = 0
    try:
        while True:
            filled += os.write(writing, b"-" * PAGE)
    except BlockingIOError:
        os.set_blocking(writing, True)
    os.read(reading, PAGE)
    run(f'log("error", {character!r} * 5000)', stderr=writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()[filled - PAGE :]
    assert said.startswith(b"truemem ERROR ")
    assert said.endswith(b"\n")


def test_a_fault_that_repeats_itself_does_not_fill_the_log() -> None:
    lines = run(f'for number in range({MOST_LINES_LOGGED + 100}): log("error", f"{{number}}")').splitlines()
    assert lines[0] == b"truemem ERROR 0"
    assert lines[-1] == b"truemem ERROR %d (the last line of this log)" % (MOST_LINES_LOGGED - 1)


def test_a_stderr_that_is_gone_is_no_error() -> None:
    run('import os; os.close(2); log("error", "no reader")')


def test_the_last_word_is_said_whatever_the_level_and_the_count() -> None:
    said = run(
        f'for _ in range({MOST_LINES_LOGGED + 1}): log("error", "x")\nset_level("off"); last_word("a\\nb")'
    ).splitlines()
    assert said[MOST_LINES_LOGGED:] == [b"truemem ERROR a b"]


def test_a_stderr_that_cannot_be_polled_is_no_error() -> None:
    """poll(2) refuses more descriptors than RLIMIT_NOFILE, and all of them without memory."""
    run('import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0)); log("error", "no one reads it")')
