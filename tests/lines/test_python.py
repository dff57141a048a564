"""The line that keeps, found in a Python function: a process for each, under a client like AWS's."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from testing.plants import CACHES, LEAKS, Planted, planted

ROOT = Path(__file__).parents[2]
PYTHON = os.environ.get("TRUEMEM_TEST_PYTHON", sys.executable)
"""The interpreter that runs the functions. Another one than our own has no packages."""
IS_OURS = sys.executable == PYTHON
VERSION = tuple(json.loads(subprocess.check_output([PYTHON, "-c", "import sys; print([*sys.version_info[:2]])"])))
MONITORS = VERSION >= (3, 12)
"""Has Python sys.monitoring?"""
TELLS = VERSION >= (3, 11)
"""Does Python tell whether a line has run, after it did?"""
needs_monitoring = pytest.mark.skipif(not MONITORS, reason="Python has no sys.monitoring")
CLIENT = Path(__file__).with_name("client.py")
EACH = 8
"""After so many invocations the preload looks whether it is asked."""
ASKS = 3 * EACH
"""Invocation from which the lines are asked for: the look after it finds the file half written."""
BEGINS = ASKS + EACH
"""Invocation after which the profile begins."""
INVOCATIONS = BEGINS + 64
NO_PACKAGE = {"boto3 session", "pandas frame"}
"""Kinds that need a package, which not every machine has."""


@dataclass(frozen=True)
class Run:
    answer: dict[str, Any] | None
    mode: int | None
    """Permissions of the answer's file."""
    files: list[str]
    """Names of files in the folder at the end, with PID for the process's."""
    sent: list[str]
    """What the function has answered."""
    traces: bool
    """Is something watched at the end?"""
    loaded: bool
    collects: bool
    """Is the collector on at the end?"""

    @property
    def told(self) -> dict[str, Any]:
        """The answer, which there is."""
        assert self.answer is not None
        return self.answer

    @property
    def lines(self) -> list[tuple[str, int]]:
        return [(line["file"], line["line"]) for line in self.told["lines"] if "file" in line]

    @property
    def classes(self) -> list[str]:
        return [each["class"] for each in self.told["lines"] if "class" in each]


