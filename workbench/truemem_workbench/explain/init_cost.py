"""What init holds and costs, by import and by statement: from the logs of its runs to rows and words. Pure, but for the
source lines that it quotes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..support.document import known_members
from ..support.terminal import mib, some
from .explanation import place, source
from .init_log import IMPORTING, INVOCATION, MODULE, STATEMENT, Log, Part

MOST_ROWS = 15
WORTH = 0.02
"""A row has at least this share of init's memory, or of its time."""
IN_ANSWER = 3
"""Rows that the answer's sentence names."""
LIMIT_MS = 10_000
"""An init that takes longer begins again with the first invocation
(docs.aws.amazon.com/lambda/latest/dg/lambda-runtime-environment.html#runtimes-lifecycle-ib)."""
BEFORE = "before your code: the runtime and AWS's client"
NONE = "in none of these; in Node.js what V8's heap holds free"
PACKAGE, FILE = "package", "file"


@dataclass(eq=False)
class Row:
    """A package, a file or a statement of the user's, with what it loaded first."""

    kind: str
    name: str
    at: str = ""
    """The user's line that loads it, or that it is: FILE:LINE."""
    own_kib: float = 0.0
    own_ms: float = 0.0
    rows: dict[str, Row] = field(default_factory=dict)
    saves_kib: float | None = None
    """What init would hold less without the user's own imports of it. None: the user's code does not import it."""
    also: Sequence[str] = ()
    """Packages that import it too."""

    @property
    def kib(self) -> float:
        return self.own_kib + sum(each.kib for each in self.rows.values())

    @property
    def ms(self) -> float:
        return self.own_ms + sum(each.ms for each in self.rows.values())

    def below(self, kind: str, name: str, at: str) -> Row:
        """The row below this one that is of this kind and name."""
        return self.rows.setdefault(f"{kind} {name}", Row(kind, name, at))

    @property
    def label(self) -> str:
        if self.kind == STATEMENT:
            return f"{place(_frame(self.name))}  {source(_frame(self.name))}"
        return f"{place((self.name, 0))}, the rest of it" if self.kind == FILE and self.name != "init" else self.name


def _frame(at: str) -> tuple[str, int]:
    file, _, line = at.rpartition(":")
    return file, int(line or 0)


def _rows(log: Log, package: Callable[[Part], str], is_users: Callable[[str], bool]) -> tuple[Row, Row]:
    """Init and the first invocation, each with a row for what the user's code names: a package that it imports, a
    statement, the rest of a file. Such a row has one for each package that it loads in turn."""
    roots = Row(FILE, "init"), Row(INVOCATION, "first invocation")

    def add(part: Part, row: Row, top: Row | None, at: str) -> None:
        row.own_kib += part.kib
        row.own_ms += part.ms
        for each in part.parts:
            name = package(each)
            if each.kind == IMPORTING:
                add(each, row, top, each.name)
            elif each.kind == STATEMENT:
                new = root.below(STATEMENT, each.name, each.name)
                add(each, new, new, "")
            elif each.file and is_users(each.file):
                add(each, root.below(FILE, each.file, at), None, "")
            elif top is None:
                new = root.below(PACKAGE, name, at)
                add(each, new, new, "")
            elif (top.kind, top.name) == (PACKAGE, name):
                add(each, top, top, "")
            else:
                add(each, top.below(PACKAGE, name, ""), top, "")

    for part, root in zip((log.root, log.first), roots, strict=True):
        add(part, root, None, "")
    return roots


def python_packages(log: Log) -> Callable[[Part], str]:
    """The package of a module: the first part of its name, or what is below a namespace package."""
    names = {each.name for each in _modules(log)}
    spaces = {
        each.name for each in _modules(log) if not each.file and any(name.startswith(f"{each.name}.") for name in names)
    }

    def package(part: Part) -> str:
        name, _, rest = part.name.partition(".")
        while name in spaces and rest:
            more, _, rest = rest.partition(".")
            name = f"{name}.{more}"
        return name

    return package


def _modules(log: Log) -> Iterator[Part]:
    return (each for root in (log.root, log.first) for each in root.all() if each.kind == MODULE and each.name)


