"""Functions that leak descriptors, threads, processes and files, and functions that only use them, under the local
Lambda."""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testing.environment import FUNCTIONS, Environment, Record
from tests.local.conftest import until

FUNCTION = Path(__file__).with_name("functions") / "uses.py"
INVOCATIONS = 150
DISK_MIB = 256


def run(
    do: str, *, count: int = INVOCATIONS, exact: bool = True, variables: dict[str, str] | None = None, **event: int
) -> list[Record]:
    """The records of so many invocations."""
    with Environment(FUNCTION, exact=exact, environment=variables or {}) as running:
        for _ in range(count):
            running.invoke(do, **event)
        return running.told()


def verdicts(records: list[Record], name: str) -> list[dict[str, Any]]:
    """What the lines say of it, where they have a verdict."""
    found = [(record.resources or {}).get(name, {}) for record in records]
    return [members for members in found if "verdict" in members]


@pytest.mark.parametrize(("do", "exact"), [("file", True), ("socket", False)])
def test_descriptors_that_leak_are_found(do: str, exact: bool) -> None:
    last = verdicts(run(do, exact=exact), "descriptors")[-1]
    assert last["verdict"] == "growing"
    assert last["perInvocation"] == pytest.approx(1, abs=0.02)
    assert last["invocationsLeft"] == pytest.approx(last["limit"] - last["open"], rel=0.03)


@pytest.mark.parametrize(("do", "name"), [("thread", "threads"), ("process", "processes"), ("zombie", "processes")])
def test_threads_and_processes_that_never_end_are_found(do: str, name: str) -> None:
    last = verdicts(run(do, count=200), name)[-1]
    assert last["verdict"] == "growing"
    assert last["perInvocation"] == pytest.approx(1, abs=0.1)
    if "limit" in last:
        assert last["invocationsLeft"] == pytest.approx(last["limit"] - last["count"], rel=0.15)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A disk of its own below /tmp, as Lambda has."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "none", str(folder)]
    if os.geteuid() or subprocess.run(command, check=False, capture_output=True).returncode:
        folder.rmdir()
        pytest.skip("mounting a disk is not permitted here")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)
    folder.rmdir()


def test_files_that_stay_in_tmp_are_found(disk: Path) -> None:
    last = verdicts(run("tmp", kib=1024), "tmp")[-1]
    assert last["verdict"] == "growing"
    assert last["size"] == DISK_MIB
    assert last["perInvocationKiB"] == pytest.approx(1024, rel=0.01)
    assert last["invocationsLeft"] == pytest.approx(DISK_MIB - last["used"], abs=2)


def test_files_that_an_invocation_removes_are_no_leak(disk: Path) -> None:
    assert not any("growing" in json.dumps(record.resources) for record in run("burst of files", kib=2048))


@pytest.mark.parametrize(
    ("do", "exact"), [("pool", True), ("burst", False), ("burst of threads", True), ("nothing", False)]
)
def test_pools_and_bursts_are_not_accused(do: str, exact: bool) -> None:
    records = run(do, count=200, exact=exact, every=7 if do == "pool" else 2)
    assert not any("growing" in json.dumps(record.resources) for record in records)


def test_a_calm_function_is_told_of_only_where_that_is_asked_for() -> None:
    assert [record.resources for record in run("nothing", count=40)] == [None] * 40
    assert not any(record.resources for record in run("file", variables={"TRUEMEM_RESOURCES": "off"}))
    told = run("nothing", count=40, variables={"TRUEMEM_RESOURCES": "always"})
    alive = told[:-1]  # the function may have ended before it was looked at after the last
    assert all(record.resources["descriptors"]["open"] < 20 for record in alive)
    assert all(record.resources["processes"]["count"] == 1 for record in alive)
    assert told[31].resources["threads"]["verdict"] == "stable"


def test_ten_thousand_descriptors_are_counted() -> None:
    records = run("many", count=20)
    told = [record.resources["descriptors"] for record in records if record.resources]
    assert told
    assert all(each["open"] > 100 and each["open"] <= each["limit"] for each in told)


def test_requests_on_managed_instances_tell_it_as_well() -> None:
    settings: dict[str, Any] = {"managed_instances": 3, "memory_mib": 2048}
    with Environment(FUNCTIONS / "together.py", environment={"TRUEMEM_RESOURCES": "always"}, **settings) as running:
        running.local.invoke({"mib": 1, "ms": 100})
        until(lambda: len(running.local.extension_stdout(running.name)) >= 1)
        running.local.invoke({"mib": 1, "ms": 100})
        until(lambda: len(running.local.extension_stdout(running.name)) >= 2)
        *_, last = running.records()
    assert last.resources["processes"]["count"] == 4  # the runtime and its workers
    assert last.resources["descriptors"]["open"] < last.resources["descriptors"]["limit"]
