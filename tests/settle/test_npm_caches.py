"""Caches of npm's packages that have a bound of their own, as the probe finds them in the heap."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from testing.installs import CACHE, Missing, node_packages

PROJECT = Path(__file__).with_name("npm_caches")
COUNT, SIZE = {"max": 50}, {"max": 5000, "maxSize": 200}
VERSIONS = ("lru-7", "lru-8", "lru-9", "lru-10", "lru-11")


@pytest.fixture(scope="module")
def packages() -> Path:
    if shutil.which("node") is None:
        pytest.skip("there is no node on the path")
    try:
        return node_packages(CACHE / "npm-caches", PROJECT)
    except Missing as missing:
        pytest.skip(str(missing))


def found(packages: Path, name: str, options: dict[str, int], keeps: int) -> list[dict[str, Any]]:
    """What is said of two such caches and of one without a bound, after so many entries of size 4."""
    command = ["node", str(PROJECT / "filled.mjs"), name, str(packages.parent), json.dumps(options), str(keeps)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    assert answer["globals"] == []
    said: list[dict[str, Any]] = answer["said"]
    return said


def told(said: list[dict[str, Any]]) -> set[tuple[str, int, int, str]]:
    return {(each["name"], each["entries"], each["bound"], each["unit"]) for each in said}


@pytest.mark.parametrize("name", VERSIONS)
def test_a_cache_of_so_many_entries_says_how_full_it_is(packages: Path, name: str) -> None:
    said = found(packages, name, COUNT, 30)
    assert told(said) == {("npm's lru-cache", 30, 50, "entries")}
    assert len({each["id"] for each in said}) == 2


@pytest.mark.parametrize("name", VERSIONS)
def test_of_two_bounds_the_one_is_told_that_comes_first(packages: Path, name: str) -> None:
    assert told(found(packages, name, SIZE, 30)) == {("npm's lru-cache", 120, 200, "units of size")}


def test_version_6_counts_what_its_user_counts(packages: Path) -> None:
    assert told(found(packages, "lru-6", {"max": 200}, 30)) == {("npm's lru-cache", 120, 200, "units of size")}


def test_a_ttl_cache_says_how_full_it_is(packages: Path) -> None:
    assert told(found(packages, "@isaacs/ttlcache", {"max": 50, "ttl": 60_000}, 30)) == {
        ("npm's @isaacs/ttlcache", 30, 50, "entries")
    }