def node_packages(_: Log) -> Callable[[Part], str]:
    """The package of a file in Node.js: the folder below the innermost `node_modules`; else the module's own name."""

    def package(part: Part) -> str:
        _, found, below = part.name.rpartition("/node_modules/")
        return "/".join(below.split("/")[: 2 if below.startswith("@") else 1]) if found else part.name

    return package


def nested(log: Log) -> Log:
    """The same log, with each ES module below the first that imports it: they are evaluated one after the other."""
    importers: dict[str, str] = {}
    for by, name in log.edges:
        importers.setdefault(name, by)
    for root in log.root.parts:
        flat = [each for each in root.parts if each.kind == MODULE]
        by_name = {each.name: each for each in flat}
        for part in flat:
            importer = by_name.get(importers.get(part.name, ""))
            if importer is not None and importer.name != part.name:
                root.parts.remove(part)
                importer.parts.append(part)
    return log


class Needs:
    """Which modules need which, for what init holds without one of them."""

    def __init__(self, log: Log, package: Callable[[Part], str], is_users: Callable[[str], bool]) -> None:
        modules = [each for each in log.root.all() if each.kind == MODULE and each.name]
        self.kib: defaultdict[str, float] = defaultdict(float)
        self.packages: dict[str, str] = {}
        self.users: set[str] = set()
        for each in modules:
            self.kib[each.name] += each.kib
            self.packages[each.name] = package(each)
            if each.file and is_users(each.file):
                self.users.add(each.name)
                # what its statements hold is its own
                self.kib[each.name] += sum(part.kib for part in each.parts if part.kind != MODULE)
        self.edges: defaultdict[str, set[str]] = defaultdict(set)
        for by, name in log.edges:
            self._edge(by, name)
        for each in modules:
            for part in each.parts:
                for inner in part.parts if part.kind != MODULE else [part]:
                    self._edge(each.name, inner.name)
        self.roots = [each.name for each in log.root.parts if each.kind == MODULE]

    def _edge(self, by: str, name: str) -> None:
        if by in self.packages and name in self.packages and by != name:
            self.edges[by].add(name)
            parent = name.rpartition(".")[0]
            if parent:
                self._edge(name, parent)

    def saves(self, package: str) -> float:
        """KiB that nothing needs any more if the user's own code does not import this package."""
        seen, ahead = set(self.roots), list(self.roots)
        while ahead:
            by = ahead.pop()
            cut = by in self.users
            for name in self.edges[by] - seen:
                if not (cut and self.packages[name] == package and name not in self.users):
                    seen.add(name)
                    ahead.append(name)
        return sum(kib for name, kib in self.kib.items() if name not in seen)

    def importers(self, package: str) -> list[str]:
        """The other packages that import it, the user's code left out."""
        found = {
            self.packages[by]
            for by, names in self.edges.items()
            if by not in self.users and any(self.packages[name] == package for name in names)
        }
        return sorted(found - {package})


