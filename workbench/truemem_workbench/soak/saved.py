"""The file in which a soak is saved, so that it goes on after a crash: of the tool, or of the machine.

A database of SQLite, because that is whole after a kill at any moment, and because a save writes only what has changed
since the one before.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ..support.bad_input import BadInput
from .clocks import Step
from .tally import Bucket, EnvironmentTally, Histogram, Kept, KeptLines, Tally

APPLICATION = 0x50AC
"""Marks the database as one of ours."""
FORMAT = 2
TABLES_SQL = """
CREATE TABLE parts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE lines (
    environment TEXT, place INTEGER, text TEXT NOT NULL, step TEXT NOT NULL, is_pinned INTEGER NOT NULL,
    PRIMARY KEY (environment, place)
) WITHOUT ROWID;
"""
"""`parts`: what is written anew when it changes. `lines`: each is written once."""
PLAN, TALLY, BUCKET, ENVIRONMENT = "plan", "tally", "bucket ", "environment "
T = TypeVar("T")
Part = Tally | Bucket | EnvironmentTally
LineKey = tuple[str, int]
"""Environment, and place among its lines."""


class Changes(NamedTuple):
    """What differs from what is in the file."""

    parts: dict[str, str]
    lines: dict[LineKey, Kept]
    old_parts: list[str]
    old_lines: list[LineKey]
    marks: dict[str, object]
    """Marks of `parts`, by name."""


class Saved:
    """The file of one soak. Only one process can use it at a time. `close` it at the end."""

    def __init__(self, path: Path, plan: Mapping[str, object]) -> None:
        """Open the file, or make it. `plan`: what the command line asks for, as JSON. Raises BadInput for a file of
        another plan, of another version, of another program, or that is in use."""
        self.path = path
        self._marks: dict[str, object] = {}
        """The mark of each part in the file. A part is written anew when its mark differs."""
        self._lines: defaultdict[str, set[int]] = defaultdict(set)
        """Places of the lines in the file, by environment."""
        with self._refused():
            # another thread writes than the one that opens it
            self._database = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
            try:
                self._open({name: json.loads(json.dumps(value)) for name, value in plan.items()})
            except BaseException:
                self._database.close()
                raise

    def _open(self, plan: Mapping[str, object]) -> None:
        run = self._database.execute
        run("PRAGMA locking_mode = EXCLUSIVE")
        run("BEGIN EXCLUSIVE")
        (application,), (version,) = run("PRAGMA application_id").fetchone(), run("PRAGMA user_version").fetchone()
        if (application, version) == (0, 0) and not run("SELECT 1 FROM sqlite_master").fetchone():
            for statement in TABLES_SQL.strip().split(";\n"):
                run(statement)
            run(f"PRAGMA application_id = {APPLICATION}")
            run(f"PRAGMA user_version = {FORMAT}")
            run("INSERT INTO parts VALUES (?, ?)", (PLAN, json.dumps(plan)))
        elif application != APPLICATION:
            raise BadInput(f"--state {self.path} is not of truemem soak. Try another file")
        elif version != FORMAT:
            raise BadInput(f"--state {self.path} is of another version of truemem. Try another file")
        run("COMMIT")
        self._marks = {name: None for (name,) in run("SELECT name FROM parts WHERE name != ?", (PLAN,))}
        for name, place in run("SELECT environment, place FROM lines"):
            self._lines[name].add(place)
        before = json.loads(run("SELECT value FROM parts WHERE name = ?", (PLAN,)).fetchone()[0])
        differs = next((name for name in {**before, **plan} if before.get(name) != plan.get(name)), None)
        if differs is not None:
            was, now = before.get(differs), plan.get(differs)
            raise BadInput(f"--state {self.path} is of a soak with {differs} {was}, not {now}. Try another file")

    def close(self) -> None:
        """Let another process use the file."""
        self._database.close()

    def discard(self) -> None:
        """Remove the file: there is nothing to go on with."""
        self._database.close()
        self.path.unlink(missing_ok=True)

    # --- reading ------------------------------------------------------------------------------------------------------

    def tally(self) -> Tally:
        """The soak as it was saved last; a new one if it never was. Raises BadInput if it is damaged."""
        with self._refused():
            return self._read()

    def _read(self) -> Tally:
        run = self._database.execute
        parts = dict(run("SELECT name, value FROM parts"))
        if TALLY not in parts:
            return Tally()
        tally = _revived(Tally, parts[TALLY])
        for bucket in [_revived(Bucket, value) for name, value in parts.items() if name.startswith(BUCKET)]:
            tally.by_number[round(bucket.begin_s / bucket.width_s)] = bucket
        found = [_revived(EnvironmentTally, value) for name, value in parts.items() if name.startswith(ENVIRONMENT)]
        tally.by_id = {each.id: each for each in sorted(found, key=lambda each: each.began_s)}
        rows = run("SELECT environment, place, text, step, is_pinned FROM lines ORDER BY environment, place")
        for name, place, text, step, is_pinned in rows:
            tally.by_id[name].kept_lines.kept[place] = Kept(text, _step(json.loads(step)), bool(is_pinned))
        return tally

    # --- writing ------------------------------------------------------------------------------------------------------

    def changes(self, tally: Tally) -> Changes:
        """What is to be written. Call it where nothing else changes the tally; it does not touch the file."""
        environments = {f"{ENVIRONMENT}{each.id}": each for each in tally.environments}
        now: dict[str, Part] = {
            TALLY: tally,
            **{f"{BUCKET}{each.begin_s:g}": each for each in tally.buckets},
            **environments,
        }
        marks = {name: _mark(each) for name, each in now.items()}
        marks = {name: mark for name, mark in marks.items() if self._marks.get(name) != mark}
        changes = Changes(
            {name: _frozen(now[name]) for name in marks}, {}, [*self._marks.keys() - now.keys()], [], marks
        )
        for name in environments.keys() & marks.keys():
            environment = environments[name]
            there, kept = self._lines[environment.id], environment.kept_lines.all()
            changes.lines.update({(environment.id, place): kept[place] for place in kept.keys() - there})
            changes.old_lines.extend((environment.id, place) for place in there - kept.keys())
        for name in self._lines.keys() - {each.id for each in tally.environments}:
            changes.old_lines.extend((name, place) for place in self._lines[name])
        return changes

    def write(self, changes: Changes) -> None:
        """Write them, all or nothing. Raises BadInput if the disk does not take them. For any thread, one at a time."""
        with self._refused():
            self._database.execute("BEGIN")
            try:
                self._write(changes)
                self._database.execute("COMMIT")
            finally:
                if self._database.in_transaction:  # a full disk has ended it
                    self._database.execute("ROLLBACK")
        self._marks.update(changes.marks)
        for name in changes.old_parts:
            del self._marks[name]
        for environment, place in changes.lines:
            self._lines[environment].add(place)
        for environment, place in changes.old_lines:
            self._lines[environment].discard(place)
        for environment in [name for name, places in self._lines.items() if not places]:
            del self._lines[environment]

    def _write(self, changes: Changes) -> None:
        many = self._database.executemany
        many("REPLACE INTO parts VALUES (?, ?)", changes.parts.items())
        many("DELETE FROM parts WHERE name = ?", ((name,) for name in changes.old_parts))
        many("DELETE FROM lines WHERE environment = ? AND place = ?", changes.old_lines)
        many(
            "INSERT INTO lines VALUES (?, ?, ?, ?, ?)",
            ((*key, kept.text, json.dumps(kept.step), kept.is_pinned) for key, kept in changes.lines.items()),
        )

    @contextmanager
    def _refused(self) -> Iterator[None]:
        """Errors of the database as BadInput."""
        try:
            yield
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode == sqlite3.SQLITE_BUSY
            why = "is in use by another soak" if busy else f"cannot be used: {error}"
            raise BadInput(f"--state {self.path} {why}. Try another file") from error
        except (sqlite3.DatabaseError, AttributeError, KeyError, TypeError, ValueError) as error:
            raise BadInput(f"--state {self.path} is damaged, or not of truemem soak. Try another file") from error


NOT_PARTS = {Tally: ("by_number", "by_id", "zero_s"), KeptLines: ("kept", "latest")}
"""Members that are not in the JSON of their owner."""


def _mark(part: Part) -> object:
    """Differs when the part has changed. Much cheaper than its JSON."""
    if isinstance(part, Tally):
        return object()
    members = vars(part).values()
    return [_MARKS[type(each)](each) if type(each) in _MARKS else each for each in members]


_MARKS: Mapping[type, Callable[[Any], int]] = {
    Counter: lambda counts: counts.total(),
    Histogram: lambda histogram: histogram.count,
    KeptLines: lambda lines: lines.seen,
}
"""What is never the same after a change, of members that are changed in place."""


def _frozen(part: object) -> str:
    return json.dumps(part, default=_members, separators=(",", ":"))


def _members(value: object) -> object:
    if isinstance(value, Histogram):
        return value.counts
    without = NOT_PARTS.get(type(value), ())
    return {name: each for name, each in vars(value).items() if name not in without}


def _revived(kind: Callable[..., T], text: str) -> T:
    makers = _MAKERS[kind]
    return kind(**{name: makers[name](value) if name in makers else value for name, value in json.loads(text).items()})


def _histogram(counts: Mapping[str, int]) -> Histogram:
    return Histogram(Counter({int(number): count for number, count in counts.items()}))


def _kept_lines(members: dict[str, Any]) -> KeptLines:
    return KeptLines(**{**members, "pauses": tuple(members["pauses"])})


def _step(members: list[Any] | None) -> Step | None:
    return None if members is None else Step(members[0], members[1], tuple(members[2]), *members[3:])


_MAKERS: Mapping[Callable[..., Any], Mapping[str, Callable[[Any], object]]] = {
    Tally: {
        "errors": Counter,
        "interruptions": lambda pairs: [(begin, length) for begin, length in pairs],
        "late_ms": _histogram,
        "latency": _histogram,
    },
    Bucket: {"latency": _histogram},
    EnvironmentTally: {"kept_lines": _kept_lines},
}
"""Members that are not what JSON has."""
