"""A soak that goes on after a crash: the file has all of it, or all of it as it was at the save before."""

import copy
import math
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.soak import tally as tallies
from truemem_workbench.soak.saved import FORMAT, Saved
from truemem_workbench.soak.tally import MOST_KEPT_LINES, Tally
from truemem_workbench.support.bad_input import BadInput

from tests.soak.seen import BEGUN_MS, arrival, begun, dropped, ended, initialised, line, reset, started, throttled

PLAN = {"target": "app.py:handler", "rate": "50/s", "seed": 1, "limits": [1, 2.5, None]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "soak.state"


def see(tally: Tally, begin: int, end: int) -> Tally:
    """A soak with a bit of everything, of these invocations. Five in a second."""
    for number in range(begin, end):
        at_s, name = number / 5, f"e{number // 300}"
        if number % 300 == 0:
            tally.change(started(name, at_s))
            tally.change(initialised(name, at_s))
        error = "KeyError: 'id'" if number % 17 == 0 else ""
        tally.add(arrival(at_s, 10 + number % 50, name, error=error, cold=number % 300 == 0, late_s=number % 3 / 100))
        members: dict[str, Any] = {"suppressedInit": True} if number % 90 == 0 else {}
        shared = 1 + number % 2
        tally.line(line(number, at_s, environment=name, sharedBy=shared, CurrentRSS=100.0 + number, **members), name)
        if number % 100 == 0:
            tally.add(throttled(at_s))
            tally.add(dropped(at_s))
            tally.change(reset("timeout", name, at_s))
        if number % 300 == 299:
            tally.change(ended("age", name, at_s))
    return tally


def save(saved: Saved, tally: Tally) -> None:
    saved.write(saved.changes(tally))


def read(path: Path) -> Tally:
    saved = Saved(path, PLAN)
    try:
        return saved.tally()
    finally:
        saved.close()


def told(tally: Tally) -> dict[str, Any]:
    """All that a report can ask of a tally."""
    members = {name: value for name, value in vars(tally).items() if name not in ("by_id", "by_number", "zero_s")}
    environments = [
        {name: value for name, value in vars(each).items() if name != "kept_lines"}
        | {"lines": [seen.request_id for seen in each.lines], "steps": each.steps()}
        for each in tally.environments
    ]
    return {**members, "buckets": tally.buckets, "environments": environments}


def test_what_was_saved_comes_back(path: Path) -> None:
    tally = see(begun(), 0, 2000)
    tally.begin(0.0, BEGUN_MS + 1_000_000)
    saved = Saved(path, PLAN)
    save(saved, tally)
    saved.close()

    assert told(read(path)) == told(tally)


def test_each_save_replaces_the_one_before(path: Path) -> None:
    tally, saved = begun(), Saved(path, PLAN)
    for begin in range(0, 2 * MOST_KEPT_LINES, 256):  # lines are thinned, buckets joined, environments end
        see(tally, begin, begin + 256)
        save(saved, tally)
    saved.close()

    assert told(read(path)) == told(tally)


def test_a_save_writes_what_has_changed(path: Path) -> None:
    tally, saved = see(begun(), 0, 900), Saved(path, PLAN)
    save(saved, tally)
    see(tally, 900, 905)

    changes = saved.changes(tally)
    saved.close()

    assert {name.partition(" ")[0] for name in changes.parts} == {"tally", "bucket", "environment"}
    assert len(changes.parts) == 3
    assert len(changes.lines) == 5
    assert not changes.old_parts and not changes.old_lines


@pytest.mark.parametrize("see_more", [
    lambda tally: tally.add(throttled(2.0)),
    lambda tally: tally.add(dropped(2.0)),
    lambda tally: tally.add(arrival(2.0, 33.0, "e0", error="E")),
    lambda tally: tally.add(arrival(2.0, 33.0, "e0", cold=True)),
    lambda tally: tally.line(line(11, 2.0, outOfMemory={"signals": []}), "e0"),
    lambda tally: tally.line(line(11, 2.0, CurrentRSS=None), "e0"),
    lambda tally: tally.change(initialised("e0", 2.0)),
    lambda tally: tally.change(reset("timeout", "e0", 2.0)),
    lambda tally: tally.change(ended("age", "e0", 2.0)),
    lambda tally: tally.change(started("e1", 2.0)),
    lambda tally: tally.begin(0.0, BEGUN_MS + 100_000),
])  # fmt: skip
def test_whatever_changes_is_written(path: Path, see_more: Callable[[Tally], None]) -> None:
    tally, saved = begun(), Saved(path, PLAN)
    tally.change(started("e0", 0.0))
    tally.add(arrival(2.0, 22.0, "e0"))
    tally.line(line(10, 2.0), "e0")
    save(saved, tally)
    see_more(tally)
    save(saved, tally)
    saved.close()

    assert told(read(path)) == told(tally)


def test_a_new_file_has_a_new_soak(path: Path) -> None:
    assert read(path) == Tally()


def test_it_goes_on_after_a_crash(path: Path) -> None:
    saved = Saved(path, PLAN)
    tally = see(begun(), 0, 750)
    tally.tick(160.0)
    save(saved, tally)
    saved.close()

    later = read(path)
    later.begin(loop_s=1000.0, epoch_ms=BEGUN_MS + 220_000)
    see(later, 800, 820)

    assert later.interruptions == [(160.0, 60.0)]
    assert [each.ended for each in later.environments] == ["age", "age", "interrupted"]
    assert later.invocations == 770
    assert later.zero_s == 840


def test_a_discarded_file_is_gone(path: Path) -> None:
    saved = Saved(path, PLAN)
    save(saved, see(begun(), 0, 10))
    saved.discard()

    assert [*path.parent.iterdir()] == []


# --- files that cannot be used ----------------------------------------------------------------------------------------


def refusal(path: Path, plan: dict[str, Any] | None = None) -> str:
    with pytest.raises(BadInput) as refused:
        Saved(path, plan or PLAN).tally()
    return str(refused.value)


def test_a_file_of_another_plan(path: Path) -> None:
    Saved(path, PLAN).close()

    said = refusal(path, {**PLAN, "rate": "100/s"})

    assert said == f"--state {path} is of a soak with rate 50/s, not 100/s. Try another file"
    assert "seed 1, not None" in refusal(path, {name: value for name, value in PLAN.items() if name != "seed"})


def test_a_file_that_is_in_use(path: Path) -> None:
    saved = Saved(path, PLAN)

    assert refusal(path) == f"--state {path} is in use by another soak. Try another file"
    saved.close()
    assert read(path) == Tally()


def test_a_file_of_another_program(path: Path) -> None:
    path.write_text("not a database, but of some length " * 200)
    assert refusal(path) == f"--state {path} is damaged, or not of truemem soak. Try another file"
    assert path.read_text().startswith("not a database")

    other = path.with_name("other")
    with sqlite3.connect(other) as database:
        database.execute("CREATE TABLE songs (name)")
    assert refusal(other) == f"--state {other} is not of truemem soak. Try another file"


def test_a_file_of_another_version(path: Path) -> None:
    Saved(path, PLAN).close()
    with sqlite3.connect(path) as database:
        database.execute(f"PRAGMA user_version = {FORMAT + 1}")

    assert refusal(path) == f"--state {path} is of another version of truemem. Try another file"


@pytest.mark.parametrize(
    ("name", "value"),
    [("tally", "[]"), ("tally", '{"seconds": 1, "songs": 2}'), ("tally", "{"), ("bucket 0", '{"begin_s": "x"}')],
)
def test_a_file_that_is_damaged(path: Path, name: str, value: str) -> None:
    saved = Saved(path, PLAN)
    save(saved, see(begun(), 0, 10))
    saved.close()
    with sqlite3.connect(path) as database:
        database.execute("REPLACE INTO parts VALUES (?, ?)", (name, value))

    assert refusal(path) == f"--state {path} is damaged, or not of truemem soak. Try another file"


def test_a_folder_that_is_not_there(path: Path) -> None:
    said = refusal(path / "soak.state")

    assert said.startswith(f"--state {path}/soak.state cannot be used: ") and said.endswith(". Try another file")


def test_a_full_disk_leaves_the_save_before(path: Path) -> None:
    saved, tally = Saved(path, PLAN), see(begun(), 0, 300)
    save(saved, tally)
    before = told(copy.deepcopy(tally))
    pages = saved._database.execute("PRAGMA page_count").fetchone()[0]
    saved._database.execute(f"PRAGMA max_page_count = {pages}")
    see(tally, 300, 2000)

    with pytest.raises(BadInput, match="cannot be used: database or disk is full"):
        save(saved, tally)

    saved._database.execute(f"PRAGMA max_page_count = {10 * pages}")
    assert told(saved.tally()) == before
    save(saved, tally)
    saved.close()
    assert told(read(path)) == told(tally)


# --- a crash ----------------------------------------------------------------------------------------------------------

SAVING = """
import sys
from pathlib import Path
from tests.soak.test_saved import PLAN, Saved, begun, save, see
saved, tally = Saved(Path(sys.argv[1]), PLAN), begun()
for begin in range(0, 100_000, 7):
    see(tally, begin, begin + 7)
    save(saved, tally)
    print(begin + 7, flush=True)
"""


def test_a_kill_at_any_moment_leaves_a_whole_save(path: Path) -> None:
    chance = random.Random(5)
    for attempt in range(4):
        file = path.with_name(f"{attempt}.state")
        with subprocess.Popen([sys.executable, "-c", SAVING, file], stdout=subprocess.PIPE, text=True) as saving:
            assert saving.stdout is not None
            saving.stdout.readline()
            time.sleep(chance.uniform(0, 0.4))
            os.kill(saving.pid, signal.SIGKILL)
            finished = [int(number) for number in saving.stdout.read().split()]
        after = read(file)
        least = finished[-1] if finished else 7
        assert after.invocations in (least, least + 7)
        assert told(after) == told(see(begun(), 0, after.invocations))


# --- a day ------------------------------------------------------------------------------------------------------------


def test_nothing_grows_with_the_number_of_invocations(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short day with bounds an eighth as large: the last third takes no more than the second one, nor on disk."""
    for name in ("MOST_BUCKETS", "MOST_KEPT_LINES", "MOST_KEPT_LINES_ENDED", "MOST_PINNED", "MOST_ENDED", "MOST_TYPES"):
        monkeypatch.setattr(tallies, name, getattr(tallies, name) // 8)
    saved, tally = Saved(path, PLAN), begun()
    sizes, on_disk = [], []
    for _ in day(tally, requests=18_000, environments=3, life=150):
        save(saved, tally)
        sizes.append(len(repr(tally)))
        on_disk.append(path.stat().st_size)
    saved.close()

    assert max(sizes[40:]) <= 1.1 * max(sizes[20:40])
    assert max(on_disk[40:]) <= 1.1 * max(on_disk[20:40])


def day(tally: Tally, requests: int, environments: int, life: int) -> Iterator[None]:
    """Yield after each sixtieth of the requests. An environment ends after `life` of them."""
    chance = random.Random(1)
    names = [f"first{number}" for number in range(environments)]
    for name in names:
        tally.change(started(name))
    for number in range(1, requests + 1):
        at_s = number / 20
        place = number % environments
        error = f"Error{chance.randrange(1000)}: {number}" if number % 11 == 0 else ""
        tally.add(arrival(at_s, math.exp(chance.gauss(3, 1)), names[place], error=error, cold=number % 50 == 0))
        tally.add(throttled(at_s) if number % 2 else dropped(at_s))
        killed: dict[str, Any] = {"outOfMemory": {"signals": []}, "suppressedInit": True} if number % 13 == 0 else {}
        tally.line(line(number, at_s=at_s, CurrentRSS=chance.uniform(100, 200), **killed), names[place])
        if number % life == 0:
            tally.change(reset(f"Reason{chance.randrange(1000)}", names[place], at_s))
            tally.change(ended(f"reason {chance.randrange(1000)}", names[place], at_s))
            names[place] = f"environment{number}"
            tally.change(started(names[place], at_s))
        if number % (requests // 60) == 0:
            yield