@dataclass(frozen=True, kw_only=True)
class InitCost:
    """What init holds, and what it takes."""

    root: Row
    """All of init: its memory and its time are the whole."""
    first: Row | None
    """What the first invocation adds to it. None: it failed."""
    held_kib: float
    anonymous_kib: float
    peak_kib: float
    peak_at: str = ""
    """The package or the line that ran at the peak."""
    size_mib: int | None = None
    """The memory size that was asked for. None: none was."""
    runs: int = 1
    """Runs that took the time: it is that of the fastest."""
    missing: Sequence[str] = ()
    signal: int = 0
    """Number of the signal that has ended it; 0 if none has."""

    def shown(self) -> list[tuple[Row, list[Row]]]:
        """The rows worth it, each with those of its rows that are, most memory first."""
        ranked = sorted(
            [each for row in self.root.rows.values() for each in (row, *row.rows.values())],
            key=lambda each: -self._share(each),
        )
        chosen = {id(each) for each in ranked[:MOST_ROWS] if self._share(each) >= WORTH}

        def of(row: Row) -> list[Row]:
            return [each for each in _sorted(row) if id(each) in chosen]

        return [(each, of(each)) for each in of(self.root)]

    def _share(self, row: Row) -> float:
        return max(abs(row.kib) / max(self.root.kib, 1), row.ms / max(self.root.ms, 1e-9))

    @property
    def rest(self) -> Row:
        """The sum of what is not shown."""
        shown = {id(each) for each, _ in self.shown()}
        left = {key: each for key, each in self.root.rows.items() if id(each) not in shown}
        return Row(PACKAGE, f"{len(left)} more", rows=left)

    @property
    def answer(self) -> str:
        """What init holds, what it takes, and which of it most; and whether it is more than the memory size."""
        most = sorted(self._net(), key=lambda each: -self._share(each))[:IN_ANSWER]
        parts = [
            f"{_short(each)} {mib(each.kib / 1024)} MiB, {_time(each.ms)}" for each in most if self._is_worth(each)
        ]
        told = f": {'; '.join(parts)}" if parts else ""
        held = f"Init holds {mib(self.held_kib / 1024)} MiB and takes {_time(self.root.ms)}{told}."
        return f"{held} {self.too_much}".rstrip()

    def _net(self) -> Iterator[Row]:
        """The packages and statements. A file that frees what an earlier statement of it has made is one: which of them
        made it is not known."""
        least = -WORTH * max(self.root.kib, 1)
        frees = {
            _frame(each.name)[0] for each in self.root.rows.values() if each.kind == STATEMENT and each.kib < least
        }
        files = {name: Row(FILE, name) for name in frees}
        for key, each in self.root.rows.items():
            name = _frame(each.name)[0] if each.kind == STATEMENT else each.name
            if each.kind in (STATEMENT, FILE) and name in files:
                files[name].rows[key] = each
            elif each.kind != FILE and each.name not in (BEFORE, NONE):
                yield each
        yield from files.values()

    @property
    def too_much(self) -> str:
        """A sentence where init alone needs more than the memory size. Pages of files are left out: they could be
        dropped."""
        need = self.peak_kib - (self.held_kib - self.anonymous_kib)
        if self.size_mib is None or need <= self.size_mib * 1024:
            return ""
        return f"Lambda ends it at {self.size_mib:,} MB: init alone needs {mib(need / 1024)} MiB."

    def lines(self) -> list[str]:
        """The table: what is indented is part of the row above it. Then the sentences."""
        rows = [("MiB", "ms", "saves", "what"), _cells(self.root, "")]
        for each, below in self.shown():
            rows += [_cells(each), *(_cells(row, "    ") for row in below)]
        rows.append(_cells(self.rest))
        if self.first is not None:
            rows += [_cells(self.first, ""), *map(_cells, filter(self._is_worth, _sorted(self.first)))]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        table = ["  ".join([*map(str.rjust, row[:-1], widths), row[-1]]) for row in rows]
        return [*table, "", *self.sentences()]

    def _is_worth(self, row: Row) -> bool:
        return self._share(row) >= WORTH

    def sentences(self) -> list[str]:
        """What the table does not say."""
        peak = f"Init's peak is {mib(self.peak_kib / 1024)} MiB{f', in {self.peak_at}' if self.peak_at else ''}."
        said = [
            f"{peak} {mib(self.anonymous_kib / 1024)} MiB of what init holds is anonymous, the rest pages of files.",
        ]
        if any(each.saves_kib is not None for each, _ in self.shown()):
            said.append(
                "The first that imports a module pays for it. `saves`: what init holds less without your own imports"
                " of it."
            )
        if self.root.ms > LIMIT_MS:
            said.append("Lambda ends an init after 10 s, and begins again in the first invocation, which pays for it.")
        return [*said, *self.missing]

    def document(self) -> dict[str, object]:
        """The member `init` of `--json`: MiB and ms."""
        members = {
            "heldMiB": _rounded(self.held_kib),
            "anonymousMiB": _rounded(self.anonymous_kib),
            "peakMiB": _rounded(self.peak_kib),
            "peakAt": self.peak_at or None,
            "memorySize": self.size_mib,
            "ms": round(self.root.ms, 1),
            "answer": self.answer,
            "parts": [_document(each) for each in _sorted(self.root)],
            "firstInvocation": _document(self.first) if self.first is not None else None,
            "runs": self.runs,
            "missing": list(self.missing),
        }
        return known_members(members)


