"""What surrounds the sidecar, simulated: the function's processes and their files as the kernel prints them, the rest
of the environment, stdout."""

import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from truemem.linux.cgroup import MemoryUsage
from truemem.linux.process_table import FUNCTION, Process
from truemem.linux.procfs import FAULT_KIB, PAGE_KIB, Gone, ProcessFiles, Procfs
from truemem.measure.environment_memory import HeldMemory
from truemem.wings import PrintedLine

PROC = Procfs()
"""One for all tests: it keeps a descriptor."""
MIB = 1024
"""KiB."""

STATUS = b"x\nVmHWM: %d kB\nVmRSS: %d kB\nRssAnon: %d kB\nRssFile: 0 kB\nRssShmem: 0 kB\nThreads: %d\n"


def files_text(name: str, rss: int, hwm: int, faults: int = 500, threads: int = 1) -> bytes:
    """What stands in /proc/PID/`name`; sizes in KiB."""
    if name == "stat":
        return b"1 (f) S 1 0 0 0 0 0 %d 0 0 0 0 0 0 0 0 0 %d 0 1 9000 %d" % (faults, threads, rss // PAGE_KIB)
    return b"0 %d 0 0" % (rss // PAGE_KIB) if name == "statm" else STATUS % (hwm, rss, rss, threads)


class OneThread(ProcessFiles):
    """Files of a process of which no other thread ever runs."""

    def cpu_times(self) -> tuple[int, int]:
        return 0, 0


class FunctionTable:
    """Those processes, all of the function; new ones are found by the next scan."""

    unfinished = False
    errors = 0
    api_address = "127.0.0.1:9001"

    def __init__(self, *processes: Process) -> None:
        self.processes = list(processes)
        self.new: list[Process] = []

    @property
    def last_pid(self) -> int:
        return -1

    def function(self) -> list[Process]:
        return list(self.processes)

    def others(self) -> list[Process]:
        return []

    def forget(self, process: Process, zombie: bool = False) -> bool:
        known = process in self.processes
        self.processes = [each for each in self.processes if each is not process]
        return known

    def changed(self) -> bool:
        return bool(self.new)

    def adopted_faults(self) -> int:
        return 0

    def is_settled(self) -> bool:
        return True

    def scan(self, most_ns: int = 0) -> None:
        self.processes, self.new = [*self.processes, *self.new], []

    def runtime_address(self) -> str:
        return self.api_address

    def oom_score_refused(self) -> str:
        return ""


US = 1_000
START_KIB = 50_000


class OneProcess:
    """A process as the kernel keeps it, and a clock. `draw` decides what happens between two system calls; without it
    nothing does."""

    def __init__(self, draw: Callable[[Any], Any] = lambda _: 0) -> None:
        self.draw = draw
        self.now_ns = 1_000_000_000
        self.rss = self.hwm = START_KIB
        self.faults = 1000
        self.queue: list[int] = []
        """Changes of the level (KiB) that the running invocation has still to make."""
        self.levels: list[int] = []
        """Every level of the running invocation."""

    def begin(self, changes: list[int]) -> None:
        """The runtime has its event: the invocation's peak counts from the level that it finds."""
        self.queue, self.levels = list(changes), [self.rss]

    def act(self) -> None:
        """The function's next action."""
        change = self.queue.pop(0)
        if change > 0:
            self.faults += -(-change // FAULT_KIB)
        self.rss = max(1000, self.rss + change)
        self.hwm = max(self.hwm, self.rss)
        self.levels.append(self.rss)

    def pass_time(self) -> None:
        """Between two system calls: time, and perhaps actions of the function."""
        self.now_ns += self.draw(st.sampled_from([5, 20, 60, 500, 5000])) * US
        for _ in range(self.draw(st.integers(0, len(self.queue)))):
            self.act()

    def finish(self) -> int:
        """The rest of the invocation; its true peak."""
        while self.queue:
            self.act()
        return max(self.levels)

    def touch(self, mib: int) -> None:
        """Allocate so much, and free it again."""
        self.begin([mib * MIB, -mib * MIB])
        self.finish()

    def table(self) -> Any:
        """A FunctionTable with this process alone."""
        return FunctionTable(Process(12, 1, 1, FUNCTION, _Files(self)))


class _Files(OneThread):
    def __init__(self, process: OneProcess) -> None:
        super().__init__("/nowhere/")
        self.process = process

    def read(self, name: str) -> bytes:
        self.process.pass_time()
        rss, hwm = (kib // PAGE_KIB * PAGE_KIB for kib in (self.process.rss, self.process.hwm))
        return files_text(name, rss, hwm, self.process.faults)

    def reset_watermark(self) -> None:
        self.process.pass_time()
        self.process.hwm = self.process.rss


class Ended:
    """The files of a child that has ended, and was not waited for: it has no memory."""

    def __getattr__(self, name: str) -> Any:
        raise Gone(f"{name}: a zombie")

    def final_faults(self) -> int | None:
        return None


class Output:
    """In place of stdout."""

    dropped = 0

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def put(self, line: PrintedLine) -> None:
        self.lines.append(json.loads(line.text))

    def flush(self, wait_ms: int = 0) -> None: ...


class Surroundings:
    """Nothing but the function."""

    source = "meminfo"
    held_kib = 0

    def __init__(self) -> None:
        self.extensions: dict[str, int] = {}
        self.ended: set[str] = set()
        self.dying = 0
        self.usage: MemoryUsage | None = None

    def look(self) -> None: ...

    def dying_extensions(self) -> int:
        return self.dying

    def read(self, function_lives: bool = True) -> HeldMemory:
        return HeldMemory(self.usage, 0, {}, function_lives)


class Kills:
    """So many the kernel has killed since it was asked last."""

    seen = 0
    new = 0
    counts = True

    def more(self) -> int | None:
        new, self.new = self.new, 0
        return new if self.counts else None
