"""What init has loaded, from the log that the function's process has written. Pure.

A line has five members, with tabs between: what it is, ns, RSS and its high-water mark in KiB, a text.

    S E F L  init begins, has ended; so does, and has, the first invocation
    ( )      a module is loaded, with its name; it is, with its file
    l        an ES module is read, until the next line
    i @      a statement of the user's begins, with its place: one that imports, another
    < =      a module imports another, as it runs, or by what its file says; without time and memory, as all below
    s r      settled: RSS and its anonymous part; the RSS to go on from
    h        all RSS, where the others leave out what V8's heap holds free
    o        what the tracer itself took
    !        a sentence on what is missing
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

MODULE, IMPORTING, STATEMENT, INVOCATION = "module", "importing", "statement", "invocation"


@dataclass(eq=False)
class Part:
    """A module, a statement or the first invocation, with what it loaded."""

    kind: str
    name: str = ""
    """A module's name; a statement's place, FILE:LINE."""
    file: str = ""
    kib: float = 0.0
    """What it added itself to the settled RSS."""
    ms: float = 0.0
    parts: list[Part] = field(default_factory=list)
    is_read: bool = False
    """It is read here, and evaluated elsewhere."""

    def all(self) -> Iterator[Part]:
        yield self
        for each in self.parts:
            yield from each.all()


@dataclass
class Log:
    """One run's init. KiB are 0 in a run that only took the time."""

    root: Part = field(default_factory=lambda: Part(MODULE))
    """What was loaded in init, and what belongs to no import."""
    first: Part = field(default_factory=lambda: Part(INVOCATION))
    """The first invocation."""
    edges: dict[tuple[str, str], None] = field(default_factory=dict)
    """Which module imports which, loaded before or not, in their order."""
    before_kib: float = 0.0
    """What the process held when the user's code began, without what the tracer took."""
    held_kib: float = 0.0
    """What the process held when init was over."""
    anonymous_kib: float = 0.0
    """That of it that is mapped from no file."""
    peak_kib: float = 0.0
    """Most that it had in RSS until then."""
    peak_at: Part | None = None
    """What ran when it had that."""
    missing: list[str] = field(default_factory=list)
    is_whole: bool = False
    """Init has ended."""


def read_log(text: str) -> Log:
    """Read a log, up to where it was cut off. Raises ValueError for what is none."""
    return _Reader().read(text)


class _Reader:
    def __init__(self) -> None:
        self.log = Log()
        self.stack = [self.log.root]
        self.last_ns = 0
        self.last_rss: float | None = None
        self.settled: float | None = None
        self.pending: dict[Part, float] = {}
        """What RSS has risen by in each part since the process was settled last."""
        self.last = self.log.root
        self.own_kib = 0.0
        self.anonymous = self.whole = 0.0

    def read(self, text: str) -> Log:
        for line in text.splitlines():
            kind, ns, rss, peak, said = line.split("\t", 4)
            if kind in ("<", "="):
                by, _, name = said.partition("\t")
                self.log.edges[self._needing(by) if kind == "<" else by, name] = None
            elif kind == "s":
                self._settle(float(rss))
                self.whole = float(rss)
                self.anonymous = float(peak)
            elif kind == "r":
                self.last_rss = float(rss)
            elif kind == "h":
                self.whole = float(rss)
            elif kind == "!":
                self.log.missing.append(said)
            elif kind == "o":
                self.own_kib = float(rss)
            else:
                self._place(kind, int(ns), float(rss), float(peak), said)
        if self.log.is_whole and self.settled is not None and not self.log.first.name:
            self._init_held()
        return self.log

    def _needing(self, by: str) -> str:
        """Who needs what this module imports: itself while it is loaded; later, in a function of it, the library that
        is loaded meanwhile."""
        loading = [each.name for each in self.stack if each.kind == MODULE and each.name]
        is_users = self.stack[-1].kind in (IMPORTING, STATEMENT)
        return by if is_users or by in loading or not loading else loading[-1]

    def _init_held(self) -> None:
        self.log.held_kib = self.whole - self.own_kib
        self.log.anonymous_kib = self.anonymous

    def _settle(self, held: float) -> None:
        """Share out what it really holds more than at the last reading: garbage falls to those whose RSS rose."""
        if self.settled is not None:
            more = held - self.settled
            rose = sum(each for each in self.pending.values() if each > 0)
            off = more - sum(self.pending.values())
            for part, raw in self.pending.items():
                part.kib += raw + (off * raw / rose if raw > 0 else 0.0)
            if rose <= 0:
                self.last.kib += off
        self.pending.clear()
        self.settled = held

    def _place(self, kind: str, ns: int, rss: float, peak: float, said: str) -> None:
        log, top = self.log, self.stack[-1]
        if kind == "S":
            log.before_kib = (self.settled or 0.0) - self.own_kib
        elif kind == "F":
            self._init_held()
            log.first.name = INVOCATION
            self.stack = [log.first]
            top = log.first
        else:
            top.ms += (ns - self.last_ns) / 1e6
        if rss and self.last_rss is not None:
            self.pending[top] = self.pending.get(top, 0.0) + rss - self.last_rss
        if peak > log.peak_kib and not log.is_whole:
            log.peak_kib, log.peak_at = peak, top
        self.last_ns, self.last_rss, self.last = ns, rss, top
        if top.is_read:
            self.stack.pop()
        if kind == "l":
            self._begin(Part(MODULE, said, said, is_read=True))
        elif kind == "(":
            self._begin(Part(MODULE, said))
        elif kind in ("i", "@"):
            if top.kind in (IMPORTING, STATEMENT):
                self.stack.pop()
            self._begin(Part(IMPORTING if kind == "i" else STATEMENT, said, said.rpartition(":")[0]))
        elif kind == ")":
            while len(self.stack) > 1 and self.stack[-1].kind != MODULE:
                self.stack.pop()
            self.stack[-1].file = said
            if len(self.stack) > 1:
                self.stack.pop()
        elif kind == "E":
            log.is_whole = True
            log.peak_kib -= self.own_kib
        elif kind not in ("S", "F", "L"):
            raise ValueError(f"no log of an init: {kind!r}")

    def _begin(self, part: Part) -> None:
        self.stack[-1].parts.append(part)
        self.stack.append(part)