def run(
    folder: Path,
    source: str,
    *,
    ask: str = "truemem-lines-1 60 100 16384\n",
    invocations: int = INVOCATIONS,
    withdraws: int = -1,
    asks: int = ASKS,
    disk_kib: int = 0,
    options: tuple[str, ...] = (),
    **variables: str,
) -> Run:
    """Invoke the handler of this source, and ask for the lines. `disk_kib`: size of /tmp. `options`: of Python."""
    task, tmp = folder / "task", Path("/tmp", f"truemem-test-lines-{os.getpid()}-{folder.name}")
    task.mkdir()
    tmp.mkdir()
    (task / "app.py").write_text(textwrap.dedent(source))
    about = {"layer": str(ROOT / "layer" / "python"), "ask": ask, "asks": asks, "invocations": invocations}
    inside = {"LAMBDA_TASK_ROOT": str(task), "TMPDIR": str(tmp), "AWS_LAMBDA_RUNTIME_API": "x", "TRUEMEM_LINES": "on"}
    if disk_kib:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={disk_kib}k,mode=755", "tmpfs", str(tmp)]
        if subprocess.run(mount, check=False, capture_output=True).returncode:
            tmp.rmdir()
            pytest.skip("no permission to mount")
    try:
        done = subprocess.run(
            [PYTHON, *options, str(CLIENT), str(task), json.dumps({**about, "withdraws": withdraws})],
            env={"PATH": os.environ["PATH"], **inside, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        if disk_kib:
            subprocess.run(["umount", str(tmp)], check=True)
        shutil.rmtree(tmp)
    assert done.returncode == 0, done.stderr
    return Run(**json.loads(done.stdout.splitlines()[-1]))


def needs_package(name: str) -> None:
    if not IS_OURS:
        pytest.skip("another interpreter, without packages")
    pytest.importorskip(name)


def of_kinds(kinds: dict[str, tuple[Any, ...]]) -> Iterator[Any]:
    """One handler for each kind, in Python."""
    wanted = {kind.name for kind in kinds[".py"]} - NO_PACKAGE
    for each in planted(kinds, 60):
        if each.kind.name in wanted and each.handler.endswith(".py") and each.handler != "scoring.py":  # that has numpy
            wanted.remove(each.kind.name)
            yield pytest.param(each, id=each.kind.name)


@pytest.mark.parametrize("each", [*of_kinds(LEAKS)])
def test_the_line_that_keeps_is_the_first(each: Planted, tmp_path: Path) -> None:
    found = run(tmp_path, each.source)
    assert found.told["gaveUp"] == ""
    if each.kind.name == "ctypes malloc":
        assert found.lines == []
        assert found.told["restKiB"] == pytest.approx(40_000 / 1024, rel=0.15)
        return
    assert found.lines[0] == ("app.py", each.line), found.answer
    if each.kind.kib is not None:
        assert found.told["lines"][0]["perInvocationKiB"] == pytest.approx(each.kind.kib, rel=0.1)


@pytest.mark.parametrize("asks", [0, 40])
@pytest.mark.parametrize("each", [*of_kinds(CACHES)])
def test_a_cache_with_a_bound_is_not_accused(each: Planted, asks: int, tmp_path: Path) -> None:
    assert run(tmp_path, each.source, asks=asks, invocations=asks + 64 + EACH).lines == []


def test_what_a_library_keeps_is_the_users_line(tmp_path: Path) -> None:
    needs_package("boto3")
    source = (ROOT / "tests" / "cases" / "shared_botocore_session" / "app.py").read_text()
    assert run(tmp_path, source, AWS_DEFAULT_REGION="eu-west-1").lines[0] == ("app.py", 10)


def test_each_line_that_keeps_has_its_own_figure(tmp_path: Path) -> None:
    source = """
        import collections, queue
        class Store:
            def __init__(self):
                self.by_user = {}
            def add(self, user, item):
                self.by_user.setdefault(user, []).append(item)
        STORE, QUEUE, BY_DAY = Store(), queue.Queue(), {}
        def made():
            data = bytearray(9_000)
            return data
        def handler(event, context):
            STORE.add("ab"[event["number"] % 2], made())
            QUEUE.put(bytearray(6_000))
            BY_DAY.setdefault("today", collections.deque()).append({"data": bytearray(3_000)})
            return 1
    """
    found = run(tmp_path, source)
    assert found.lines == [("app.py", 7), ("app.py", 14), ("app.py", 15)]
    sizes = [line["perInvocationKiB"] * 1024 for line in found.told["lines"]]
    assert sizes == pytest.approx([9_000, 6_000, 3_000], rel=0.15)
    assert found.told["lines"][0]["stack"] == ["app.py:13 handler", "app.py:7 add"]


BALANCED = {
    "put and taken out, then kept": ("for i in range(3):\n  put(i)\n  del KEPT[i]", "KEPT[number] = [1] * 900"),
    "kept, then put and taken out": ("KEPT[number] = [1] * 900", "put(0)\n del KEPT[0]"),
    "the oldest of another line is taken out, then kept": (
        "put(number)\n KEPT.pop(number - 9, 0)",
        "KEPT[-number] = [1] * 900",
    ),
}


@pytest.mark.parametrize("kind", BALANCED)
def test_what_is_taken_out_again_is_no_lines(kind: str, tmp_path: Path) -> None:
    source = (
        "KEPT = {}\ndef put(key):\n KEPT[key] = 'x'\ndef handler(event, context):\n number = event['number'] + 50\n"
    )
    found = run(tmp_path, source + "".join(f" {each}\n" for each in BALANCED[kind]) + " return 1\n")
    lines = (tmp_path / "task" / "app.py").read_text().splitlines()
    assert ["900" in lines[number - 1] for _, number in found.lines] == [True], found.answer


def test_lines_that_add_in_turn_are_counted(tmp_path: Path) -> None:
    source = """
        KEPT = []
        def handler(event, context):
            for number in range(80):
                KEPT.append(number)
                KEPT.extend([event["number"]] * 90)
            return 1
    """
    assert run(tmp_path, source).lines == [("app.py", 6)]


def test_where_it_cannot_be_told_who_keeps_no_line_is_named(tmp_path: Path) -> None:
    """It is known that an older item is taken out, but not who had added it."""
    source = """
        KEPT = {}
        def handler(event, context):
            number = event["number"] + 50
            for key in range(number, number + 1000, 100):
                KEPT[key, 1] = "x"
            KEPT[number] = [1] * 900
            for key in range(number - 9, number + 991, 100):
                KEPT.pop((key, 1), 0)
            return 1
    """
    found = run(tmp_path, source)
    assert found.lines == []


def test_a_line_after_many_others_is_found(tmp_path: Path) -> None:
    source = """
        KEPT = []
        def square(number):
            return number * number
        def handler(event, context):
            total = 0
            for number in range(20_000):
                total += square(number)
            KEPT.append(bytearray(40_000))
            return total
    """
    assert run(tmp_path, source).lines == ([("app.py", 9)] if TELLS else [])


GROWING = {
    "a text of the module": ("global TEXT; TEXT += 'x' * 4000", "TEXT = ''", 4000),
    "a text that is not of ASCII": ("global TEXT; TEXT = TEXT + 'Ω' * 4000", "TEXT = 'Ω'", 8000),
    "bytes": ("global TEXT; TEXT += bytes(4000)", "TEXT = b''", 4000),
    "a bytearray": ("TEXT.extend(bytes(4000))", "TEXT = bytearray()", 4000),
    "an array": ("TEXT.extend(range(1000))", "import array; TEXT = array.array('q')", 8000),
    "a text of an instance": ("STORE.text += 'x' * 4000", "class Store: text = ''\nSTORE = Store()", 4000),
    "a bytearray of an instance": (
        "STORE.add(bytes(4000))",
        "class Store:\n def __init__(self): self.held, self.other = bytearray(), 1\n"
        " def add(self, data): self.held.extend(data)\nSTORE = Store()",
        4000,
    ),
    "a text of a class": ("Store.text += 'x' * 4000", "class Store: text = ''", 4000),
    "a slot": (
        "STORE.text += 'x' * 4000",
        "class Store: __slots__ = ('text',)\nSTORE = Store(); STORE.text = ''",
        4000,
    ),
    "a dict's value": ("BY_DAY['today'] += 'x' * 4000", "BY_DAY = {'today': ''}", 4000),
    "values of a dict of lists": ("BY_DAY[1] += bytes(4000)", "BY_DAY = {0: [1], 1: b''}", 4000),
    "a closure's variable": (
        "add()",
        "def adding():\n text = ''\n def add():\n  nonlocal text\n  text += 'x' * 4000\n return add\nadd = adding()",
        4000,
    ),
    "a list that is replaced": ("global KEPT; KEPT = KEPT + [bytearray(4000)]", "KEPT = []", 4080),
    "another list each time": (
        "STORE.kept = [*STORE.kept, bytes(4000)]",
        "class Store: kept = []\nSTORE = Store()",
        4080,
    ),
}


@pytest.mark.parametrize("kind", GROWING)
def test_a_value_that_grows_under_its_name_is_found(kind: str, tmp_path: Path) -> None:
    line, begin, size = GROWING[kind]
    found = run(tmp_path, f"{begin}\ndef handler(event, context):\n    {line}\n    return 1\n")
    source = (tmp_path / "task" / "app.py").read_text().splitlines()
    adds = ("def add(self, data): self.held.extend(data)", "text += 'x'", line)
    assert [source[number - 1].strip().startswith(adds) for _, number in found.lines] == [True], found.answer
    assert found.told["lines"][0]["perInvocationKiB"] * 1024 == pytest.approx(size, rel=0.15)  # bytearrays take more
    assert found.told["restKiB"] == pytest.approx(0, abs=3)


CHANGING = {
    "another text each time": ("global TEXT; TEXT = 'x' * (5000 + event['number'] % 7 * 1000)", "TEXT = ''"),
    "a text with a bound": ("global TEXT; TEXT = (TEXT + 'x' * 2000)[-30_000:]", "TEXT = ''"),
    "a buffer that is emptied": (
        "BUFFER.extend(bytes(4000)) if len(BUFFER) < 60_000 else BUFFER.clear()",
        "BUFFER = bytearray()",
    ),
    "a list that is replaced, with a bound": ("global KEPT; KEPT = (KEPT + [bytes(4000)])[-20:]", "KEPT = []"),
}


@pytest.mark.parametrize("kind", CHANGING)
def test_a_value_that_only_changes_is_not_accused(kind: str, tmp_path: Path) -> None:
    line, begin = CHANGING[kind]
    found = run(tmp_path, f"{begin}\ndef handler(event, context):\n    {line}\n    return 1\n")
    assert found.lines == []


REST = {
    "a chain": ("HEAD = None", "global HEAD; HEAD = (HEAD, data)"),
    "a list by tenant": ("KEPT = {tenant: [] for tenant in range(60)}", "KEPT[event['number'] % 60].append(data)"),
    "native memory": ("import ctypes; C = ctypes.CDLL(None); C.malloc.restype = ctypes.c_void_p", "C.malloc(7000)"),
}


@pytest.mark.parametrize("objects", [0, 100_000])
@pytest.mark.parametrize("kind", REST)
def test_growth_in_no_container_is_the_rest(kind: str, objects: int, tmp_path: Path) -> None:
    """However many objects our looks know."""
    begin, line = REST[kind]
    source = f"""
        MANY = [[] for _ in range({objects})]
        {begin}
        def handler(event, context):
            data = [str(number) for number in range(1000, 1100)]
            {line}
            return 1
    """
    found = run(tmp_path, source)
    assert (found.lines, found.classes) == ([], [])
    assert found.told["restKiB"] == pytest.approx(7, rel=0.2)


CHAINS = {
    "errors that one another caused": (
        "LAST = None\ndef fail(before):\n load = [0] * 400\n raise ValueError from before",
        "global LAST\n    try: fail(LAST)\n    except ValueError as error: LAST = error",
        4,
        4.5,
    ),
    "errors in cycles, without a collector": (
        "import gc; gc.disable()\ndef check():\n load = list(range(1000, 2000))\n try:\n  raise ValueError\n"
        " except ValueError as error: kept = error",
        "check()",
        5,
        40,
    ),
    "functions that call the one before": (
        "CALL = None\ndef wrap(before, load):\n return lambda: before, load\nload = [0] * 300",
        "global CALL; CALL = (lambda before, load: lambda: (before, load))(CALL, [0] * 300)",
        6,
        2.5,
    ),
    "generators that wait": (
        "HEAD = None\ndef step(before):\n load = [0] * 300\n yield load\n yield before",
        "global HEAD; one = step(HEAD); next(one); HEAD = one",
        4,
        2.6,
    ),
    "what C calls at the end": ("import atexit", "data = [0] * 400; atexit.register(lambda: data)", 3, 3.5),
}
"""With the line that the objects themselves tell, and KiB of an invocation."""


@pytest.mark.parametrize("kind", CHAINS)
def test_a_chain_is_told_by_the_line_of_its_objects(kind: str, tmp_path: Path) -> None:
    begin, does, line, kib = CHAINS[kind]
    found = run(tmp_path, f"{begin}\ndef handler(event, context):\n    {does}\n    return 1\n")
    assert found.lines == [("app.py", line)], found.answer
    assert found.told["lines"][0]["perInvocationKiB"] + found.told["restKiB"] == pytest.approx(kib, rel=0.2)
    assert found.told["restKiB"] < 0.3 * kib


def test_a_chain_of_instances_is_told_by_its_class(tmp_path: Path) -> None:
    source = """
        class Node:
            def __init__(self, before):
                self.before, self.load = before, bytes(2000)
        HEAD = None
        def handler(event, context):
            global HEAD
            HEAD = Node(HEAD)
            return 1
    """
    found = run(tmp_path, source)
    assert (found.lines, found.classes) == ([], ["app.Node"])
    assert found.told["lines"][0]["perInvocationObjects"] == 1
    assert found.told["lines"][0]["perInvocationKiB"] == pytest.approx(2.1, rel=0.1)


def test_a_line_that_never_ran_is_not_named(tmp_path: Path) -> None:
    """It is the only one in the source that adds to SEEN, but the thread has an alias."""
    source = """
        import queue, threading
        SEEN, TODO = [], queue.Queue()
        def remember(item):
            SEEN.append(item)
        def worker(put):
            while True:
                put(TODO.get())
        threading.Thread(target=worker, args=(SEEN.append,), daemon=True).start()
        def handler(event, context):
            TODO.put(bytes(3000))
            return 1
    """
    found = run(tmp_path, source)
    assert found.lines == []
    assert found.told["restKiB"] == pytest.approx(3, rel=0.2)


KEEPS = """
    KEPT = []
    def handler(event, context):
        KEPT.append(bytearray(40_000))
        return len(KEPT)
"""
KEPT_AT = [("app.py", 4)]


def test_the_answer_has_its_members_and_no_more(tmp_path: Path) -> None:
    found = run(tmp_path, KEEPS)
    figures = ("invocations", "looks", "cpuPercent", "memoryKiB", "lookMs", "restKiB")
    assert {name: type(value) for name, value in found.told.items() if name not in figures} == {
        "runtime": str,
        "gaveUp": str,
        "lines": list,
    }
    assert all(isinstance(found.told[name], int | float) and found.told[name] >= 0 for name in figures)
    assert found.told["invocations"] == 60
    (line,) = found.told["lines"]
    assert (line["function"], line["stack"]) == ("handler", ["app.py:4 handler"])
    assert 0.9 < line["share"] <= 1
    assert (found.mode, found.files) == (0o600, [".truemem-heap-PID", ".truemem-lines-PID", ".truemem-lines-PID.json"])


def test_nothing_of_it_stays(tmp_path: Path) -> None:
    found = run(tmp_path, KEEPS)
    assert not found.traces
    assert not found.loaded
    assert found.collects


@pytest.mark.parametrize("setting", ["off", "", " OFF "])
def test_off_it_is_never_asked(setting: str, tmp_path: Path) -> None:
    assert run(tmp_path, KEEPS, TRUEMEM_LINES=setting).answer is None


@pytest.mark.parametrize("after", [10, 38, 50])
def test_withdrawn_it_stops_and_writes_nothing(after: int, tmp_path: Path) -> None:
    found = run(tmp_path, KEEPS, withdraws=BEGINS + after)
    assert found.files == [".truemem-heap-PID"]
    assert not found.traces
    assert found.sent[-1] == str(len(found.sent))


@pytest.mark.parametrize("ask", ["nonsense\n", "truemem-lines-1 60 100\n", "truemem-lines-2 60 1 1\n", "\xff\n", "\n"])
def test_an_ask_that_it_does_not_know_is_ignored(ask: str, tmp_path: Path) -> None:
    found = run(tmp_path, KEEPS, ask=ask)
    assert found.answer is None
    assert len(found.sent) == INVOCATIONS


def test_too_little_memory_for_a_look_is_said(tmp_path: Path) -> None:
    found = run(tmp_path, KEEPS, ask="truemem-lines-1 60 100 1\n")
    assert (found.told["gaveUp"], found.told["lines"]) == ("memory", [])


@pytest.mark.parametrize(("memory", "said"), [("128", "looks"), ("1769", "")])
def test_a_look_that_would_take_long_is_not_begun(memory: str, said: str, tmp_path: Path) -> None:
    """The function's timeout goes on, and a small memory size buys little CPU."""
    found = run(tmp_path, KEEPS + "\n    MANY = [[] for _ in range(200_000)]\n", AWS_LAMBDA_FUNCTION_MEMORY_SIZE=memory)
    assert (found.told["gaveUp"], bool(found.told["lines"])) == (said, not said)


@pytest.mark.parametrize(
    ("used", "starts", "stays"),
    [
        ("sys.settrace", "sys.settrace(trace)", "sys.gettrace() is trace"),
        ("sys.setprofile", "sys.setprofile(trace)", "sys.getprofile() is trace"),
        pytest.param(
            "sys.monitoring",
            "sys.monitoring.get_tool(1) or sys.monitoring.use_tool_id(1, 'covers')",
            "sys.monitoring.get_tool(1) == 'covers'",
            marks=needs_monitoring,
        ),
    ],
)
def test_what_the_function_traces_with_is_left_alone(used: str, starts: str, stays: str, tmp_path: Path) -> None:
    source = f"""
        import sys
        KEPT = []
        def trace(frame, event, argument):
            return trace
        def handler(event, context):
            {starts}
            KEPT.append(bytearray(40_000))
            return {stays}
    """
    found = run(tmp_path, source)
    assert found.told["gaveUp"] == f"{used} is in use"
    assert found.lines == ([("app.py", 8)] if MONITORS else [])  # the only line that adds to KEPT, and has run
    assert set(found.sent) == {"true"}


@needs_monitoring
def test_all_that_tools_take_of_monitoring_is_free(tmp_path: Path) -> None:
    """5 is for optimizers."""
    source = """
        import sys
        KEPT = []
        def handler(event, context):
            for tool in range(5):
                sys.monitoring.use_tool_id(tool, "mine")
            KEPT.append(bytearray(40_000))
            for tool in range(5):
                sys.monitoring.free_tool_id(tool)
            return sys.monitoring.get_tool(5)
    """
    found = run(tmp_path, source)
    assert found.lines == [("app.py", 7)]
    assert set(found.sent) == {"null", '"truemem"'}


def test_an_isolated_python_is_profiled(tmp_path: Path) -> None:
    assert run(tmp_path, KEEPS, options=("-I",)).lines == KEPT_AT


@pytest.mark.parametrize("left", [0, 4096])
def test_where_tmp_is_full_there_is_no_half_answer(left: int, tmp_path: Path) -> None:
    name = "a" * 190
    source = f"""
        import os
        KEPT = []
        def fill():
            with open(os.environ["TMPDIR"] + "/full", "wb", buffering=0) as file:
                try:
                    while file.write(bytes(4096)):
                        pass
                except OSError:
                    os.ftruncate(file.fileno(), file.tell() - {left})
        def {name}(depth):
            if depth:
                {name}(depth - 1)
                return
            KEPT.append(bytearray(40_000))
        def handler(event, context):
            {name}(30)
            if event["number"] == {BEGINS + 2}:
                fill()
            return event["number"]
    """
    found = run(tmp_path, source, disk_kib=256)
    assert found.files == [".truemem-heap-PID", ".truemem-lines-PID", "full"]
    assert found.sent == [str(number) for number in range(INVOCATIONS)]
    assert not found.traces


def test_without_memory_for_a_look_the_function_goes_on(tmp_path: Path) -> None:
    source = f"""
        import resource
        KEPT, MANY, HOG = [], [[] for _ in range(100_000)], []
        def fill():
            size = 1 << 20
            while size >= 1 << 17:
                try:
                    HOG.append(bytearray(size))
                except MemoryError:
                    size //= 2
        def handler(event, context):
            HOG.clear()
            KEPT.append(bytearray(40_000))
            if event["number"] == {BEGINS + 5}:
                with open("/proc/self/statm") as file:
                    size = int(file.read().split()[0]) * 4096
                resource.setrlimit(resource.RLIMIT_AS, (size + (8 << 20), resource.RLIM_INFINITY))
            if {BEGINS + 5} <= event["number"] < {BEGINS + 60}:
                fill()
            return event["number"]
    """
    found = run(tmp_path, source)
    assert found.sent == [str(number) for number in range(INVOCATIONS)]
    assert (found.told["gaveUp"], found.told["lines"]) == ("error", [])
    assert not found.traces
    assert found.collects


def test_a_memory_error_reaches_the_function_while_watched(tmp_path: Path) -> None:
    source = """
        KEPT = []
        def handler(event, context):
            KEPT.append(bytearray(40_000))
            if event["number"] % 2:
                return 1
            return bytearray(1 << 60)
    """
    found = run(tmp_path, source)
    assert found.sent == ["MemoryError()", "1"] * (INVOCATIONS // 2)
    assert found.lines == [("app.py", 4)]


def test_a_loop_of_many_lines_is_soon_left_alone(tmp_path: Path) -> None:
    """In the invocation itself, not only when its CPU is known."""
    source = """
        import sys
        KEPT = []
        def handler(event, context):
            KEPT.append(bytearray(40_000))
            traces = sys.gettrace() is not None
            number = 0
            while number < 100_000:
                number += 1
            return [traces, sys.gettrace() is not None]
    """
    found = run(tmp_path, source)
    assert found.lines == [("app.py", 5)]
    assert json.dumps([True, True]) not in found.sent
    if not MONITORS:
        assert json.dumps([True, False]) in found.sent


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="there a line is left alone after some times in any case")
@pytest.mark.skipif(MONITORS, reason="Python has sys.monitoring, which does not end with the CPU")
def test_with_little_cpu_fewer_lines_are_watched(tmp_path: Path) -> None:
    source = """
        import sys
        KEPT = []
        def handler(event, context):
            KEPT.append(bytearray(40_000))
            watched = 0
            for _ in range(5000):
                watched += sys.gettrace() is not None
            return watched
    """

    def most_watched(memory: str) -> int:
        (tmp_path / memory).mkdir()
        found = run(tmp_path / memory, source, AWS_LAMBDA_FUNCTION_MEMORY_SIZE=memory)
        assert found.lines == [("app.py", 5)]
        return max(map(int, found.sent))

    assert 0 < most_watched("128") < most_watched("1769") / 3


def test_a_container_that_is_replaced_is_not_held(tmp_path: Path) -> None:
    """While it is watched: the old one, and all that is in it, would be memory twice."""
    source = f"""
        class Held(bytearray):
            left = 0
            def __init__(self, *given):
                Held.left += 1
            def __del__(self):
                Held.left -= 1
        KEPT = {{}}
        def handler(event, context):
            global KEPT
            if event["number"] == {BEGINS + 45}:
                KEPT = {{}}
            KEPT[event["number"]] = Held(40_000)
            return Held.left
    """
    found = run(tmp_path, source)
    assert found.sent[BEGINS + 47] == "3"
    assert (found.lines, found.told["restKiB"]) == ([], pytest.approx(0, abs=3))


def test_what_has_a_value_that_grows_is_not_held(tmp_path: Path) -> None:
    source = f"""
        class Store:
            left = 0
            def __init__(self):
                Store.left += 1
                self.text = ""
            def __del__(self):
                Store.left -= 1
        STORE = Store()
        def handler(event, context):
            global STORE
            if event["number"] == {BEGINS + 45}:
                STORE = Store()
            STORE.text += "x" * 4000
            return Store.left
    """
    assert run(tmp_path, source).sent[BEGINS + 47] == "1"


def test_a_cache_that_fills_is_not_told_as_native(tmp_path: Path) -> None:
    source = """
        import functools
        @functools.lru_cache(maxsize=1000)
        def made(number):
            return bytearray(8000)
        def handler(event, context):
            return len(made(event["number"]))
    """
    found = run(tmp_path, source)
    assert (found.lines, found.told["restKiB"]) == ([], pytest.approx(0, abs=3))


def test_an_arrays_memory_is_the_line_that_keeps_a_view(tmp_path: Path) -> None:
    """A type that is written in C has no module in its namespace."""
    needs_package("numpy")
    source = """
        import numpy
        KEPT = []
        def handler(event, context):
            array = numpy.ones(4000)
            KEPT.append(array[:1])
            return 1
    """
    found = run(tmp_path, source)
    assert found.lines == [("app.py", 6)]
    assert found.told["lines"][0]["perInvocationKiB"] == pytest.approx(31.4, rel=0.1)


def test_some_requests_that_keep_much_are_in_the_rate(tmp_path: Path) -> None:
    source = """
        KEPT = []
        def handler(event, context):
            KEPT.append(bytearray(4000 if event["number"] % 10 else 400_000))
            return 1
    """
    found = run(tmp_path, source)
    assert found.lines == [("app.py", 4)]
    assert found.told["lines"][0]["perInvocationKiB"] == pytest.approx(42.6, rel=0.1)


def test_tracemalloc_of_the_function_goes_on(tmp_path: Path) -> None:
    source = """
        import tracemalloc
        tracemalloc.start()
        KEPT = []
        def handler(event, context):
            KEPT.append(bytearray(40_000))
            return tracemalloc.is_tracing() and tracemalloc.get_traced_memory()[0] > 40_000 * len(KEPT)
    """
    found = run(tmp_path, source)
    assert found.lines == [("app.py", 6)]
    assert set(found.sent) == {"true"}


def test_path_modules_and_environment_stay(tmp_path: Path) -> None:
    source = """
        import gc, os, sys, threading
        KEPT = []
        def handler(event, context):
            KEPT.append(bytearray(40_000))
            names = [name for name in sys.modules if "truemem" in name]
            files = os.listdir("/proc/self/fd")
            return [sys.path, dict(os.environ), names, threading.active_count(), len(gc.callbacks), files]
    """
    found = run(tmp_path, source)
    assert found.lines == [("app.py", 5)]
    assert len(set(found.sent[1:])) == 1  # after the first, the heap's page is open


def test_a_child_of_the_function_is_not_watched(tmp_path: Path) -> None:
    source = """
        import os, sys
        KEPT = []
        def free():
            tools = [sys.monitoring.get_tool(tool) for tool in range(6)] if sys.version_info >= (3, 12) else []
            return sys.gettrace() is None and not any(tools)
        def handler(event, context):
            KEPT.append(bytearray(40_000))
            if event["number"] % 5:
                return 0
            child = os.fork()
            if child == 0:
                os._exit(0 if free() else 1)
            return os.waitpid(child, 0)[1]
    """
    found = run(tmp_path, source)
    assert found.lines == [("app.py", 8)]
    assert set(found.sent) == {"0"}


def test_where_the_collector_is_off_it_stays_off(tmp_path: Path) -> None:
    found = run(tmp_path, f"import gc\ngc.disable()\n{textwrap.dedent(KEEPS)}")
    assert found.lines == [("app.py", 6)]
    assert not found.collects


@pytest.mark.parametrize("broken", ["len", "Exception", "getattr", "map", "sorted", "max", "open", "id"])
def test_broken_builtins_break_nothing_more(broken: str, tmp_path: Path) -> None:
    source = f"""
        import builtins
        KEPT = []
        def handler(event, context):
            if event["number"] == {BEGINS + 30}:
                builtins.{broken} = None
            KEPT.append(bytearray(40_000))
            if event["number"] == {BEGINS + 63}:
                builtins.{broken} = KEPT[0]
            return event["number"]
    """
    source = source.replace("KEPT = []", f"KEPT = [builtins.{broken}]")
    found = run(tmp_path, source)
    assert found.sent == [str(number) for number in range(INVOCATIONS)]
    assert not found.traces


def test_an_alarm_of_the_function_is_raised_in_it(tmp_path: Path) -> None:
    source = """
        import signal
        class Late(Exception):
            pass
        def late(number, frame):
            raise Late
        signal.signal(signal.SIGALRM, late)
        KEPT = []
        def handler(event, context):
            KEPT.append(bytearray(40_000))
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.001)
                while True:
                    event["number"] += 1
            except Late:
                return "late"
    """
    found = run(tmp_path, source)
    assert set(found.sent) == {'"late"'}
    assert found.lines == [("app.py", 10)]


def test_objects_with_their_own_methods_are_not_asked(tmp_path: Path) -> None:
    source = """
        class Meta(type):
            def __hash__(self): raise SystemExit
            def __eq__(self, other): raise SystemExit
        class Odd(list, metaclass=Meta):
            def __len__(self): raise SystemExit
            def __iter__(self): raise SystemExit
            def __getitem__(self, key): raise SystemExit
            def __sizeof__(self): raise SystemExit
            def __getattribute__(self, name):
                if name == "append":
                    return lambda value: list.append(self, value)
                raise SystemExit
            def __bool__(self): raise SystemExit
        KEPT = Odd()
        def handler(event, context):
            KEPT.append(Odd([bytearray(40_000)]))
            return 1
    """
    found = run(tmp_path, source)
    assert found.lines == [("app.py", 12)]
    assert set(found.sent) == {"1"}


def test_threads_that_change_containers_break_nothing(tmp_path: Path) -> None:
    source = """
        import threading, time
        KEPT, SEEN = [], {}
        def work():
            while True:
                for number in range(300):
                    SEEN[number] = str(number)
                SEEN.clear()
                time.sleep(0)
        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        def handler(event, context):
            KEPT.append(bytearray(40_000))
            return 1
    """
    found = run(tmp_path, source)
    assert found.told["gaveUp"] == ""
    assert ("app.py", 13) in found.lines
    assert set(found.sent) == {"1"}


THREADS = {
    "a pool": ("POOL.submit(work, number).result()", ""),
    "threads that end in the line": ("threads = [Thread(target=work, args=(1,))]\n start(threads)", ""),
    "a worker that waits": ("JOBS.put(number)\n JOBS.join()", "Thread(target=always, daemon=True).start()"),
}


@pytest.mark.parametrize("adders", [1, 2])
@pytest.mark.parametrize("kind", THREADS)
def test_what_another_thread_keeps_is_not_the_waiters(kind: str, adders: int, tmp_path: Path) -> None:
    line, begin = THREADS[kind]
    source = f"""
from concurrent.futures import ThreadPoolExecutor
from queue import Queue
from threading import Thread
POOL, JOBS, KEPT = ThreadPoolExecutor(1), Queue(), []
def work(number):
 KEPT.append(bytearray(40_000))
def always():
 while True:
  work(JOBS.get())
  JOBS.task_done()
def start(threads): [(thread.start(), thread.join()) for thread in threads]
{begin}
{"def unused(): KEPT.append(1)" if adders == 2 else ""}
def handler(event, context):
 number = event["number"]
 {line}
 return 1
"""
    lines = run(tmp_path, source).lines
    assert lines == ([("app.py", 7)] if TELLS else [])


def test_a_thread_that_waits_hides_no_line(tmp_path: Path) -> None:
    source = """
        import threading
        KEPT = []
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        def handler(event, context):
            KEPT.append(bytearray(40_000))
            return 1
        def unused(): KEPT.append(1)
    """
    found = run(tmp_path, source)
    assert found.lines == [("app.py", 6)]
    assert found.told["lines"][0]["stack"] == ["app.py:6 handler"]
