"""What the recorder reads, simulated: the table of the function's processes, and their files as the kernel prints."""

from __future__ import annotations

from truemem.linux.proc_text import PAGE_KIB
from truemem.linux.process_table import Process
from truemem.linux.procfs import ProcessFiles

STATUS = b"x\nVmHWM: %d kB\nVmRSS: %d kB\nRssAnon: %d kB\nRssFile: 0 kB\nRssShmem: 0 kB\nThreads: 1\n"


def files_text(name: str, rss: int, hwm: int, faults: int = 500) -> bytes:
    """What stands in /proc/PID/`name`; sizes in KiB."""
    if name == "stat":
        return b"1 (f) S 1 0 0 0 0 0 %d 0 0 0 0 0 0 0 0 0 1 0 1 9000 %d" % (faults, rss // PAGE_KIB)
    return b"0 %d 0 0" % (rss // PAGE_KIB) if name == "statm" else STATUS % (hwm, rss, rss)


class OneThread(ProcessFiles):
    """Files of a process of which no other thread ever runs."""

    def others_ns(self) -> int:
        return 0


class FunctionTable:
    """Those processes, all of the function, and never a new one."""

    unfinished = False
    errors = 0

    def __init__(self, *processes: Process) -> None:
        self.processes = list(processes)

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
        return False

    def adopted_faults(self) -> int:
        return 0

    def is_settled(self) -> bool:
        return True

    def scan(self, most_ns: int = 0) -> None: ...

    def oom_score_refused(self) -> str:
        return ""
