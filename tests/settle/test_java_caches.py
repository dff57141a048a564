"""Caches of Guava and Caffeine that have a bound of their own, as a heap dump of a real JVM tells them."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.runs.settle import java_caches, jvm

from testing.installs import Missing, debian_package

PROGRAM = """
import com.github.benmanes.caffeine.cache.Caffeine;
import com.google.common.cache.CacheBuilder;
import java.util.concurrent.TimeUnit;

class Keeps {
    static Object[] all;

    static int size(Object page) {
        return ((byte[]) page).length;
    }

    public static void main(String[] options) throws Exception {
        var counted = CacheBuilder.newBuilder().maximumSize(600).build();
        var weighed = CacheBuilder.newBuilder().maximumWeight(60_000).weigher((key, page) -> size(page)).build();
        var free = CacheBuilder.newBuilder().expireAfterWrite(1, TimeUnit.HOURS).build();
        var largest = Caffeine.newBuilder().maximumSize(500).build();
        var heaviest = Caffeine.newBuilder().maximumWeight(50_000).expireAfterWrite(1, TimeUnit.HOURS)
            .weigher((Object key, Object page) -> size(page)).build();
        for (int page = 0; page < 20; page++) {
            counted.put(page, new byte[1_000]);
            weighed.put(page, new byte[1_000]);
            free.put(page, new byte[1_000]);
            largest.put(page, new byte[1_000]);
            heaviest.put(page, new byte[1_000]);
        }
        largest.cleanUp();
        heaviest.cleanUp();
        all = new Object[] {counted, weighed, free, largest, heaviest};
        System.out.println("kept");
        Thread.sleep(600_000);
    }
}
"""


@pytest.fixture(scope="module")
def keeping(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The pid of a JVM that has filled caches in part."""
    if shutil.which("javac") is None:
        pytest.skip("there is no JDK")
    folder = tmp_path_factory.mktemp("java")
    try:
        jars = [f"{debian_package(name)}/usr/share/java/*" for name in ("libguava-java", "libcaffeine-java")]
    except Missing as missing:
        pytest.skip(str(missing))
    path = ":".join((str(folder), *jars))
    (folder / "Keeps.java").write_text(PROGRAM)
    subprocess.run(["javac", "-nowarn", "-cp", path, "-d", folder, folder / "Keeps.java"], check=True)
    with subprocess.Popen(["java", "-cp", path, "Keeps"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "kept\n"
        yield process.pid
        process.kill()


def test_a_heap_dump_says_how_full_each_cache_is(keeping: int, tmp_path: Path) -> None:
    found: list[dict[str, Any]] = java_caches.bounded(keeping, tmp_path)
    assert {(each["name"], each["entries"], each["bound"], each["unit"]) for each in found} == {
        ("Guava's cache", 20, 600, "entries"),
        ("Guava's cache", 20_000, 60_000, "units of weight"),
        ("Caffeine's cache", 20, 500, "entries"),
        ("Caffeine's cache", 20_000, 50_000, "units of weight"),
    }
    assert len({each["id"] for each in found}) == 4
    assert not [*tmp_path.iterdir()]


def test_the_histogram_says_whether_there_are_such_caches(keeping: int) -> None:
    assert jvm.settled_kib(keeping)["caches"] > 0


def test_a_dump_that_cannot_be_written_leaves_nothing_known(keeping: int, tmp_path: Path) -> None:
    with pytest.raises((OSError, ValueError)):
        java_caches.bounded(keeping, tmp_path / "missing")
