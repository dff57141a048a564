"""The line of code that ran when memory ran out: the stack of the thread that allocates, read shortly before the end.

Near its limit the function is looked at ever more often (measure/sampling). Then the process whose memory grows is
known, and its thread that has most page faults: what that one runs is read from outside (python.py, java.py,
node.py). A program in Go is asked (go.py). The latest stacks are kept until the invocation ends, and its line has what
they say if it ran out of memory. A burst that is faster than a look leaves none.
"""

from __future__ import annotations

import posix

from ..linux.procfs import Gone, parse_state
from ..measure.environment_memory import AT_LIMIT
from ..support.files import read, read_private, tmp_of
from ..support.named_tuple import NamedTuple
from ..support.numbers import mib
from ..wings import Wing
from .python import MOST_THREADS, Frame, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ..measure.sampling import CpuBudget
    from ..measure.window import Window
    from ..records.pending_record import PendingRecord
    from ..wings import Site
    from .go import GoStacks
    from .java import JavaStacks
    from .node import NodeStacks
    from .python import PythonStacks

    Stacks = PythonStacks | JavaStacks | NodeStacks

WATCHED_PART = 0.5
"""Share of the limit from which on it is noted which process grows, and by which thread."""
NEAR_PART = 0.85
"""Share of the limit from which on stacks are read in any case."""
SOON_NS = 1_000_000_000
"""From the first share on they are read also where the limit would be reached within this time. Who grows is noted
before, too: a fast one is looked at few times."""
REST_NS = 250_000_000
"""What did not grow for so long, below its limit, is not about to run out: its stack is forgotten."""
TRIES = 3
"""Where only a thread that takes memory just now has a stack, it is looked for so often: who had most page faults since
the last look may wait now, while another one has them."""
RUNNING_STATES = (b"R", b"D")
"""States of a thread that allocates: D where its page fault waits (proc_pid_stat(5))."""
MOST_PAGE_BYTES, STAT_BYTES, STATUS_BYTES = 64 * 1024, 512, 4096
MOST_SHOWN, MOST_SHOWN_CHARS = 8, 120
"""Calls in the line, and characters of each."""
LOOKS_NOTE = "looks"
LATEST_LOOKS = 8
"""Looks that are kept, and considered."""
MANY_FAULTS = 8
"""Page faults in all looks from which on they decide, and not the number of looks."""
NODE = b"truemem-stacks-node"
"""Begin of the page of Node.js's probe."""
LIBRARY_FOLDERS = ("/site-packages/", "/dist-packages/", "/node_modules/")
MOST_RECORD_BYTES, MOST_DISTRIBUTIONS = 1 << 20, 200


class Look(NamedTuple):
    """What the thread that allocates ran at one moment."""

    frames: Sequence[Frame]
    """The innermost first."""
    level_kib: int
    """What the environment held then."""
    faults: int
    """Page faults that the thread had while its stack was read: none where both share one vCPU."""


class Looks(NamedTuple):
    """The latest looks at one thread."""

    pid: int
    thread: int
    """0 for any."""
    root: str
    """Folder of the function's code."""
    is_evident: bool
    """Is one look with page faults enough?"""
    looks: list[Look]
    is_asked: bool = False
    """Must one look at least have been in an allocator (`faults`)?"""


class Activity(NamedTuple):
    """What a thread has done since it began."""

    runs: bool
    """It does now, or waits for a page."""
    faults: int
    """Page faults."""
    sleeps: int
    """How often it has waited for something."""


