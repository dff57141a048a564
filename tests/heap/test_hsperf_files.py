"""Which files are taken for a JVM's counters, and how often they are looked for."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from truemem.linux import hsperf
from truemem.linux.hsperf_files import LOOKS, MOST_NEW, MOST_OPEN, HsperfFiles, parse_user
from truemem.linux.proc_text import Gone
from truemem.linux.procfs import Procfs
from truemem.linux.runtime_heap import RuntimeHeap

from tests.heap.hsperf_golden import captured, encoded
from tests.heap.jvms import VERSIONS, classes, java

GOLDEN = captured()["java-17 SerialGC"]
UID = os.geteuid()
SOURCE = Path(__file__).parent / "java" / "Moments.java"


class Scene:
    """A folder with `tmp` and `etc/passwd`, and processes whose status says what it should."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "tmp" / "hsperfdata_someone"
        self.folder.mkdir(parents=True)
        (root / "etc").mkdir()
        (root / "etc" / "passwd").write_text(f"root:x:99:0::/:/bin/sh\nsomeone:x:{UID}:0::/:/bin/sh\n")
        self.files = HsperfFiles(str(root))
        self.looks = 0

    def process(self, pid: int = 7, start_time: int = 1, inner: str = "") -> Any:
        def read(_: str) -> bytes:
            self.looks += 1
            return f"Name:\tx\nUid:\t0\t{UID}\t0\t0\nNSpid:\t{pid}{inner}\n".encode()

        return SimpleNamespace(pid=pid, start_time=start_time, files=SimpleNamespace(read=read))

    def write(self, name: str = "7", moment: int = 3, mode: int = 0o600) -> Path:
        file = self.folder / name
        file.write_bytes(encoded(GOLDEN, moment))
        file.chmod(mode)
        return file

    def heap(self, *processes: Any) -> RuntimeHeap | None:
        return self.files.heap(processes or [self.process()])

    def open(self) -> int:
        """Descriptors that are open on files of this scene."""
        links = [path.readlink() for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
        return sum(link.is_relative_to(self.root) for link in links)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.files._forget(set())
    assert made.open() == 0


def test_a_jvms_file_is_found_once_and_read_each_time(scene: Scene) -> None:
    file = scene.write(moment=0)
    first = scene.heap()
    file.write_bytes(encoded(GOLDEN, 3))
    second = scene.heap()
    assert first is not None
    assert second is not None
    assert (first.collections, second.collections) == (0, 1)
    assert (scene.looks, scene.open()) == (1, 1)


def test_a_process_that_is_no_jvm_is_looked_at_a_few_times_and_then_no_more(scene: Scene) -> None:
    process = scene.process()
    assert [scene.heap(process) for _ in range(20)] == [None] * 20
    assert scene.looks == LOOKS
    scene.write()
    assert scene.heap(scene.process(start_time=2)) is not None  # another process, of the same pid


def test_of_many_new_processes_some_are_looked_at_each_time(scene: Scene) -> None:
    scene.write("50")
    processes = [scene.process(pid) for pid in range(20, 64)]
    assert scene.heap(*processes) is None
    assert scene.looks == MOST_NEW
    assert [scene.heap(*processes) is not None for _ in range(20)][-1]


def test_the_runtime_comes_before_its_children(scene: Scene) -> None:
    scene.write("7", moment=0)
    scene.write("8", moment=3)
    heap = scene.heap(scene.process(7), scene.process(8))
    assert heap is not None
    assert heap.collections == 0


def test_what_was_taken_at_a_moment_is_what_is_told(scene: Scene) -> None:
    assert scene.files.take() is None
    file = scene.write(moment=0)
    scene.heap()
    taken = scene.files.take()
    file.write_bytes(encoded(GOLDEN, 3))
    then, now = scene.files.heap([scene.process()], taken), scene.heap()
    another = scene.files.heap([scene.process(start_time=2)], taken)
    assert then is not None
    assert now is not None
    assert another is not None
    assert (then.collections, now.collections, another.collections) == (0, 1, 1)


def test_the_file_of_a_process_that_has_ended_is_closed(scene: Scene) -> None:
    scene.write()
    assert scene.heap() is not None
    assert scene.heap(scene.process(8)) is None
    assert scene.open() == 0
    assert scene.files.take() is None


def test_no_more_files_are_open_than_a_few(scene: Scene) -> None:
    for pid in range(100, 140):
        scene.write(str(pid)).write_bytes(encoded(GOLDEN[:20]))  # without an old generation: the next one is asked
    for _ in range(20):
        scene.heap(*[scene.process(pid) for pid in range(100, 140)])
    assert scene.open() == MOST_OPEN


def test_in_a_container_the_file_has_the_name_of_the_innermost_pid(scene: Scene) -> None:
    scene.write("1")
    assert scene.heap(scene.process(700, inner="\t1")) is not None


def made_link(scene: Scene, file: Path) -> None:
    os.link(file, scene.folder / "other")


def made_symlink(scene: Scene, file: Path) -> None:
    file.rename(scene.folder / "other")
    file.symlink_to(scene.folder / "other")


def made_fifo(scene: Scene, file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)


def made_folder(scene: Scene, file: Path) -> None:
    file.unlink()
    file.mkdir()


def made_writable(scene: Scene, file: Path) -> None:
    file.chmod(0o622)


def made_large(scene: Scene, file: Path) -> None:
    os.truncate(file, hsperf.MOST_BYTES + 1)


def made_short(scene: Scene, file: Path) -> None:
    os.truncate(file, 500)


def made_linked_folder(scene: Scene, file: Path) -> None:
    scene.folder.rename(scene.root / "moved")
    scene.folder.symlink_to(scene.root / "moved")


def made_anothers(scene: Scene, file: Path) -> None:
    if UID:
        pytest.skip("only root can give a file away")
    os.chown(file, 12345, 0)


ATTACKS = [
    *(made_link, made_symlink, made_fifo, made_folder, made_writable, made_large, made_short, made_linked_folder),
    made_anothers,
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_a_jvm_would_not_have_made_is_not_read(scene: Scene, attack: Any) -> None:
    attack(scene, scene.write())
    assert scene.heap() is None
    assert scene.open() == 0


def test_a_file_that_becomes_something_else_is_not_believed(scene: Scene) -> None:
    file = scene.write()
    assert scene.heap() is not None
    for content in b"", b"\0" * 32768, encoded(GOLDEN[1:], 3), encoded(GOLDEN, 3)[:2000]:
        file.write_bytes(content)
        assert scene.heap() is None
    scene.write()
    assert scene.heap() is not None


def test_without_passwd_or_a_name_in_it_there_is_no_file_to_look_for(scene: Scene) -> None:
    scene.write()
    (scene.root / "etc" / "passwd").write_text("someone:x:12345:0::/:/bin/sh\n")
    assert scene.heap() is None
    (scene.root / "etc" / "passwd").unlink()
    assert HsperfFiles(str(scene.root)).heap([scene.process()]) is None


def test_a_process_that_is_gone_has_no_heap(scene: Scene) -> None:
    def gone(_: str) -> bytes:
        raise Gone("status is empty")

    process: Any = SimpleNamespace(pid=7, start_time=1, files=SimpleNamespace(read=gone))
    assert scene.heap(process) is None


@pytest.mark.parametrize(
    ("passwd", "name"),
    [
        (b"a:x:993:990::/:/bin/sh", "a"),
        (b"a:x:1:1::\nb:x:993:1::/:\nc:x:993:1::/:\n", "b"),
        (b"../a:x:993:990::/:/bin/sh", ""),
        (b"a" * 200 + b":x:993:990::/:", ""),
        (b"a:x:993", ""),
        (b"", ""),
    ],
)
def test_the_name_of_a_user_is_the_first_that_passwd_has(passwd: bytes, name: str) -> None:
    assert parse_user(passwd, 993) == name


@pytest.mark.parametrize("version", VERSIONS)
def test_a_real_jvms_file_is_found(version: str) -> None:
    command = [java(version), "-Xmx32m", "-cp", str(classes(SOURCE)), "Moments"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as jvm:
        assert jvm.stdout is not None
        jvm.stdout.readline()
        process: Any = SimpleNamespace(pid=jvm.pid, start_time=1, files=Procfs().process(jvm.pid))
        heap = HsperfFiles().heap([process])
        jvm.kill()
    assert heap is not None
    assert heap.limit is not None
    assert 30 * 1024 < heap.limit <= 32 * 1024
