"""The page between probe and sidecar: what one writes the other reads, and nothing else is believed."""

import ast
import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path
from random import Random
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.heaps.page import KNOWN_NAMES as NAMES_READ
from truemem.heaps.page import RUNTIME_FIELDS, SLOT, HeapPages, PythonHeap, RuntimeHeap, parse
from truemem.line_schema import MEMBERS as MEMBERS_OF
from truemem.records.pending_record import PendingRecord
from truemem.support.files import PAGE_BYTES

from layer.python import truemem_heap
from layer.python.truemem_heap import PageFile, Probe
from testing.emf_check import valid_emf
from tests.attach.pages import DOCS, block
from tests.records import PRODUCTION, fits, full, line_of, printed

NOW = 1_700_000_000_000
NAMES = ("children", "inUse", "held", "mapped", "gc0", "gc1", "gc2", "threads")
FIGURES = [9_000, 24_000, 7_000, 1_000, 300, 8, 2, 5]
MEMBERS = dict(zip(NAMES, FIGURES, strict=True))
RUNTIME_MEMBERS = {"used": 50_000, "committed": 60_000}
REQUEST = "8476a536-e9f4-11e8-9739-2dfe598c3fcd"


def text(
    request: str = REQUEST,
    number: int = 3,
    same: int | None = None,
    runtime: str = "python",
    time: int | str = NOW,
    **changed: int | str | None,
) -> bytes:
    """A reading as a probe writes it, some of its members changed, more, or (None) left out."""
    members = {**(MEMBERS if runtime == "python" else RUNTIME_MEMBERS), **changed}
    said = " ".join(f"{name}={value}" for name, value in members.items() if value is not None)
    return f"truemem-heap-3 {number} {request} {time} {runtime} {said} {number if same is None else same}\n".encode()


def figures(heap: PythonHeap | RuntimeHeap | None) -> list[int]:
    assert isinstance(heap, PythonHeap)
    return [heap.children_kib, heap.in_use, heap.held, heap.mapped, *heap.gc, heap.threads]


@pytest.fixture
def page(tmp_path: Path) -> PageFile:
    return PageFile(str(tmp_path))


def pages(folder: Path) -> HeapPages:
    """As of a sidecar whose TMPDIR is this folder, which is below /tmp as pytest's are."""
    return HeapPages({b"TMPDIR": bytes(folder)})


def of_process(folder: Path, pid: int, request: str) -> object:
    there = pages(folder)
    return there.find(there.read([pid]), request, 0)


def found(folder: Path, request: str = REQUEST) -> PythonHeap | None:
    noted = of_process(folder, os.getpid(), request)
    assert noted is None or isinstance(noted, PythonHeap)
    return noted if noted is not None and noted.source != "none" else None


def children(folder: Path, request: str = REQUEST) -> int | None:
    noted = of_process(folder, os.getpid(), request)
    return noted.children_kib if isinstance(noted, PythonHeap) else None


def test_what_the_probe_writes_the_sidecar_reads(tmp_path: Path, page: PageFile) -> None:
    page.put(REQUEST, MEMBERS)
    assert figures(found(tmp_path)) == FIGURES
    assert found(tmp_path, "another") is None
    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.stat().st_size == PAGE_BYTES
    page.remove()
    assert list(tmp_path.iterdir()) == []


def test_blocks_of_python_are_read_and_absent_of_an_older_probe() -> None:
    older, newer, wrong = (parse(text(**more), REQUEST, NOW) for more in ({}, {"blocks": 152_340}, {"blocks": "many"}))
    assert isinstance(older, PythonHeap)
    assert isinstance(newer, PythonHeap)
    assert (older.blocks, newer.blocks, wrong) == (None, 152_340, None)
    assert "blocks" not in older.document()
    assert newer.document()["blocks"] == 152_340