class RunningLines(Wing):
    """The stacks of one environment."""

    def __init__(self, site: Site) -> None:
        self._table = site.table
        self._root = site.proc.root
        self._tmp = tmp_of(site.environ)
        self._code: OwnCode | None = None
        self._limit_kib = site.config.memory_mib * 1024
        self._levels: Mapping[int, int] = {}
        """RSS of each process at the last look, KiB."""
        self._faults: dict[int, dict[int, int]] = {}
        """Page faults of each thread then, of a process that has several."""
        self._taken = 0
        """Page faults of the one that had most of them since."""
        self._slept = 0, 0, 0
        """Pid, thread and its `sleeps` at the last look."""
        self._grew_ns = 0
        self._looks: Looks | None = None
        self._stacks: dict[int, Stacks | None] = {}
        self._asked: dict[int, GoStacks | None] = {}
        """By pid, both."""

    def sampled(self, levels: Mapping[int, int], level_kib: int, until_ns: float | None, now_ns: int) -> None:
        before, self._levels = self._levels, levels
        is_soon = until_ns is not None and until_ns < SOON_NS
        if level_kib < WATCHED_PART * self._limit_kib:
            self._forget(levels)
            if not is_soon:
                self._faults.clear()
                return
        if len(levels) == 1:
            pid = next(iter(levels))
            grown = levels[pid] - before.get(pid, 0)
        else:  # a new one may be a child that shares all with its parent
            pid = max(levels, key=lambda each: levels[each] - before.get(each, levels[each]), default=0)
            grown = levels.get(pid, 0) - before.get(pid, 0) if pid in before else 0
        if grown <= 0:
            if now_ns - self._grew_ns > REST_NS and level_kib < AT_LIMIT * self._limit_kib:
                self._forget(levels)
            return
        self._grew_ns = now_ns
        is_near = level_kib >= (WATCHED_PART if is_soon else NEAR_PART) * self._limit_kib
        asked = self._asked_of(pid) if is_near else None
        if asked is not None:
            self._ask(pid, level_kib, asked)
            return
        stacks = self._stacks_of(pid) if is_near else None
        for attempt in range(TRIES if stacks is not None and stacks.is_evident else 1):
            thread = self._busiest(pid)
            try:
                if thread is not None and self._look(pid, thread, level_kib, stacks, attempt > 0):
                    return
            except (OSError, ValueError, IndexError, Gone):
                return  # it has ended

    def _look(self, pid: int, thread: int, level_kib: int, stacks: Stacks | None, again: bool) -> bool:
        """Read what the thread runs, and say if that counts. It does if it allocates there: it has page faults
        meanwhile, or has not slept since the last look. One that pauses is mostly seen at its pause. A collector that
        was not the busiest since the last look, but `again` just now, may free garbage: it must take memory."""
        if self._looks is not None and (self._looks.pid != pid or self._looks.thread not in (0, thread)):
            self._looks = None  # another one grows now
        helpers = stacks.threads if stacks is not None else ()
        before, slept = self._activity(pid, thread, helpers), self._slept
        self._slept = pid, thread, before.sleeps
        frames = stacks.frames(f"{self._root}/{pid}/mem", thread) if stacks is not None and before.runs else ()
        if stacks is None or not frames:
            return False
        after = self._activity(pid, thread, helpers)
        faults = after.faults - before.faults
        if stacks.is_collector:
            if again and max(faults, self._taken) < MANY_FAULTS:
                return False
            faults = max(faults, 1)
        slept_not = slept == (pid, thread, after.sleeps)
        counts = after.runs and (faults > 0 or stacks.is_evident or stacks.waits or slept_not)
        if counts:
            new = Looks(pid, 0 if stacks.is_evident else thread, stacks.root, stacks.is_evident, [])
            self._keep(new, Look(frames, level_kib, faults))
        return counts

    def _ask(self, pid: int, level_kib: int, asked: GoStacks) -> None:
        """Note what the process has answered to an earlier look, and ask again."""
        if self._looks is not None and self._looks.pid != pid:
            self._looks = None
        answer = asked.answer()
        if answer is not None:
            new = Looks(pid, 0, asked.root, True, [], True)
            self._keep(new, Look(answer.frames or [Frame("", 0, "")], level_kib, min(answer.allocations, 1)))

    def _keep(self, new: Looks, look: Look) -> None:
        """Add a look to those of this thread, or to `new` ones."""
        self._looks = self._looks or new
        self._looks.looks.append(look)
        del self._looks.looks[:-LATEST_LOOKS]

    def _forget(self, levels: Mapping[int, int]) -> None:
        """It did not run out, unless its process has ended."""
        if self._looks is not None and self._looks.pid in levels:
            self._looks = None

    def window_closed(self, records: Sequence[PendingRecord], window: Window, budget: CpuBudget, dying: bool) -> None:
        if self._looks is not None:
            records[-1].note(LOOKS_NOTE, self._looks)
        self._looks = None
        self._stacks.clear()
        self._asked.clear()

    def members(self, record: PendingRecord) -> Mapping[str, object]:
        looks = record.notes.get(LOOKS_NOTE)
        if not isinstance(looks, Looks) or not (record.death is not None or record.kernel_kills):
            return {}
        if self._code is None or self._code.root != looks.root:
            self._code = OwnCode(looks.root)
        running = self._code.document(looks.looks, looks.is_evident, looks.is_asked)
        return {"outOfMemory": {"running": running}} if running else {}

    def _busiest(self, pid: int) -> int | None:
        """The thread with most page faults since the last look; None where that is not known."""
        folder = f"{self._root}/{pid}/task"
        try:
            threads = posix.listdir(folder)
            if len(threads) == 1:
                return int(threads[0])
            if len(threads) > MOST_THREADS:
                return None
            faults = {int(thread): _faults(read(f"{folder}/{thread}/stat", STAT_BYTES)) for thread in threads}
        except (OSError, ValueError, IndexError):  # one has ended meanwhile
            return None
        before = self._faults.get(pid)
        self._faults[pid] = faults
        if before is None:
            return None
        grown = {thread: faults[thread] - before.get(thread, 0) for thread in faults}
        stacks = self._stacks.get(pid)
        if stacks is not None and pid in stacks.threads:
            grown[pid] = sum([grown.pop(thread) for thread in stacks.threads if thread in grown])
        busiest = max(grown, key=lambda thread: grown[thread])
        self._taken = grown[busiest]
        return busiest if self._taken > 0 else None

    def _activity(self, pid: int, thread: int, helpers: Collection[int]) -> Activity:
        """What the thread has done; `helpers`: those that take memory for it, and itself. Raises OSError, Gone,
        ValueError, IndexError."""
        folder = f"{self._root}/{pid}/task"
        done = _activity(f"{folder}/{thread}")
        if thread not in helpers:
            return done
        stats = [read(f"{folder}/{helper}/stat", STAT_BYTES) for helper in helpers if helper != thread]
        return Activity(done.runs, done.faults + sum([_faults(stat) for stat in stats]), done.sleeps)

    def _stacks_of(self, pid: int) -> Stacks | None:
        """Where the process has its stacks: it or, as it may come of fork(), its nearest ancestor says so."""
        if pid not in self._stacks:
            parents = {process.pid: process.parent for process in self._table.function()}
            said, page = pid, None
            while page is None and said in parents:
                page = read_private(f"{self._tmp}/.truemem-heap-{said}", MOST_PAGE_BYTES)
                said = parents[said]
            self._stacks[pid] = _told(page or b"") or _outside(f"{self._root}/{pid}")
        return self._stacks[pid]

    def _asked_of(self, pid: int) -> GoStacks | None:
        """Whom to ask for its stack: a program in Go."""
        if pid not in self._asked:
            from .go import stacks_of  # here: most functions never come so near

            self._asked[pid] = stacks_of(self._tmp, pid)
        return self._asked[pid]


