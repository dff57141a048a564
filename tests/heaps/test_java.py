"""A JVM's counters: which files are taken for them, what is read of real ones, and of bytes that are none."""

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from truemem.heaps import java as module
from truemem.heaps.java import EDEN, EXITS, MAJOR, NUMBERS, OLD_USED, POLICY, HsperfFiles, JavaHeap, Layout
from truemem.heaps.page import RuntimeHeap
from truemem.linux.procfs import Gone

from tests.heaps.hsperf_golden import MOMENTS, Entry, captured, encoded

GOLDEN = captured()
SERIAL = GOLDEN["java-17 SerialGC"]
COLLECTED = MOMENTS.index("collected")
LIMIT = 128 * 1024
UID = os.geteuid()


def parsed(entries: list[Entry], moment: int = 0, order: Any = "little") -> tuple[Layout, dict[bytes, int]]:
    data = encoded(entries, moment, order)
    layout = module.locate(data)
    assert layout is not None
    read = module.values(layout, data[layout.start : layout.end])
    assert read is not None
    return layout, read


# What is read


def heaps(name: str) -> list[RuntimeHeap]:
    """Of one JVM, at each moment."""
    readings = [parsed(GOLDEN[name], moment) for moment in range(len(MOMENTS))]
    jvm = JavaHeap(readings[0][0].policy)
    found = [jvm.read(counters) for _, counters in readings]
    return [heap for heap in found if heap is not None]


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("name", GOLDEN)
def test_what_a_jvm_has_written_is_read(name: str, order: Any) -> None:
    for moment in range(len(MOMENTS)):
        layout, counters = parsed(GOLDEN[name], moment, order)
        written = {entry.name.encode(): entry.values[moment] for entry in GOLDEN[name]}
        assert counters == {counter: int(value) for counter, value in written.items() if counter in NUMBERS}
        assert layout.policy == str(written.get(POLICY, "")).encode()


@pytest.mark.parametrize("version", [17, 25])
@pytest.mark.parametrize("collector", ["SerialGC", "ParallelGC", "G1GC"])
def test_live_is_what_a_collection_left_and_used_has_garbage(version: int, collector: str) -> None:
    """Of 20,000 arrays of 1,000 bytes, 10,000 stay."""
    began, kept, garbage, after = found = heaps(f"java-{version} {collector}")
    assert [(heap.live, heap.collections) for heap in (began, kept, garbage)] == [(None, 0)] * 3
    assert after.collections == 1
    assert after.live == pytest.approx(10_160_000 / 1024, abs=3 * 1024)
    assert after.gc_ms
    assert after.metaspace
    assert {heap.limit for heap in found} == {LIMIT}
    assert all(heap.committed <= LIMIT for heap in found)
    if version == 25 and collector != "G1GC":  # JDK-8241678: only at the end of a collection
        assert (began.used, kept.used) == (None, None)
    else:
        assert (kept.used or 0) - (began.used or 0) == pytest.approx(20_320_000 / 1024, abs=3 * 1024)
    assert (garbage.used or 0) >= 20_000_000 / 1024


@pytest.mark.parametrize("version", [17, 25])
@pytest.mark.parametrize("collector", ["ZGC", "ShenandoahGC", "EpsilonGC"])
def test_of_other_collectors_nothing_is_said_of_what_is_live(version: int, collector: str) -> None:
    for heap in heaps(f"java-{version} {collector}"):
        assert heap.limit == (1 << 20 if collector == "EpsilonGC" else LIMIT)
        assert heap.used is None or heap.used <= heap.committed
        assert (heap.live, heap.collections, heap.gc_ms) == (None, None, None)


def serial(*changes: dict[bytes, int]) -> list[RuntimeHeap | None]:
    """What one JVM says after its collection, with these counters changed, one reading after the other."""
    jvm = JavaHeap(b"Copy:MSC")
    return [jvm.read({**parsed(SERIAL, COLLECTED)[1], **changed}) for changed in changes]


def test_live_stays_until_the_next_major_collection_that_is_seen() -> None:
    """The old generation then has what a collection of the young one has moved there."""
    later = {EXITS[0]: 10**18}
    first, grown, again, once_more = serial({}, {OLD_USED: 40 << 20, **later}, {MAJOR: 2, **later}, {MAJOR: 2, **later})
    assert first and grown and again and once_more
    assert first.live == grown.live
    assert grown.used == pytest.approx(40 << 10, abs=3 * 1024)
    assert [(heap.live, heap.collections) for heap in (again, once_more)] == [(None, 2)] * 2


