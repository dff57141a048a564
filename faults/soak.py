"""Runs very many invocations in one environment: does the sidecar grow, and does it lose any?"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from faults.environment import FaultEnvironment
from faults.result import Row, counted
from faults.subject import Subject
from testing import bare

FLAT_KIB = 64
"""Growth that is none,"""
FLAT_SOURCE_KIB = 512
"""and under an ordinary python3, whose allocator keeps now more, now less."""
WARM = 2000
CHILDREN = 200
LOOKS = 20

REQUEST = re.compile(rb'"requestId":"([^"]+)"')
LOSS = re.compile(rb'"(dropped|reportMissing)":')


def work(number: int) -> str:
    """What invocation `number` does: mostly nothing and at once, now and then for longer."""
    if number % 1000 == 999:
        return "hold 4096 50"
    if number % 10 == 9:
        return "hold 256 1"
    return f"hold {64 * (number % 8)} 0"


def soak(subject: Subject, count: int, advance: Callable[[], None], warm: int = WARM, long_s: int = 1) -> Row:
    """`count` invocations after `warm` others, and a window in which CHILDREN processes come and go before each
    measurement. One of them takes `long_s` seconds."""
    printed: Counter[bytes] = Counter()
    losses: Counter[bytes] = Counter()

    def on_line(line: bytes) -> None:
        found = REQUEST.search(line)
        printed[found[1] if found else line] += 1
        losses.update(LOSS.findall(line))

    with FaultEnvironment(subject, on_line=on_line) as environment:
        environment.begin()
        assert environment.sidecar is not None
        pid = environment.sidecar.pid

        def run(how_many: int) -> None:
            for number in range(how_many):
                environment.invoke(work(number))
                advance()
            environment.invoke(f"fork {CHILDREN}")
            for _ in range(20):  # what the children held is given back with the windows after them
                environment.invoke("hold 64 5")

        run(warm)
        before, open_before, cpu_before = resident_kib(pid), descriptors(pid), cpu_ns(pid)
        environment.invoke(f"hold 4096 {long_s * 1000}")
        began = time.monotonic()
        run(count)
        seconds = time.monotonic() - began
        grown, more = resident_kib(pid) - before, descriptors(pid) - open_before
        cpu_ms = (cpu_ns(pid) - cpu_before) / count / 1e6
        code = environment.shut_down()

    lost = [name for name in environment.served if printed[name.encode()] == 0]
    twice = [name for name in environment.served if printed[name.encode()] > 1]
    broken = [
        *([f"RSS grew by {grown} KiB"] if grown > (FLAT_SOURCE_KIB if subject.is_source else FLAT_KIB) else []),
        *([f"{more} descriptors more"] if more > 0 else []),
        *([f"{counted(len(lost), 'line')} lost"] if lost else []),
        *([f"{counted(len(twice), 'invocation')} printed twice"] if twice else []),
        *([f"{counted(environment.wrong, 'answer')} wrong"] if environment.wrong else []),
        *([f"exit code {code} at SHUTDOWN"] if code != 0 else []),
    ]
    missing = f", {losses[b'reportMissing']:,} without their report" if losses[b"reportMissing"] else ""
    return Row(
        f"{count:,} invocations in one environment, one after the other, with two bursts of {CHILDREN} children and "
        f"one invocation of {long_s} s",
        f"{len(environment.served):,} invocations, {len(environment.served) / seconds:,.0f} a second",
        f"nothing; `next` asked for within {environment.longest_s * 1000:.0f} ms at most, CPU {cpu_ms:.2f} ms each",
        f"{'nothing' if not lost else counted(len(lost), 'line')}{missing}; RSS {before / 1024:.1f} MiB after "
        f"{warm:,}, {grown:+d} KiB at the end; descriptors {more:+d}",
        broken,
    )


def descriptors(pid: int) -> int:
    """Open ones that are kept: the fewest of some looks, as it opens and closes others all the time."""
    found = []
    for _ in range(LOOKS):
        found.append(bare.descriptors(pid))
        time.sleep(0.01)
    return min(found)


def resident_kib(pid: int) -> int:
    """RSS, walked page by page (proc_pid_smaps(5)): without the slack of VmRSS."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(text.partition("\nRss:")[2].split(None, 1)[0])


def cpu_ns(pid: int) -> int:
    """CPU time so far (/proc/PID/schedstat)."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