class OwnCode:
    """The function's own code: below its folder, but for libraries that are installed there."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._folder = root + "/"
        self._installed: dict[str, bool] = {}

    def document(self, looks: Sequence[Look], is_evident: bool = False, is_asked: bool = False) -> dict[str, object]:
        """Members of the line: the innermost line of the function's own code, and the calls, the outermost first. Where
        the function alone is certain there is no line, and nothing where that is not certain either."""
        places = [self._place(look.frames) for look in looks]
        most = _most(places, looks, is_evident, is_asked)
        if most is None and not all(place.line for place in places):  # some are known by their function alone
            places = [Frame(place.file, 0, place.function) for place in places]
            most = _most(places, looks, is_evident, is_asked)
        if most is None or not most.file:
            return {}
        look = looks[len(places) - 1 - places[::-1].index(most)]
        calls = look.frames[: self._began(look.frames)][:MOST_SHOWN]
        named: dict[str, object] = {}
        if self._is_own(most.file):
            line = {"line": most.line} if most.line else {}
            named = {"file": self._short(most.file), **line, "function": most.function}
        shown = [self._shown(each) for each in calls if each.file]
        return {**named, "level": mib(look.level_kib), "stack": shown[::-1]}

    def _place(self, frames: Sequence[Frame]) -> Frame:
        """The innermost line of the function's own code, or a place that is not known; without one, of all."""
        return next((frame for frame in frames if not frame.file or self._is_own(frame.file)), frames[0])

    def _began(self, frames: Sequence[Frame]) -> int:
        """How many frames there are down to the outermost one of the function's own code; all without one."""
        own = [at for at, frame in enumerate(frames, 1) if self._is_own(frame.file)]
        return own[-1] if own else len(frames)

    def _short(self, file: str) -> str:
        return file.removeprefix(self._folder)

    def _shown(self, frame: Frame) -> str:
        place = f"{self._short(frame.file)}:{frame.line}" if frame.line else self._short(frame.file)
        return f"{place} {frame.function}"[-MOST_SHOWN_CHARS:]

    def _is_own(self, file: str) -> bool:
        if not file.startswith(self._folder) or any(folder in file for folder in LIBRARY_FOLDERS):
            return False
        top = file[len(self._folder) :].partition("/")[0]
        if top not in self._installed:
            self._installed[top] = self._is_installed(top.encode("utf-8", "surrogateescape"))
        return not self._installed[top]

    def _is_installed(self, top: bytes) -> bool:
        """Does a distribution have this file, or a folder of that name? Its RECORD lists them."""
        try:
            names = [name for name in posix.listdir(self._folder) if name.endswith(".dist-info")]
        except OSError:
            return False
        for name in names[:MOST_DISTRIBUTIONS]:
            try:
                record = b"\n" + read(f"{self._folder}{name}/RECORD", MOST_RECORD_BYTES)
            except OSError:
                continue
            if b"\n" + top + b"/" in record or b"\n" + top + b"," in record:
                return True
        return False


