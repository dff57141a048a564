"""A day at 200 requests a second: 17 million invocations, in simulated time. Neither memory nor the file grows."""

import gc
import math
import os
import random
from pathlib import Path

import pytest
from truemem_workbench.printed.line import Metadata
from truemem_workbench.soak.driver import Arrival
from truemem_workbench.soak.saved import Saved
from truemem_workbench.soak.tally import MOST_BUCKETS, MOST_ENDED, MOST_KEPT_LINES, Tally

from tests.soak.seen import BEGUN_MS, answer, ended, initialised, line, started

RATE, ENVIRONMENTS, HOUR_S = 200, 10, 3600
LIFE_S = 5000
"""Then an environment ends: 172 of them in a day, one after the other."""
MiB = 1 << 20


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_a_day_takes_no_more_room_than_its_first_hours(tmp_path: Path) -> None:
    path = tmp_path / "soak.state"
    tally, saved = Tally(), Saved(path, {})
    tally.begin(0.0, BEGUN_MS)
    memory, disk = [], []
    for hour in range(24):
        live(tally, saved, hour * HOUR_S, (hour + 1) * HOUR_S)
        gc.collect()
        memory.append(resident())
        disk.append(path.stat().st_size)
    saved.close()

    assert len(tally.buckets) <= MOST_BUCKETS
    assert sum(len(each.lines) for each in tally.environments) <= (MOST_ENDED + ENVIRONMENTS) * (MOST_KEPT_LINES + 1)
    assert max(memory[12:]) <= max(memory[:12]) + 8 * MiB
    assert max(disk[12:]) <= max(disk[:12]) + MiB
    back = Saved(path, {})
    assert back.tally().invocations == tally.invocations
    back.close()


def live(tally: Tally, saved: Saved, begin_s: int, end_s: int) -> None:
    """Some hours of the day."""
    chance = random.Random(begin_s)
    latencies = [math.exp(chance.gauss(3, 1)) / 1000 for _ in range(997)]
    for second in range(begin_s, end_s):
        for place in range(ENVIRONMENTS):
            age = second + LIFE_S * place // ENVIRONMENTS  # they do not all end at once
            if second == 0 or age % LIFE_S == 0:
                if second:
                    tally.change(ended("age", name_of(place, age - 1), second))
                tally.change(started(name_of(place, age), second))
                tally.change(initialised(name_of(place, age), second))
            serve(tally, name_of(place, age), second, age % LIFE_S, latencies)
        tally.tick(second + 1)
        if second % 60 == 0:
            saved.write(saved.changes(tally))


def name_of(place: int, age: int) -> str:
    return f"{place:016}{age // LIFE_S:016}"


def serve(tally: Tally, name: str, second: int, age: int, latencies: list[float]) -> None:
    """A second of one environment."""
    came, failed = answer(name), answer(name, error=f"KeyError: 'order {second}'")
    seen = line(environment=name, CurrentRSS=100 + age / 100)
    each = RATE // ENVIRONMENTS
    for number in range(each):
        due_s = second + number / each
        ended_s = due_s + latencies[(second * each + number) % len(latencies)]
        tally.add(Arrival(due_s, due_s, failed if number == 7 else came, ended_s))
        # a line of its own for each would take most of the time
        seen.invocation, seen.metadata = age * each + number + 1, Metadata(time_ms=BEGUN_MS + 1000 * due_s)
        tally.line(seen, name)


def resident() -> int:
    """Bytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