def _sorted(row: Row) -> list[Row]:
    return sorted(row.rows.values(), key=lambda each: (-each.kib, -each.ms))


def _document(row: Row) -> Mapping[str, object]:
    members: dict[str, object] = {
        "kind": row.kind,
        "name": row.name,
        "at": row.at or None,
        "source": source(_frame(row.name)) if row.kind == STATEMENT else None,
        "mib": _rounded(row.kib),
        "ownMiB": _rounded(row.own_kib),
        "ms": round(row.ms, 1),
        "ownMs": round(row.own_ms, 1),
        "savesMiB": None if row.saves_kib is None else _rounded(row.saves_kib),
        "alsoImportedBy": list(row.also) or None,
        "parts": [_document(each) for each in _sorted(row)] or None,
    }
    return known_members(members)


def _cells(row: Row, indent: str = "  ") -> tuple[str, ...]:
    also = f"; {some(row.also)} import{'s' if len(row.also) == 1 else ''} it too" if row.also else ""
    at = f"  ({place(_frame(row.at))}{also})" if row.at and row.kind != STATEMENT else ""
    saves = "" if row.saves_kib is None else mib(row.saves_kib / 1024)
    return mib(row.kib / 1024), f"{row.ms:,.0f}", saves, f"{indent}{row.label}{at}"


def _rounded(kib: float) -> float:
    return round(kib / 1024, 2)


def _time(ms: float) -> str:
    return f"{ms / 1000:.2f} s" if ms >= 100 else f"{ms:.0f} ms"


def _short(row: Row) -> str:
    if row.kind == FILE:
        return place((row.name, 0))
    return place(_frame(row.name)) if row.kind == STATEMENT else row.name


def cost(
    memory: Log,
    times: Sequence[tuple[Log, float]],
    packages: Callable[[Log], Callable[[Part], str]],
    is_users: Callable[[str], bool],
    line_of: Callable[[str], str] = lambda _: "",
    missing: Sequence[str] = (),
    size_mib: int | None = None,
) -> InitCost:
    """What init costs, by the log of the run for memory and those for the time, each with its whole init in ms; the
    fastest counts. `line_of` finds where the user's code imports a package, if the log does not say it. The sums
    close: what no import and no statement has is before the user's code, or in the last row."""
    package = packages(memory)
    root, first = _rows(memory, package, is_users)
    log, whole_ms = min(times, key=lambda each: each[1])  # what else the machine does only adds
    for row, timed in zip((root, first), _rows(log, packages(log), is_users), strict=True):
        _take_times(row, timed)
    needs = Needs(memory, package, is_users)
    for each in root.rows.values():
        if each.kind == PACKAGE:
            each.at = each.at or line_of(each.name)
            each.also = needs.importers(each.name)
            # the log says so where it does not know who imports what
            each.saves_kib = None if memory.missing else needs.saves(each.name)
    before = root.below(PACKAGE, BEFORE, "")
    before.own_kib = memory.before_kib
    before.own_ms = whole_ms - root.ms
    root.below(PACKAGE, NONE, "").own_kib = memory.held_kib - root.kib + root.own_kib
    root.below(PACKAGE, NONE, "").own_ms = root.own_ms
    root.own_kib = root.own_ms = 0.0
    at = memory.peak_at
    return InitCost(
        root=root,
        first=first if memory.first.name else None,
        held_kib=memory.held_kib,
        anonymous_kib=memory.anonymous_kib,
        peak_kib=memory.peak_kib,
        peak_at="" if at is None else package(at) if at.kind == MODULE else place(_frame(at.name)),
        size_mib=size_mib,
        runs=len(times),
        missing=missing,
    )


def _take_times(row: Row, timed: Row | None) -> None:
    """The times of another run's row, and of its rows; what is only there falls to the row itself."""
    more = {} if timed is None else timed.rows
    row.own_ms = 0.0 if timed is None else timed.own_ms
    row.own_ms += sum(each.ms for key, each in more.items() if key not in row.rows)
    for key, each in row.rows.items():
        _take_times(each, more.get(key))
