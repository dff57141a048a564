"""Which growth is a leak, which is none, and what the line tells of it. Simulated counts."""

import itertools
import json
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from truemem.line_schema import PROPERTIES
from truemem.resources import RESOURCES, ResourceDrift, Usage

from tests.records import fits, printed, record

LIMIT = 1024
MIB = 1024


def descriptors(count: float) -> Usage:
    return Usage(None, round(count), LIMIT, {"function": round(count)}, 1, 1, 0, LIMIT)


def told(usages: Iterable[Usage]) -> list[tuple[int, dict[str, Any]]]:
    """(invocation, member) of each line that tells anything."""
    drift, found = ResourceDrift(), []
    for number, usage in enumerate(usages, 1):
        drift.add(usage, 100 * number)
        members: Any = drift.members(usage, always=False)
        if members:
            found.append((number, members))
    return found


def verdicts(usages: Iterable[Usage], name: str = "descriptors") -> dict[int, str]:
    """By invocation, where there is one."""
    return {number: members[name]["verdict"] for number, members in told(usages) if "verdict" in members.get(name, {})}


def test_one_descriptor_an_invocation_is_found() -> None:
    found = dict(told(descriptors(10 + number) for number in range(1, 201)))
    assert found[128]["descriptors"] == {
        "open": 138,
        "limit": LIMIT,
        "verdict": "growing",
        "perInvocation": 1.0,
        "invocationsLeft": LIMIT - 138,
    }


def bursts(chance: random.Random) -> Iterator[float]:
    """Also where the next invocation's are counted."""
    share, most = chance.random(), chance.choice([20, 50, 400])
    while True:
        yield 10 + (chance.randrange(most) if chance.random() < share else 0)


def pool_that_comes_and_goes(chance: random.Random) -> Iterator[float]:
    opened = 5
    while True:
        opened = max(0, min(20, opened + chance.choice([-1, -1, 0, 0, 1, 1])))
        yield 10 + opened


@pytest.mark.parametrize("counts", [bursts, pool_that_comes_and_goes])
@pytest.mark.parametrize("seed", range(12))
def test_what_comes_and_goes_is_not_accused(counts: Callable[[random.Random], Iterator[float]], seed: int) -> None:
    usages = map(descriptors, itertools.islice(counts(random.Random(seed)), 1500))
    assert "growing" not in verdicts(usages).values()


