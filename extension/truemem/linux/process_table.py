"""Who is who in the environment: the function's processes, this sidecar, and each other extension.

By the first of these that tells:
1. The platform's own processes (pid 1, what has started us, and all above it) are none of them, and never touched.
2. What a process of the function, or of an extension, has started belongs to it.
3. An extension runs a program or a script of the extensions folder. What has the same parent and API as we have and was
   there before we registered is one as well, wherever its program lies: the runtime is started later than that.
4. The runtime is what the wrapper names, and what is connected to our proxy.
5. The runtime has the same API address, and _HANDLER, which Lambda gives to no extension. LAMBDA_TASK_ROOT says
   nothing: base images set it for all.
6. Where none of these is found: what has the same parent as we have, or AWS_EXECUTION_ENV, and the same API: a guess.
7. At last, a runtime with another API address, if it is an extension's proxy that answers there.
Never by name.
"""

from __future__ import annotations

import posix
import time

from .process_evidence import ProcessEvidence, port_of
from .procfs import ZOMBIE, Gone, ProcessFiles, Procfs, Stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from typing import Final

    from .oom_score import OomScore

FUNCTION: Final = "function"
SIDECAR: Final = "truemem"
EXTENSION: Final = "extension:"
OTHER: Final = ""
GUESS: Final = "function?"
OTHER_API: Final = "function, of another API address"

KEPT_PROCESSES: Final = 64
"""Processes whose descriptors stay open: 4 each, of the 1,024 that an environment has."""
MOST_PROCESSES = 1024
"""What Lambda allows in one environment (developer guide, "Lambda quotas"): more are not looked at."""
YOUNG_SECONDS: Final = 2
"""A process may exec: one that is unrelated is looked at again while it is younger than this."""
AGAIN_SECONDS: Final = 0.01
"""Young processes are not looked at again more often than this. (The function's own children are known by descent, at
once.)"""
NO_LIMIT_NS: Final = 1 << 62
MOST_NEW_PIDS: Final = 64
"""Most new pids that are looked at one by one, without listing /proc: a function starts a process, a machine is
busy."""

_CLOCK_BOOTTIME: Final = 7
_TICKS = posix.sysconf("SC_CLK_TCK")


class Process:
    """One process of the environment."""

    def __init__(self, pid: int, start_time: int, parent: int, owner: str, files: ProcessFiles) -> None:
        """`owner`: FUNCTION, SIDECAR, or EXTENSION and the base name of the extension's file."""
        self.pid = pid
        self.start_time = start_time
        self.parent = parent
        self.owner = owner
        self.files = files

    @property
    def identity(self) -> tuple[int, int]:
        """pid and start time."""
        return self.pid, self.start_time