def _told(page: bytes) -> Stacks | None:
    """What a probe says of its process's stacks."""
    if not page.startswith(NODE):
        return parse(page)
    from .node import parse as parse_node  # here: most functions never come so near

    return parse_node(page)


def _most(places: Sequence[Frame], looks: Sequence[Look], is_evident: bool, is_asked: bool) -> Frame | None:
    """The place of most looks. None where that is not certain: two (one with page faults that `is_evident`) must have
    seen it, which had most of the page faults or, where there were few, were most of the looks."""
    faults: dict[Frame, int] = {}
    for place, look in zip(places, looks, strict=True):
        faults[place] = faults.get(place, 0) + look.faults
    most = max(reversed(places), key=lambda place: (faults[place], places.count(place)))
    count, total = places.count(most), sum(faults.values())
    share = faults[most] / total if total >= MANY_FAULTS else count / len(places)
    if is_asked and not faults[most]:
        return None
    return most if count >= 2 - (is_evident and faults[most] > 0) and share > 0.5 else None


def _faults(stat: bytes) -> int:
    """Page faults of a thread: minflt, majflt (proc_pid_stat(5)). Raises ValueError, IndexError."""
    fields = stat.rpartition(b")")[2].split()
    return int(fields[7]) + int(fields[9])


def _activity(folder: str) -> Activity:
    """What the thread with this folder in /proc has done. Raises OSError, Gone, ValueError, IndexError."""
    stat = read(f"{folder}/stat", STAT_BYTES)
    sleeps = read(f"{folder}/status", STATUS_BYTES).partition(b"\nvoluntary_ctxt_switches:")[2].split(None, 1)[0]
    return Activity(parse_state(stat) in RUNNING_STATES, _faults(stat), int(sleeps))


def _outside(folder: str) -> Stacks | None:
    """The stacks of the process with this folder in /proc, which says nothing of them: a row for each runtime."""
    from .java import stacks_of as java  # here: most functions never come so near

    return java(folder)


def door(site: Site) -> Wing | None:
    """The wing, where the memory size is known. Not on Managed Instances: several requests run in a process at once."""
    return RunningLines(site) if site.config.memory_mib and not site.managed else None
