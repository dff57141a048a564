"""The probe in a function under AWS's own runtime client, and what the sidecar's line says of it."""

from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.judge.heap import malloc_heap

from testing.environment import Environment, Record
from tests.scenarios.test_managed_instances import wait_for_lines

ROOT = Path(__file__).parents[2]
FUNCTION = Path(__file__).with_name("functions") / "allocates.py"


def environment(function: Path = FUNCTION, *, variables: dict[str, str] | None = None, **settings: Any) -> Environment:
    """With the layer's `python` folder on the path, as Lambda has it."""
    path = {"PYTHONPATH": str(ROOT / "layer" / "python")}
    return Environment(function, environment={**path, **(variables or {})}, **settings)


def finished(running: Environment) -> list[Record]:
    """A record for each invocation so far. The environment's end takes the last one's page with it: one more."""
    running.invoke("nothing")
    return running.records()[:-1]


def test_what_is_held_is_told_from_what_is_in_use() -> None:
    with environment(exact=True) as running:
        running.invoke("nothing")
        running.invoke("nothing")  # after it: the level may be read when the next invocation has begun
        running.invoke("hoard", mib=40)
        running.invoke("leak", mib=60)
        before, _, hoard, leak = finished(running)

    assert hoard.CurrentRSS - before.CurrentRSS > 35
    assert hoard.heap["held"] - before.heap["held"] == pytest.approx(40, abs=4)
    assert hoard.heap["inUse"] - before.heap["inUse"] < 4
    # 40 of the 60 come from what was held
    assert leak.heap["inUse"] - hoard.heap["inUse"] == pytest.approx(60, abs=4)
    assert leak.heap["held"] < 6
    assert hoard.heap["threads"] == 1
    assert len(hoard.heap["gc"]) == 3
    assert "source" not in hoard.heap


def test_pythons_own_objects_are_blocks_and_not_mallocs() -> None:
    with environment(exact=True) as running:
        running.invoke("nothing")
        running.invoke("objects", mib=32)
        before, after = finished(running)
    assert after.CurrentRSS - before.CurrentRSS > 32
    assert after.heap["blocks"] - before.heap["blocks"] == pytest.approx(32 * 2**20 / 64, rel=0.01)
    assert after.heap["small"] - before.heap["small"] == pytest.approx(32, rel=0.01)
    used = [record.heap["inUse"] + record.heap["mapped"] for record in (before, after)]
    assert used[1] - used[0] < 32 / 4  # the list of 8 bytes an object


def test_a_failing_invocation_has_it_and_its_own_trace() -> None:
    with environment() as running:
        failed = running.attempt("fail").payload
        (record,) = finished(running)

    assert isinstance(failed, dict)
    assert f'File "{FUNCTION}"' in failed["stackTrace"][0]
    assert "truemem_heap" not in str(failed)
    assert malloc_heap(record.document) is not None


def test_under_another_client_the_decorator_does_it() -> None:
    with environment(variables={"UNKNOWN_CLIENT": "1"}) as running:
        running.invoke("leak", mib=20)
        running.attempt("fail")
        answered, failed = finished(running)
    assert answered.heap["inUse"] > 20
    assert failed.heap["inUse"] > 20


@pytest.mark.parametrize("exact", [True, False])
def test_a_child_counts_only_where_it_has_lived(exact: bool) -> None:
    """The kernel adds its peak to the parent's figures when the parent waits for it: an invocation later."""
    with environment(exact=exact) as running:
        for step in ("nothing", "work", "reap", "nothing"):
            running.invoke(step, mib=61)
        _, work, reap, nothing = finished(running)
    assert work.peakUpper is None or work.peakUpper > 61
    for record in (reap, nothing):
        assert record.peakLower < 40


def test_it_survives_a_change_of_folder() -> None:
    with environment() as running:
        listed = [running.invoke(step)["answer"] for step in ("nothing", "leave", "nothing")][1]
        records = finished(running)
    assert listed
    assert not [line for line in listed if "truemem" in line]
    assert all(record.heap for record in records)


def test_each_worker_of_a_managed_instance_has_its_own() -> None:
    with environment(managed_instances=2) as running:
        for _ in range(4):
            running.invoke("nothing")
        wait_for_lines(running, 4)
        records = running.records()
    assert all(record.heap for record in records)