class ProcessTable:
    """The processes of one environment, kept up to date by `scan`."""

    def __init__(
        self,
        proc: Procfs,
        api_address: str,
        extensions_folder: str = "/opt/extensions",
        oom_score: OomScore | None = None,
        last_pid: int = 0,
        own_pid: int = 0,
        most: int = MOST_PROCESSES,
    ) -> None:
        """`api_address` is our AWS_LAMBDA_RUNTIME_API: the function's processes have the same. `last_pid` is the pid
        given out last before we asked to be registered: the runtime's comes after it. 0: not known."""
        self._proc = proc
        self._oom_score = oom_score
        self.api_address = api_address
        self.proxy_address = ""
        """Where our own proxy listens, if it does: the function's processes may have this address as well."""
        self._evidence = ProcessEvidence(proc, extensions_folder)
        self._self = own_pid or posix.getpid()
        self._before = last_pid
        self._known: dict[int, Process] = {}
        self._most = most
        self._guesses: set[int] = set()
        """Pids of those that are the function's only as long as no better one is found."""
        self._new = NewPids(proc, lambda: len(self._known) >= most)
        self._other_api: dict[int, tuple[Stat, str, bool]] = {}
        """Runtimes, perhaps, that talk to another address, behind a proxy or in another environment of this machine:
        stat, address, and whether it has a runtime's variables."""
        self._orphans: dict[int, int] = {}
        """Page faults of each orphan that had ended when it was found, and was not waited for yet, by its pid."""
        self._settled = False
        self.errors = 0
        """Times that /proc, or the files of a process that lives, could not be read."""
        self._starter, self._platform = self._evidence.above(self._self)
        self._reapers = {pid: proc.process(pid) for pid in self._platform}
        """Processes above the function that live: one waits for orphans. Their files are read at each window."""

    def function(self) -> list[Process]:
        """The function's processes: the runtime first, for it is the one that races us."""
        return [process for process in self._known.values() if process.owner == FUNCTION]

    def others(self) -> list[Process]:
        return [process for process in self._known.values() if process.owner != FUNCTION]

    def oom_score_refused(self) -> str:
        """Why oom_score_adj cannot be raised here, or ""."""
        return self._oom_score.refused if self._oom_score is not None else ""

    @property
    def last_pid(self) -> int:
        """The pid given out last, as of the last scan; below 0 where that is not known."""
        return self._new.last

    def looked_for(self) -> str:
        """What a process of the function is known by, and what was seen instead: for the log, which gets no address."""
        started = f", or is started by pid {self._starter} after us" if self._starter else ""
        extensions = sum(process.owner.startswith(EXTENSION) for process in self._known.values())
        return (
            "it is what the wrapper /opt/truemem/exact names, or has our AWS_LAMBDA_RUNTIME_API with _HANDLER or "
            f"AWS_EXECUTION_ENV{started}; seen instead: {extensions} of extensions, {len(self._other_api)} with "
            f"another AWS_LAMBDA_RUNTIME_API, {len(self._new.unrelated | self._new.young)} others, "
            f"{self.errors} unreadable"
        )

    @property
    def unfinished(self) -> bool:
        return bool(self._new.waiting)

    def zombies(self, again: bool = True) -> int:
        """Processes of the function that have ended, and that nothing has waited for: each keeps its pid, and counts
        against the limit of processes. `again`: look whether they are still there, with a call for each."""
        zombies = self._new.zombies
        if again:
            zombies -= {pid for pid in zombies if not self._proc.exists(pid)}
        return len(zombies)

    def adopted_faults(self) -> int | None:
        """Page faults of all children that the processes above the function have waited for, orphans among them
        (credentials(7), "init"); None where one of them cannot be read."""
        faults = 0
        if self._orphans:
            self._orphans = {pid: faults for pid, faults in self._orphans.items() if self._proc.exists(pid)}
            faults = sum(self._orphans.values())
        for pid, files in self._reapers.items():
            try:
                faults += files.stat().child_faults
            except Gone:
                del self._reapers[pid]  # what it had waited for is not known any more: the rest is, the next time
                files.close()
                return None
        return faults

    def forget(self, process: Process, zombie: bool = False) -> bool:
        """The process has ended; False where that was known. `zombie`: nothing has waited for it yet, so that it is
        still there, and not to be found anew."""
        if zombie:
            self._new.unrelated.add(process.pid)
        # One that is still about to end will be a zombie.
        if (
            process.owner == FUNCTION
            and len(self._new.zombies) < MOST_PROCESSES
            and (zombie or self._proc.exists(process.pid))
        ):
            self._new.zombies.add(process.pid)
        return self._drop(process)

    def _drop(self, process: Process) -> bool:
        process.files.close()
        self._guesses.discard(process.pid)
        if self._new.runtime == process.pid:
            self._new.runtime = 0
        return self._known.pop(process.pid, None) is not None

    def changed(self) -> bool:
        """Is there anything new since the last scan? One read of /proc/loadavg."""
        return self._new.changed()

    def scan(self, most_ns: int = NO_LIMIT_NS) -> None:
        """Find new processes and say whose they are. In so much CPU time at most, and one process more: the others are
        left for the next scan."""
        try:
            found, is_all = self._new.find()
        except OSError:  # /proc cannot be listed
            self.errors += 1
            return
        if is_all:
            self._other_api = {pid: facts for pid, facts in self._other_api.items() if pid in found}
            self._orphans = {pid: faults for pid, faults in self._orphans.items() if pid in found}
        if len(self._known) >= self._most:  # what has ended makes room
            for process in self.others():
                if not self._proc.exists(process.pid):
                    self._drop(process)
        for pid in self._new.unknown(found, self._platform | self._known.keys() | self._other_api.keys(), most_ns):
            try:
                self._classify(pid)
            except Gone as gone:
                self.errors += gone.errno != 0

    def adopt_runtime(self, pid: int) -> bool:
        """The wrapper has named its process, or that process is connected to our proxy: it is the runtime. False where
        it cannot be: an extension, the platform's, or gone by now."""
        self.scan()  # the shell of an entrypoint, above it
        process = self._known.get(pid)
        if process is None:
            if pid in self._platform or pid <= 0:
                return False
            try:
                stat = self._evidence.stat(pid)
            except Gone:
                return False
            process = self._add(pid, stat, FUNCTION)
        if process.owner != FUNCTION:
            return False
        self._confirm(process)
        return True

    def adopt_client(self, client_port: int, server_port: int) -> bool:
        """The process that has opened this connection to our proxy is the runtime (see adopt_runtime), unless it is an
        extension's proxy. Takes milliseconds."""
        return self.adopt_runtime(self._evidence.holder_of(client_port, server_port, self._known))

    def is_settled(self) -> bool:
        """Is it known who is the function? Then it stays so: when its processes have ended, no other one takes their
        place, an extension that still lives at SHUTDOWN, say."""
        return self._settled

    def adopt_elsewhere(self) -> bool:
        """An event has come, so there is a runtime. If it is not settled which, look at everything once more, and take
        those that talk to another address, if it is an extension of ours that answers there, or none that we can see
        (those of another cgroup are another environment's); else the guess. True if that is any."""
        if self.is_settled():
            return False
        self._new.restart()
        self.scan()
        group = self._evidence.cgroups(self._self)
        for pid, (stat, address, is_hinted) in sorted(self._other_api.items(), key=lambda item: not item[1][2]):
            wanted = is_hinted or not self.function()
            if wanted and self._evidence.cgroups(pid) == group and self._is_proxy(address, is_hinted):
                self._confirm(self._add(pid, stat, FUNCTION))
        for process in self.function():
            self._accept(process)
        return bool(self.function())

    def _classify(self, pid: int) -> None:
        stat = self._evidence.stat(pid)
        if not stat.has_memory and (stat.parent in self._platform or self._is_ending(stat.parent)):
            self._orphans[pid] = stat.faults + stat.child_faults
            self._new.unrelated.add(pid)
            return
        owner = self._owner(pid, stat)
        if owner == GUESS and not self._settled:
            self._guesses.add(self._add(pid, stat, FUNCTION).pid)
        elif owner not in (OTHER, GUESS, OTHER_API):
            process = self._add(pid, stat, owner)
            if owner == FUNCTION:
                self._confirm(process)
        elif owner != OTHER_API and time.clock_gettime(_CLOCK_BOOTTIME) - stat.start_time / _TICKS > YOUNG_SECONDS:
            self._new.unrelated.add(pid)
        elif owner != OTHER_API:
            self._new.young.add(pid)

    def _is_ending(self, pid: int) -> bool:
        """Has the process no memory any more? Then its children are about to be orphans."""
        if pid in self._known:
            return False
        try:
            return not self._evidence.stat(pid).has_memory
        except Gone:
            return True

    def _owner(self, pid: int, stat: Stat) -> str:
        if pid == self._self:
            return SIDECAR
        by_descent = self._known.get(stat.parent)
        if by_descent is not None and by_descent.owner != SIDECAR:
            return GUESS if by_descent.pid in self._guesses else by_descent.owner
        # Where its main thread has ended another one still has its memory, and so its variables.
        thread = self._evidence.thread(pid) if stat.state == ZOMBIE else pid
        name = self._evidence.extension(thread)
        if name:
            return EXTENSION + name
        try:
            address, has_handler, is_hinted = self._evidence.variables(thread)
        except Gone:
            return OTHER
        is_sibling = stat.parent == self._starter > 0
        if is_sibling and pid <= self._before:
            return EXTENSION + stat.name if address == self.api_address else OTHER
        if address in (self.api_address, self.proxy_address) and address:
            return FUNCTION if has_handler else GUESS if is_sibling or is_hinted else OTHER
        if address and (is_hinted or is_sibling):
            self._other_api[pid] = stat, address, is_hinted
            return OTHER_API
        is_connected = is_sibling and not address and self._evidence.is_connected(pid, self.api_address)
        return GUESS if is_connected else OTHER

    def _is_proxy(self, address: str, is_hinted: bool) -> bool:
        """Does an extension of this environment answer at `address`? Where that cannot be seen, a runtime's
        variables must do."""
        server = self._evidence.holder_of(port_of(address), 0, self._known)
        return server in self._known if server else is_hinted

    def _root(self, process: Process) -> Process:
        """The topmost process of the function that it descends from."""
        while True:
            above = self._known.get(process.parent)
            if above is None or above.owner != FUNCTION or above.start_time > process.start_time or above is process:
                return process  # (a parent that is younger has the pid of one that has ended)
            process = above

    def _confirm(self, process: Process) -> None:
        """The process is the function's for certain, and all of its tree: other guesses were wrong."""
        root = self._root(process)
        guesses = [(guess, self._root(guess)) for guess in self.function() if guess.pid in self._guesses]
        for guess, its_root in guesses:
            if its_root is root:
                self._accept(guess)
            else:
                self._drop(guess)
                self._new.unrelated.add(guess.pid)
        self._accept(process)

    def _accept(self, process: Process) -> None:
        """The process is the function's: if memory runs out, it is to end before an extension."""
        self._guesses.discard(process.pid)
        self._settled = True
        self._new.runtime = self._new.runtime or process.pid
        parent = self._known.get(process.parent)
        # What is a child of one of them has inherited it.
        if self._oom_score is not None and (parent is None or parent.owner != FUNCTION):
            self._oom_score.raise_for(process.pid)

    def _add(self, pid: int, stat: Stat, owner: str) -> Process:
        files = self._proc.process(pid, keep=len(self._known) < KEPT_PROCESSES)
        self._known[pid] = process = Process(pid, stat.start_time, stat.parent, owner, files)
        self._new.forget(pid)
        self._other_api.pop(pid, None)
        return process