@pytest.mark.parametrize("every", [1, 3, 7, 15, 30])
def test_a_pool_that_opens_twenty_and_stays_is_not_accused(every: int) -> None:
    found = verdicts(descriptors(10 + min(20, number // every)) for number in range(1, 1501))
    assert "growing" not in found.values()


LEAKS: dict[str, Callable[[random.Random, int], Usage]] = {
    "one in twenty invocations": lambda _, number: descriptors(10 + number // 20),
    "beneath bursts": lambda chance, number: descriptors(
        10 + number / 2 + (chance.randrange(20) if chance.random() < 0.3 else 0)
    ),
    # as on older kernels, with many descriptors
    "counted now and then": lambda _, number: descriptors(10 + number) if number % 5 == 0 else Usage(None, threads=1),
}


@pytest.mark.parametrize("leak", LEAKS)
@pytest.mark.parametrize("seed", range(3))
def test_a_leak_is_found_in_some_hundred_invocations(leak: str, seed: int) -> None:
    chance = random.Random(seed)
    found = verdicts(LEAKS[leak](chance, number) for number in range(1, 1001))
    assert min(number for number, name in found.items() if name == "growing") <= 600


def test_growth_that_ends_is_withdrawn() -> None:
    found = verdicts(descriptors(10 + min(60, number // 4)) for number in range(1, 2001))
    assert "growing" in found.values()
    assert not any(name == "growing" for number, name in found.items() if number > 1200)


def usage_of(kind: str) -> Callable[[int], Usage]:
    return {
        "tmp": lambda number: Usage((MIB * number, 512 * MIB)),
        "threads": lambda number: Usage(None, threads=1 + number, processes=1, task_limit=LIMIT),
        "processes": lambda number: Usage(None, threads=1, processes=1 + number, zombies=number, task_limit=LIMIT),
    }[kind]


@pytest.mark.parametrize("kind", ["tmp", "threads", "processes"])
def test_each_kind_is_found_and_says_what_is_left(kind: str) -> None:
    found = dict(told(map(usage_of(kind), range(1, 161))))[160]
    assert set(found) == {kind}
    assert found[kind]["verdict"] == "growing"  # and threads alone accuse no processes
    assert found[kind]["invocationsLeft"] == {"tmp": 352, "threads": LIMIT - 161, "processes": LIMIT - 161}[kind]


def test_above_a_tenth_each_line_has_it() -> None:
    found = told(descriptors(200) for _ in range(64))
    assert [number for number, _ in found] == [*range(1, 65)]
    assert [number for number, members in found if "verdict" in members["descriptors"]] == [32, 48, 64]
    assert found[63][1]["descriptors"] == {"open": 200, "limit": LIMIT, "verdict": "stable"}


def test_below_a_tenth_nothing_is_told() -> None:
    assert told(descriptors(102) for _ in range(300)) == []


def lines_of(usage: Usage | None, capfd: pytest.CaptureFixture[str], **settings: str) -> list[str]:
    records = [record(number, 30) for number in range(1, 41)]
    for each in records:
        if usage is not None:
            each.note(RESOURCES, usage)
    environ = {f"TRUEMEM_{name}".encode(): value.encode() for name, value in settings.items()}
    return printed(capfd, records, environ)


def test_the_line_of_a_calm_function_is_byte_for_byte_as_without(capfd: pytest.CaptureFixture[str]) -> None:
    calm = Usage((5 * MIB, 512 * MIB), 12, LIMIT, {"function": 12}, 4, 1, 0, LIMIT)
    assert lines_of(calm, capfd) == lines_of(None, capfd)


def test_with_the_setting_each_line_tells(capfd: pytest.CaptureFixture[str]) -> None:
    calm = Usage((5 * MIB, 512 * MIB), 12, LIMIT, {"function": 12}, 4, 1, 0, LIMIT)
    lines = [json.loads(line) for line in lines_of(calm, capfd, RESOURCES="always")]
    assert lines[0]["resources"] == {
        "tmp": {"used": 5.0, "size": 512.0},
        "descriptors": {"open": 12, "limit": LIMIT},
        "threads": {"count": 4, "limit": LIMIT},
        "processes": {"count": 1, "limit": LIMIT},
    }
    assert lines[31]["resources"]["threads"]["verdict"] == "stable"


def test_a_line_of_many_invocations_keeps_what_one_of_them_told(capfd: pytest.CaptureFixture[str]) -> None:
    records = [record(number, 30) for number in range(1, 151)]
    for number, each in enumerate(records, 1):
        each.note(RESOURCES, descriptors(10 + number / 2))
    (*_, last) = printed(capfd, records, {b"TRUEMEM_AGGREGATE": b"300"})
    assert json.loads(last)["resources"]["descriptors"]["verdict"] == "growing"


def test_the_schema_has_all_that_is_told() -> None:
    kinds = PROPERTIES["resources"]
    holders = {"function": 900, "agent": 3}
    drift = ResourceDrift()
    members: Any = {}
    for number in range(160):
        tmp = (200 + number) * MIB, 512 * MIB
        usage = Usage(tmp, number, LIMIT, holders, number + 1, number, 200, LIMIT)
        drift.add(usage, number)
        members = drift.members(usage, always=True)
    assert fits(kinds, members)
    assert {"verdict", "invocationsLeft"} <= members["tmp"].keys() & members["descriptors"].keys()
