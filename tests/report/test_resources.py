"""What else runs out, in report, page and doctor: what the lines tell becomes a sentence, and what is over is none."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem_workbench.judge.log_diagnosis import ran_out
from truemem_workbench.judge.resources import ResourceHistory, resources
from truemem_workbench.page.environments import gather
from truemem_workbench.printed.line import read

from tests.report.conftest import Command
from tests.report.written import life, line, log

LEAK = {"open": 890, "limit": 1024, "verdict": "growing", "perInvocation": 1.0, "invocationsLeft": 134}
FULL = {"used": 480.0, "size": 512.0}


def ending_with(members: dict[str, Any], environment: str = "a", **more: Any) -> list[str]:
    return [*life(environment, 159, **more), line(environment, 160, resources=members, **more)]


def test_what_runs_out_comes_before_what_grows(truemem: Command, tmp_path: Path) -> None:
    lines = [
        *ending_with({"descriptors": LEAK}, "a", FunctionName="leaks", memoryLimit=128),
        *ending_with({"tmp": FULL}, "b", FunctionName="fills", memoryLimit=128),
        *life("c", 200, grows=1.0, FunctionName="grows"),
    ]
    told = truemem("report", log(tmp_path, lines)).out.splitlines()
    assert told[0] == "3 functions, 520 invocations: 2 running out, 1 growing"
    assert told[2].strip() == "running out: descriptors, 134 invocations left"
    assert told[4].strip() == "running out: tmp"


def test_what_runs_out_is_the_finding(truemem: Command, tmp_path: Path) -> None:
    path = log(tmp_path, ending_with({"descriptors": LEAK, "tmp": {"used": 60, "size": 512}}))
    (function,) = truemem("report", path, "--json").document["functions"]
    found = function["finding"]
    assert (found["cause"], found["holder"], found["invocationsLeft"]) == ("descriptors", "descriptors", 134)
    assert found["evidence"] == ["890 of 1,024 open descriptors"]
    assert "In about 134 invocations opening a file or a socket fails (EMFILE)." in found["sentence"]
    (told,) = (each for each in function["resources"] if each["name"] == "descriptors")
    assert (told["used"], told["growing"], told["invocations_left"]) == (890, True, 134)
    (environment,) = gather(read([path]))
    assert environment.finding.document() == found


@pytest.mark.parametrize(
    ("members", "more"),
    [
        ({"tmp": {"used": 100, "size": 512}, "descriptors": {"open": 200, "limit": 1024}}, 0),
        ({"descriptors": {**LEAK, "open": 40}}, 140),
    ],
    ids=["below its limits", "growth that is not told again"],
)
def test_what_does_not_run_out_is_not_accused(
    members: dict[str, Any], more: int, truemem: Command, tmp_path: Path
) -> None:
    lines = [*ending_with(members), *(line("a", 161 + number) for number in range(more))]
    assert "running out" not in truemem("report", log(tmp_path, lines)).out


def test_what_is_left_is_counted_from_what_is_in_use_now() -> None:
    """Later lines tell what is in use without a verdict; after a reset that is less, of new processes."""
    for opened, left in ((890, 134), (900, 124), (30, 994)):
        told = [(160, {"descriptors": LEAK}), (165, {"descriptors": {"open": opened, "limit": 1024}})]
        (descriptors,) = resources(told, 165)
        assert (descriptors.used, descriptors.invocations_left) == (opened, left)
    tmp = {"used": 100.0, "size": 512.0, "verdict": "growing", "perInvocationKiB": 1024.0, "invocationsLeft": 412}
    (disk,) = resources([(160, {"tmp": tmp}), (165, {"tmp": {"used": 105.0, "size": 512.0}})], 165)
    assert disk.invocations_left == 407


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5) | st.integers(),
        lambda inner: st.dictionaries(
            st.sampled_from(
                ["tmp", "descriptors", "processes", "used", "open", "limit", "verdict", "holders", "zombies"]
            ),
            inner,
            max_size=5,
        ),
        max_leaves=20,
    )
)
def test_whatever_a_line_has_there_breaks_nothing(members: Any) -> None:
    told = ResourceHistory()
    told.add(1, members)
    told.add(2, {"descriptors": LEAK, "tmp": members})
    for each in told.found(2):
        assert each.amount
        assert each.urgency


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("OSError: [Errno 24] Too many open files: '/tmp/x'", "descriptors"),
        ("Error: EMFILE: too many open files, open '/var/task/x'", "descriptors"),
        ("java.net.SocketException: Too many open files", "descriptors"),
        ("dial tcp: lookup x: socket: too many open files", "descriptors"),
        ("OSError: [Errno 28] No space left on device", "tmp"),
        ("Error: ENOSPC: no space left on device, write", "tmp"),
        ("RuntimeError: can't start new thread", "tasks"),
        ("java.lang.OutOfMemoryError: unable to create native thread: possibly out of memory", "tasks"),
        ("Error: spawn ffmpeg EAGAIN", "tasks"),
        ("fork: Resource temporarily unavailable", "tasks"),
        ("runtime: failed to create new OS thread (have 5 already; errno=11)\nruntime.newosproc", "tasks"),
        ("BlockingIOError: [Errno 11] Resource temporarily unavailable", ""),
        ("recv: EAGAIN", ""),
        ("START RequestId: 1", ""),
    ],
)
def test_the_errors_of_a_function_are_known(text: str, name: str) -> None:
    assert ran_out(text) == name


def test_doctor_says_what_ran_out_and_what_to_do(truemem: Command, tmp_path: Path) -> None:
    lines = [
        *life("a", 20),
        "[ERROR] OSError: [Errno 24] Too many open files: 'x'",
        '{"level":"ERROR","message":"OSError: [Errno 24] Too many open files"}',
        "[ERROR] OSError: [Errno 28] No space left on device",
    ]
    ran = truemem("doctor", log(tmp_path, lines))
    assert ran.code == 0
    assert "The function ran out of descriptors: 2 lines say so.\n  [ERROR] OSError: [Errno 24] Too many" in ran.out
    assert "make clients once, outside the handler: truemem docs patterns#descriptors-that-leak" in ran.out
    assert "/tmp is full: 1 line says so." in ran.out