@pytest.mark.parametrize(
    ("runtime", "changed", "in_use_kib"),
    [
        ("python", {"blocks": 16 * 100}, 24_000 + 1_000 + 100),
        ("python", dict.fromkeys(NAMES[1:]), None),
        ("nodejs", {}, None),  # no collection yet
        ("nodejs", {"live": 41_000}, 41_000),
    ],
)
def test_what_is_in_use_is_told_to_other_wings(runtime: str, changed: dict[str, Any], in_use_kib: int | None) -> None:
    heap = parse(text(runtime=runtime, **changed), REQUEST, NOW)
    assert heap is not None
    assert heap.in_use_kib == in_use_kib


def test_a_python_without_some_of_the_figures_has_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Probe(PageFile(str(tmp_path))).note(REQUEST)
    counted = found(tmp_path)
    assert counted is not None
    assert counted.blocks == pytest.approx(sys.getallocatedblocks(), rel=0.05)
    monkeypatch.setattr(truemem_heap, "_blocks", None)  # as of PyPy
    Probe(PageFile(str(tmp_path))).note(REQUEST + "-2")
    not_counted = found(tmp_path, REQUEST + "-2")
    assert not_counted is not None
    assert (not_counted.blocks, not_counted.in_use > 0) == (None, True)
    monkeypatch.setattr("ctypes.PyDLL", lambda _: object())  # without glibc
    Probe(PageFile(str(tmp_path))).note(REQUEST + "-3")
    assert found(tmp_path, REQUEST + "-3") is None
    assert children(tmp_path, REQUEST + "-3") is not None
    for file in tmp_path.iterdir():
        file.unlink()
    monkeypatch.setattr(truemem_heap, "resource", None)
    Probe(PageFile(str(tmp_path))).note(REQUEST)
    assert list(tmp_path.iterdir()) == []


def test_a_reading_is_left_alone_by_the_14_after_it(tmp_path: Path, page: PageFile) -> None:
    for number in range(40):
        page.put(f"request-{number}", {**MEMBERS, "inUse": number})
    for number in range(25, 40):
        assert figures(found(tmp_path, f"request-{number}"))[1] == number
    assert found(tmp_path, "request-24") is None


def test_an_earlier_attempts_reading_is_not_this_ones() -> None:
    assert parse(text(), REQUEST, NOW + 500) is not None
    assert parse(text(), REQUEST, NOW + 60_000) is None


@pytest.mark.parametrize(
    "torn",
    [
        text(same=2),
        text()[:-1],
        text(held="-7000"),
        text(held="7e3"),
        text(held="9" * 16),
        text(gc2=None),
        text(inUse=None),
        text(time="soon"),
        text(time="9" * 16),
        text(runtime="perl"),
        text(runtime="nodejs", used=None),
        text(runtime="nodejs", committed=None),
        text(runtime="nodejs", live=""),
        text(runtime="go", gcMs="1.5"),
        text().replace(b"truemem-heap-3", b"truemem-heap-2"),
        text().replace(b"truemem-heap-3", b"truemem-heap-30"),
        text().replace(b"children=", b"children"),
        b" " + text(),
        b"\0" * SLOT + text()[1:],
    ],
)
def test_what_is_not_whole_is_not_there(torn: bytes) -> None:
    assert parse(torn, REQUEST, NOW) is None


SAME_NAMES = ("used", "committed", "live", "limit", "external", "metaspace", "collections")
RUNTIME_NAMES = {**dict(zip(SAME_NAMES, SAME_NAMES, strict=True)), "gcMs": "gc_ms"}
numbers = st.integers(0, 10**10 - 1)  # all of them fit into a slot
others = st.text("abcXYZ_09", min_size=1, max_size=4).filter(
    lambda name: name not in RUNTIME_NAMES and name not in NAMES
)


@given(
    st.sampled_from(["nodejs", "go", "dotnet", "ruby", "php"]),
    st.fixed_dictionaries({"used": numbers, "committed": numbers}),
    st.dictionaries(st.sampled_from([*RUNTIME_NAMES][2:]), numbers),
    st.dictionaries(others, st.text("abc019.=-", max_size=6), max_size=2),
    st.randoms(),
)
def test_a_runtimes_figures_are_read_in_any_order(
    runtime: str, needed: dict[str, int], known: dict[str, int], unknown: dict[str, str], random: Random
) -> None:
    members = [f"{name}={value}" for name, value in {**needed, **known, **unknown}.items()]
    random.shuffle(members)
    slot = f"truemem-heap-3 1 {REQUEST} {NOW} {runtime} {' '.join(members)} 1\n".encode()
    told = {RUNTIME_NAMES[name]: value for name, value in {**needed, **known}.items()}
    assert parse(slot, REQUEST, NOW) == RuntimeHeap(runtime, settled=None, **told)