@pytest.mark.parametrize("wrong", [{OLD_USED: -1}, {EDEN: 1 << 50}, {OLD_USED: 129 << 20}])
def test_what_cannot_be_is_not_told(wrong: dict[bytes, int]) -> None:
    assert serial(wrong) == [None]


# Bytes that are no counters

WHOLE = encoded(SERIAL, COLLECTED)


@pytest.mark.parametrize(
    ("at", "value"),
    [
        *[(0, 0), (4, 2), (5, 3), (6, 1), (7, 0)],  # magic, order of bytes, version, ready
        *itertools.product((8, 24, 28), (-1, 0, 2**31 - 1)),  # used, first entry, number of entries
        *itertools.product((32, 36, 48), (-1, 0, 1, 2**31 - 1)),  # of an entry: its length, its name, its value
    ],
)
def test_a_file_with_a_wrong_place_is_not_read(at: int, value: int) -> None:
    size = 1 if 4 <= at < 8 else 4
    assert module.locate(WHOLE[:at] + value.to_bytes(size, "little", signed=True) + WHOLE[at + size :]) is None


def test_an_entry_that_is_another_now_is_not_read() -> None:
    layout = module.locate(WHOLE)
    assert layout is not None
    part = WHOLE[layout.start : layout.end]
    assert module.values(layout, part) is not None
    assert module.values(layout, part[:-1]) is None
    for _, entry, value, _ in layout.heads:
        for at in (entry, entry + 12, entry + 20, value - 1):
            assert module.values(layout, part[:at] + bytes([part[at] ^ 1]) + part[at + 1 :]) is None


def test_a_number_that_is_text_or_a_list_is_not_read() -> None:
    first, *others = [entry for entry in SERIAL if entry.name.encode() in NUMBERS]
    as_text = first._replace(kind="B", vector=1, values=("x",))
    for changed in as_text, first._replace(kind="I"):
        assert first.name.encode() not in parsed([changed, *others])[1]


# Which files are read