class NewPids:
    """Which pids are to be looked at: all of /proc at first, then those given out since, and young ones again."""

    def __init__(self, proc: Procfs, is_full: Callable[[], bool]) -> None:
        """`is_full`: are so many processes known that no more are looked at?"""
        self._proc = proc
        self._is_full = is_full
        self.unrelated: set[int] = set()
        """A developer's other programs, and what has ended since all were listed."""
        self._most = MOST_PROCESSES
        """Number of unrelated pids from which on all pids are listed again."""
        self.zombies: set[int] = set()
        """Processes of the function that had ended when they were last seen, and were not waited for."""
        self.young: set[int] = set()
        """Unrelated as of now, but young enough to exec into one of ours."""
        self.waiting: set[int] = set()
        """New processes that there was no time to look at."""
        self.last = -2
        """The pid given out last, as of the last time; below 0 where that is not known."""
        self._found_at = 0.0
        self.runtime = 0
        """A process of the function, whose threads new pids are most likely; 0: not known."""

    def restart(self) -> None:
        self.unrelated.clear()
        self.last = -2

    def forget(self, pid: int) -> None:
        self.unrelated.discard(pid)
        self.young.discard(pid)

    def changed(self) -> bool:
        """Is there anything new? One read of /proc/loadavg."""
        last = self._proc.last_pid()
        if last < 0 or last != self.last or (self.waiting and not self._is_full()):
            return True
        return bool(self.young) and time.monotonic() - self._found_at > AGAIN_SECONDS

    def find(self) -> tuple[set[int], bool]:
        """Pids that may be new, and whether these are all there are. Raises OSError if /proc cannot be listed."""
        before, last = self.last, self._proc.last_pid()
        self._found_at = time.monotonic()
        if before > 0 and 0 < last - before <= MOST_NEW_PIDS and len(self.unrelated) < self._most:
            # Pids are given out in order: these are all that can be new, and threads.
            self.last = last
            made = range(before + 1, last + 1)
            self.unrelated.difference_update(made)  # each has been another process's pid before
            self.zombies.difference_update(made)
            new = set(self.waiting)
            for pid in made:
                if not (self.runtime and self._proc.has_thread(self.runtime, pid)) and self._proc.leads(pid):
                    new.add(pid)
            return new, False
        self.last = -2  # if /proc cannot be listed, what was there before stays unseen: the next time lists it as well
        present = set(self._proc.pids())
        self.last = last
        # A pid that is gone from one scan to the next may come back as another process's.
        self.unrelated &= present
        self.zombies &= present
        self._most = len(self.unrelated) + MOST_PROCESSES
        return present, True

    def unknown(self, found: set[int], known: Collection[int], most_ns: int) -> Iterator[int]:
        """Pids to be looked at now, new ones first: for so much CPU time at most, and one more. The others wait."""
        until_ns = time.process_time_ns() + most_ns
        young = self.young
        self.waiting = found.difference(young, self.unrelated, known)
        self.young = young.difference(self.unrelated, known)
        for pid in [*sorted(self.waiting), *sorted(self.young)]:
            if self._is_full():
                self.young.clear()
                return
            self.waiting.discard(pid)
            self.young.discard(pid)
            yield pid
            if time.process_time_ns() > until_ns:
                return