def test_the_reading_on_the_page_of_the_docs_is_read() -> None:
    reading = block("../libraries/README.md", "reading").encode()
    known = {"used": 41_200, "committed": 65_300, "live": 30_100, "collections": 12}
    assert parse(reading, REQUEST, 1_790_000_000_000) == RuntimeHeap("go", settled=None, **known)


def test_the_names_in_the_docs_are_those_that_are_read() -> None:
    page = (DOCS.parent / "libraries" / "README.md").read_text()
    table = page.partition("\n## Names\n")[2].partition("\n`python` has")
    assert {name.encode() for name in re.findall(r"^\| `(\w+)` ", table[0], re.MULTILINE)} == {*RUNTIME_FIELDS}
    others = table[2].partition("\n## ")[0]
    assert {name.encode() for name in re.findall(r"`(\w+)(?:=\d+)?`", others)} == {*NAMES_READ} - {*RUNTIME_FIELDS}


def line_with(heap: PythonHeap | RuntimeHeap | None, capfd: pytest.CaptureFixture[str]) -> str:
    """The line of an invocation with this reading."""
    record = full()
    record.note("heap", heap)
    (line,) = printed(capfd, [record], PRODUCTION)
    return line


def test_a_runtimes_heap_is_on_the_line_under_its_name(capfd: pytest.CaptureFixture[str]) -> None:
    read = parse(text(runtime="nodejs", live=2048, limit=2**20, gcMs=7, collections=3, inUse=1), REQUEST, NOW)
    heap = valid_emf(line_with(read, capfd))["heap"]
    assert fits(MEMBERS_OF["heap"], heap)
    known = {"live": 2.0, "limit": 1024.0, "collections": 3, "gcMs": 7}
    assert heap == {"runtime": "nodejs", "used": 48.83, "committed": 58.59, **known}


def test_only_a_private_regular_file_of_ours_is_read(tmp_path: Path) -> None:
    file = tmp_path / f".truemem-heap-{os.getpid()}"
    content = text().ljust(PAGE_BYTES, b"\0")
    file.write_bytes(content)
    file.chmod(0o600)
    assert found(tmp_path) is not None

    def is_refused() -> bool:
        return found(tmp_path) is None

    file.chmod(0o644)
    assert is_refused()
    file.chmod(0o600)
    os.link(file, tmp_path / "second name")
    assert is_refused()
    file.unlink()
    file.symlink_to(tmp_path / "second name")
    assert is_refused()
    file.unlink()
    os.mkfifo(file, 0o600)
    assert is_refused()
    file.unlink()
    file.write_bytes(content * 17)
    file.chmod(0o600)
    assert is_refused()


def test_no_link_is_followed_and_old_pages_are_removed(tmp_path: Path, page: PageFile) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    (tmp_path / f".truemem-heap-{ended.pid}").touch()
    (tmp_path / ".truemem-heap-1").touch()
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / f".truemem-heap-{os.getpid()}").symlink_to(victim)
    page.put(REQUEST, MEMBERS)
    assert victim.read_text() == "precious"
    assert found(tmp_path) is not None
    assert {file.name for file in tmp_path.iterdir()} == {"victim", ".truemem-heap-1", f".truemem-heap-{os.getpid()}"}


@pytest.mark.parametrize(
    ("folder", "requests"),
    [("no such folder", (REQUEST, "", None, 5, "ä", "x" * 5000)), ("", ("ä", "x" * SLOT))],
    ids=["no folder", "a request id that does not fit"],
)
def test_no_failure_reaches_the_function(tmp_path: Path, folder: str, requests: tuple[Any, ...]) -> None:
    probe = Probe(PageFile(str(tmp_path / folder)))
    for request in requests:
        probe.note(request)
    assert list(tmp_path.iterdir()) == []