class Scene:
    """A folder with `tmp` and `etc/passwd`, and processes whose status says what it should."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "tmp" / "hsperfdata_user"
        self.folder.mkdir(parents=True)
        (root / "etc").mkdir()
        (root / "etc" / "passwd").write_text(f"root:x:99:0::/:/bin/sh\nuser:x:{UID}:0::/:/bin/sh\n")
        self.files = HsperfFiles(str(root))
        self.looks = 0

    def process(self, pid: int = 7, start_time: int = 1, inner: str = "") -> Any:
        def read(_: str) -> bytes:
            self.looks += 1
            return f"Name:\tx\nUid:\t0\t{UID}\t0\t0\nNSpid:\t{pid}{inner}\n".encode()

        return SimpleNamespace(pid=pid, start_time=start_time, files=SimpleNamespace(read=read))

    def write(self, name: str = "7", moment: int = 3) -> Path:
        file = self.folder / name
        file.write_bytes(encoded(SERIAL, moment))
        file.chmod(0o600)
        return file

    def heap(self, *processes: Any) -> RuntimeHeap | None:
        return self.files.heap(processes or [self.process()])

    def collections(self, *processes: Any) -> int | None:
        heap = self.heap(*processes)
        return heap.collections if heap is not None else None

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
    assert scene.collections() == 0
    file.write_bytes(encoded(SERIAL, 3))
    assert scene.collections() == 1
    assert (scene.looks, scene.open()) == (1, 1)
    assert scene.heap(scene.process(8)) is None  # it has ended
    assert scene.open() == 0
    assert scene.files.take() is None


def test_a_process_that_is_no_jvm_is_looked_at_a_few_times(scene: Scene) -> None:
    process = scene.process()
    assert [scene.heap(process) for _ in range(20)] == [None] * 20
    assert scene.looks == module.LOOKS_PER_PROCESS
    scene.write()
    assert scene.heap(scene.process(start_time=2)) is not None  # another process, of the same pid


def test_of_many_new_processes_some_are_looked_at_each_time(scene: Scene) -> None:
    scene.write("50")
    processes = [scene.process(pid) for pid in range(20, 64)]
    assert scene.heap(*processes) is None
    assert scene.looks == module.MOST_NEW
    assert [scene.heap(*processes) is not None for _ in range(20)][-1]


def test_the_runtime_comes_before_its_children(scene: Scene) -> None:
    scene.write("7", moment=0)
    scene.write("8", moment=3)
    assert scene.collections(scene.process(7), scene.process(8)) == 0


def test_what_was_taken_at_a_moment_is_what_is_told(scene: Scene) -> None:
    assert scene.files.take() is None
    file = scene.write(moment=0)
    scene.heap()
    taken = scene.files.take()
    file.write_bytes(encoded(SERIAL, 3))
    then, now = scene.files.heap([scene.process()], taken), scene.heap()
    another = scene.files.heap([scene.process(start_time=2)], taken)
    assert [heap and heap.collections for heap in (then, now, another)] == [0, 1, 1]


def test_no_more_files_are_open_than_a_few(scene: Scene) -> None:
    processes = [scene.process(pid) for pid in range(100, 140)]
    for process in processes:  # without an old generation: the next one is asked
        scene.write(f"{process.pid}").write_bytes(encoded(SERIAL[:20]))
    for _ in range(20):
        assert scene.heap(*processes) is None
    assert scene.open() == module.MOST_OPEN


def test_a_containers_file_has_the_innermost_pid(scene: Scene) -> None:
    scene.write("1")
    assert scene.heap(scene.process(700, inner="\t1")) is not None


def by_symlink(scene: Scene, file: Path) -> None:
    file.rename(scene.folder / "other")
    file.symlink_to(scene.folder / "other")


def by_folder_link(scene: Scene, file: Path) -> None:
    scene.folder.rename(scene.root / "moved")
    scene.folder.symlink_to(scene.root / "moved")


def by_fifo(scene: Scene, file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)


def by_owner(scene: Scene, file: Path) -> None:
    if UID:
        pytest.skip("only root can give a file away")
    os.chown(file, 12345, 0)


ATTACKS: dict[str, Callable[[Scene, Path], object]] = {
    "a link": by_symlink,
    "a FIFO": by_fifo,
    "writable": lambda scene, file: file.chmod(0o622),
    "large": lambda scene, file: os.truncate(file, module.MOST_FILE_BYTES + 1),
    "short": lambda scene, file: os.truncate(file, 500),
    "a linked folder": by_folder_link,
    "of another user": by_owner,
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_a_jvm_would_not_have_made_is_not_read(scene: Scene, attack: str) -> None:
    ATTACKS[attack](scene, scene.write())
    assert scene.heap() is None
    assert scene.open() == 0


def test_a_file_that_becomes_something_else_is_not_believed(scene: Scene) -> None:
    file = scene.write()
    assert scene.heap() is not None
    for content in b"", b"\0" * 32768, encoded(SERIAL[1:], 3), encoded(SERIAL, 3)[:2000]:
        file.write_bytes(content)
        assert scene.heap() is None
    scene.write()
    assert scene.heap() is not None


def test_without_a_user_or_process_no_file_is_read(scene: Scene) -> None:
    def gone(_: str) -> bytes:
        raise Gone("status is empty")

    scene.write()
    assert scene.heap(SimpleNamespace(pid=7, start_time=1, files=SimpleNamespace(read=gone))) is None
    (scene.root / "etc" / "passwd").write_text("user:x:12345:0::/:/bin/sh\n")
    assert scene.heap() is None
    (scene.root / "etc" / "passwd").unlink()
    assert HsperfFiles(str(scene.root)).heap([scene.process()]) is None


@pytest.mark.parametrize(
    ("passwd", "name"),
    [
        (b"a:x:1:1::\nb:x:993:1::/:\nc:x:993:1::/:\n", "b"),
        (b"../a:x:993:990::/:/bin/sh", ""),
        (b"a" * 200 + b":x:993:990::/:", ""),
        (b"a:x:993", ""),
    ],
)
def test_the_name_of_a_user_is_the_first_that_passwd_has(passwd: bytes, name: str) -> None:
    assert module.parse_user(passwd, 993) == name
