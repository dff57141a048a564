"""What is read of a process from outside is what it says of itself."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
from truemem_workbench.runs.settle import jvm
from truemem_workbench.runs.settle.outside import seen_from_outside


@contextmanager
def talking(*command: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


KEEPS = """
import java.util.*;
import java.nio.ByteBuffer;
import java.lang.ref.SoftReference;
public class Keeps {
    static class Soft extends SoftReference<byte[]> { Soft(byte[] kept) { super(kept); } }
    static final List<byte[]> KEPT = new ArrayList<>(100_000);
    static final List<Soft> SOFT = new ArrayList<>(100_000);
    static final List<ByteBuffer> DIRECT = new ArrayList<>(100_000);
    public static void main(String[] none) throws Exception {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextInt()) {
            int count = lines.nextInt();
            for (int at = 0; at < count; at++) {
                SOFT.add(new Soft(new byte[0]));
                KEPT.add(new byte[16_384]);
                DIRECT.add(ByteBuffer.allocateDirect(32_768));
                byte[] garbage = new byte[50_000];
            }
            System.out.println(count);
        }
    }
}
"""


@pytest.mark.skipif(shutil.which("java") is None, reason="there is no java")
@pytest.mark.parametrize("collector", ["-XX:+UseSerialGC", "-XX:+UseG1GC"])
def test_a_jvm_keeps_what_the_program_keeps(tmp_path: Path, collector: str) -> None:
    """An array, a soft reference and a direct buffer each time; garbage comes between two readings, classes do not."""
    (tmp_path / "Keeps.java").write_text(KEEPS)
    subprocess.run(["javac", "-d", str(tmp_path), str(tmp_path / "Keeps.java")], check=True)
    heaps, softs, direct, classes = [], [], [], set()
    with talking("java", jvm.TRACKING, collector, "-cp", str(tmp_path), "Keeps") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for count in (100, 100, 0, 50):
            process.stdin.write(f"{count}\n")
            process.stdin.flush()
            process.stdout.readline()
            assert jvm.is_hotspot(process.pid)
            said = jvm.settled_kib(process.pid)
            heaps.append(said["heap"])
            softs.append(said["soft"])
            direct.append((said["buffers"], said["direct"]))
            assert said["own"] > 0
            classes.add(said["classes"])
    grown = [after - before for before, after in pairwise(heaps)]
    assert grown == pytest.approx([100 * 16_400 / 1024, 0, 50 * 16_400 / 1024], abs=30)
    assert [after - before for before, after in pairwise(softs)] == pytest.approx([100, 0, 50], abs=5)
    buffers, kib = ([after - before for before, after in pairwise(each)] for each in zip(*direct, strict=True))
    assert buffers == [100, 0, 50]
    assert kib == pytest.approx([100 * 32, 0, 50 * 32], abs=20)
    assert len(classes) <= 2


def test_what_is_no_jvm_is_not_asked() -> None:
    with talking(sys.executable, "-c", "input()") as process:
        assert not jvm.is_hotspot(process.pid)
    assert not jvm.is_hotspot(process.pid)


def test_processes_threads_and_descriptors_are_counted() -> None:
    program = "import os, threading, time; [threading.Thread(target=time.sleep, args=(99,)).start() for _ in range(3)]"
    program += "; files = [os.pipe() for _ in range(4)]; os.system('echo up; sleep 99')"
    with talking(sys.executable, "-c", program) as process:
        assert process.stdout is not None
        process.stdout.readline()
        runtime = psutil.Process(process.pid)
        found = seen_from_outside(runtime)
        for child in runtime.children(recursive=True):
            child.kill()
    assert found["processes"] >= 2
    assert found["threads"] >= 4 + 1
    assert found["descriptors"] >= 8 + 3
    assert found["rss"] > found["files"] > 0


FREED = """
import ctypes
malloc, free = ctypes.CDLL(None).malloc, ctypes.CDLL(None).free
malloc.restype, free.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)
kept = [malloc(1000) for _ in range(64_000)]
print(flush=True)
input()
[free(each) for at, each in enumerate(kept) if at % 4]
print(flush=True)
input()
"""


def test_pages_with_little_in_use_are_not_kept_memory() -> None:
    with talking(sys.executable, "-c", FREED) as process:
        assert process.stdin is not None
        before = _seen_waiting(process)
        process.stdin.write("\n")
        process.stdin.flush()
        after = _seen_waiting(process)
    assert before["malloc"] - after["malloc"] == pytest.approx(64_000 * 3 / 4 * 1008 / 1024, rel=0.05)
    assert before["rss"] - after["rss"] == pytest.approx(before["malloc"] - after["malloc"], rel=0.05)


def _seen_waiting(process: subprocess.Popen[str]) -> dict[str, float]:
    """What is seen of it once it has said something, and waits."""
    assert process.stdout is not None
    process.stdout.readline()
    runtime = psutil.Process(process.pid)
    until = time.monotonic() + 10
    while runtime.status() != psutil.STATUS_SLEEPING:
        assert time.monotonic() < until
        time.sleep(0.01)
    return seen_from_outside(runtime)


FORKS = """
import os, sys
kept = []
if os.fork():
    os.wait()
for line in sys.stdin:
    kept += [b"x" * 60_000 + bytes(8) for _ in range(int(line))]
    print(line, flush=True)
"""


def test_malloc_is_that_of_all_processes() -> None:
    """With several workers, as of a web server, what one of them keeps is in no figure of the first."""
    seen = []
    with talking(sys.executable, "-c", FORKS) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for count in (1, 100):
            process.stdin.write(f"{count}\n")
            process.stdin.flush()
            process.stdout.readline()
            process.stdout.readline()
            seen.append(seen_from_outside(psutil.Process(process.pid)))
        process.stdin.close()
        process.wait()  # the worker too
    assert [each["processes"] for each in seen] == [2, 2]
    grown = {name: seen[1][name] - seen[0][name] for name in ("malloc", "rss")}
    assert grown == pytest.approx({"malloc": 5860, "rss": 5860}, abs=200)