def test_readings_keep_to_their_share_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second each, as in a heap of millions of free blocks; 400 invocations, one a second."""
    clock = SimpleNamespace(now_ns=0, spent_ns=0)  # where nothing takes time but what is said to
    clock.time_ns = clock.monotonic_ns = lambda: clock.now_ns
    clock.thread_time_ns = lambda: clock.spent_ns
    monkeypatch.setattr(truemem_heap, "time", clock)
    probe = Probe(PageFile(str(tmp_path)))
    assert probe._reader is not None
    read, source = probe._reader

    def slow() -> object:
        clock.spent_ns += 10**9
        return read()

    probe._reader = slow, source
    noted = []
    for number in range(400):
        clock.now_ns += 10**9
        probe.note(f"request-{number}")
        noted.append(found(tmp_path, f"request-{number}") is not None)
        assert children(tmp_path, f"request-{number}") is not None
    assert sum(noted) == pytest.approx(4, abs=1)
    assert noted[0]


CHILDREN = """
import os, subprocess, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from truemem_heap import PageFile, Probe
probe = Probe(PageFile(sys.argv[1]))
for number, mib in enumerate((0, 30, 90, 60)):
    if mib:
        subprocess.run([sys.executable, "-c", f"b'x' * ({mib} << 20)"], check=True)
    probe.note(f"request-{number}")
print(os.getpid())
"""


def test_the_largest_child_so_far_is_noted_with_each_invocation(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CHILDREN, str(tmp_path), str(Path(truemem_heap.__file__).parent)]
    pid = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    noted = [of_process(tmp_path, pid, f"request-{number}") for number in range(4)]
    none, small, large, same = (each.children_kib for each in noted if isinstance(each, PythonHeap))
    assert none == 0
    assert small == pytest.approx(40 * 1024, abs=10 * 1024)
    assert large == pytest.approx(100 * 1024, abs=10 * 1024)
    assert same == large


def test_a_client_that_it_does_not_know_is_left_alone(page: PageFile, monkeypatch: pytest.MonkeyPatch) -> None:
    class Client:
        def post_invocation_result(self, answer: bytes) -> None: ...
        def post_invocation_error(self, invoke_id: str) -> None: ...

    before = dict(vars(Client))
    module = ModuleType("awslambdaric.lambda_runtime_client")
    module.Client = Client  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert not truemem_heap._hook(Probe(page))
    assert vars(Client) == before


def test_an_old_glibcs_figures_have_no_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Old:
        mallinfo: Any = ctypes.PyDLL(None).mallinfo

    monkeypatch.setattr("ctypes.PyDLL", lambda _: Old)
    probe = Probe(PageFile(str(tmp_path)))
    assert probe._reader is not None
    assert Old.mallinfo.restype.from_buffer_copy(b"\xff" * 40).uordblks == 2**32 - 1
    probe.note(REQUEST)
    heap = found(tmp_path)
    assert heap is not None
    assert heap.document()["source"] == "mallinfo"
    assert heap.in_use > 0


def test_outside_lambda_it_does_nothing() -> None:
    def handler() -> None: ...

    assert truemem_heap.watch(handler) is handler
    assert not truemem_heap.automatic


def test_the_probe_is_python_3_8() -> None:
    ast.parse(Path(truemem_heap.__file__).read_text(), feature_version=(3, 8))


def test_the_line_has_it_in_mib_and_stays_short(capfd: pytest.CaptureFixture[str]) -> None:
    heap = PythonHeap(62_464, 2**32, 1, [700, 10, 10], 64, "mallinfo2", children_kib=2**20, blocks=10**7)
    text = line_with(heap, capfd)
    document = valid_emf(text)
    malloc = {"inUse": 61.0, "held": 2**22, "mapped": 0.0}
    assert fits(MEMBERS_OF["heap"], document["heap"])
    assert document["heap"] == {**malloc, "blocks": 10**7, "gc": [700, 10, 10], "threads": 64}
    assert len(text) < len(line_with(None, capfd)) + 120
    assert "heap" not in valid_emf(line_of(PendingRecord("1", 1, NOW), {}))
