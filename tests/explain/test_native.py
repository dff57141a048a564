"""Programs and libraries with a planted leak, compiled here, run under the sampler of malloc: the call that asks for
what stays is named, and none where it is freed."""

import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from truemem_workbench.commands.__main__ import cli
from truemem_workbench.explain import native, native_samples, symbols
from truemem_workbench.explain.attribution import Holder
from truemem_workbench.explain.explanation import Explanation
from truemem_workbench.explain.native_samples import SLOT, SampleReader
from truemem_workbench.explain.own_sources import OwnSources
from truemem_workbench.explain.run import explain
from truemem_workbench.local import Function
from truemem_workbench.local.processes.tmp import elsewhere
from truemem_workbench.support.terminal import Progress
from truemem_workbench.target.resolve import resolve
from truemem_workbench.target.target import Target

from testing.cases import RUNTIMES

LOADER = {"x86_64": b"/lib64/ld-linux-x86-64.so.2", "aarch64": b"/lib/ld-linux-aarch64.so.1"}[platform.machine()]
SOURCES = Path(__file__).with_name("functions") / "native"
INVOCATIONS = 151
AT_NIGHT = pytest.mark.nightly


@pytest.fixture(autouse=True)
def _signals_are_pytests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("truemem_workbench.support.exit_codes.raise_on_signals", lambda: None)


@pytest.fixture(scope="session")
def library() -> Path:
    """The sampler, as `make test` builds it before the tests."""
    found = native_samples.library()
    if found is None:
        pytest.skip("dist/ has no malloc_sampler: make layer")
    return found


@pytest.fixture(scope="session")
def folder(library: Path) -> Iterator[Path]:
    """Where the function's user can read it, with the sources: their lines are quoted."""
    with tempfile.TemporaryDirectory(prefix="truemem-native-", dir=elsewhere()) as name:
        Path(name).chmod(0o755)
        for path in (*SOURCES.iterdir(), RUNTIMES / "runtime.h"):
            shutil.copy(path, name)
        yield Path(name)


def compiled(folder: Path, compiler: str, *arguments: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler} on the path")
    subprocess.run([compiler, *arguments], cwd=folder, check=True)


@pytest.fixture(scope="session")
def in_c(folder: Path) -> Path:
    tables = ("-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-omit-frame-pointer")
    compiled(folder, "gcc", "-g", "-O1", *tables, "-c", "without_tables.c")
    compiled(folder, "gcc", "-g", "-O1", "-o", "in_c", "planted.c", "without_tables.o", "-lpthread")
    return folder / "in_c"


@pytest.fixture(scope="session")
def in_cpp(folder: Path) -> Path:
    compiled(folder, "g++", "-std=c++20", "-g", "-O2", "-o", "in_cpp", "planted.cpp", "-lpthread")
    return folder / "in_cpp"


def explained(
    program: Path | str | Function,
    leak: str = "",
    repaired: bool = False,
    measured_kib: float = 2.0,
    progress: Progress = lambda *_: None,
) -> Explanation:
    function = program if isinstance(program, Function) else Function.from_spec(str(program))
    variables = {"LEAK": leak} | ({"REPAIRED": "1"} if repaired else {})
    return explain(
        Target(spec="planted", name="planted", function=function, memory_mib=512, environment=variables),
        [{}],
        invocations=INVOCATIONS,
        plain_seconds=60,
        measured_kib=0.0 if repaired else measured_kib,
        progress=progress,
    )


def line_marked(source: str, mark: str) -> int:
    lines = (SOURCES / source).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith((f"/* {mark} */", f"// {mark}")))


def first(explanation: Explanation) -> Holder:
    assert explanation.holders, explanation.lines()
    return explanation.holders[0]


C = {
    "node": 2008 + 8,
    "copy": 3000 + 8,
    "small_ones": 40 * 48,
    "grown": 2000,
    "beside_others": 1008,
    "in_thread": 3008,
    "aligned": 2048 + 16,
    "file": 480,
    "forking": 2512,
    "below_go": 2208,
    "doubled": 200 * 8,
    "mapped": 8192,
    "by_helper": 1520,
    "everywhere": 816 + 1216,
}
"""Bytes that each leak of planted.c keeps of an invocation, with malloc's own."""
IN_CI = (
    "small_ones",
    "beside_others",
    "in_thread",
    "forking",
    "below_go",
    "doubled",
    "mapped",
    "by_helper",
    "everywhere",
)
MOST_CERTAIN = 0.12


def at_night(names: dict[str, int]) -> list[object]:
    return [pytest.param(name, marks=[] if name in IN_CI else AT_NIGHT) for name in names]


@pytest.mark.parametrize("leak", at_night(C))
def test_the_call_that_keeps_is_named_in_c(in_c: Path, leak: str) -> None:
    explanation = explained(in_c, leak)
    named = first(explanation)
    assert (Path(named.file).name, named.line, named.kind) == (
        "planted.c",
        line_marked("planted.c", leak),
        "native block",
    )
    within = 0.6 if leak == "doubled" else MOST_CERTAIN  # a table that doubles has room that is not used yet
    assert named.kib == pytest.approx(C[leak] / 1024, rel=within)
    assert len(explanation.holders) == 1
    assert explanation.missing == ()


@pytest.mark.parametrize("leak", at_night(C))
def test_what_is_freed_again_is_not_accused_in_c(in_c: Path, leak: str) -> None:
    explanation = explained(in_c, leak, repaired=True)
    assert explanation.is_known
    assert explanation.holders == []


CPP = {
    "nested": 2016,
    "session": 1536,
    "small_entries": 50 * 32,
    "cycle": 1248,
    "array": 2416,
    "generic": 1816,
    "in_thread": 1616,
}


@pytest.mark.parametrize(
    "leak", [each if each in ("generic", "in_thread") else pytest.param(each, marks=AT_NIGHT) for each in CPP]
)
def test_the_users_line_is_named_below_cpps_own_headers(in_cpp: Path, leak: str) -> None:
    named = first(explained(in_cpp, leak))
    assert (Path(named.file).name, named.line) == ("planted.cpp", line_marked("planted.cpp", leak))


@AT_NIGHT
@pytest.mark.parametrize("leak", CPP)
def test_what_is_freed_again_is_not_accused_in_cpp(in_cpp: Path, leak: str) -> None:
    assert explained(in_cpp, leak, repaired=True).holders == []


def test_code_without_unwind_tables_is_in_the_stack(in_c: Path) -> None:
    """Go has none: what calls C there is found by frame pointers."""
    named = first(explained(in_c, "below_go"))
    assert ("without_tables.c", line_marked("without_tables.c", "without_tables")) in [
        (Path(frame[0]).name, frame[1]) for frame in named.stack
    ]


def test_the_helper_is_in_the_stack_of_its_caller(in_c: Path) -> None:
    named = first(explained(in_c, "by_helper"))
    assert named.stack[-2] == named.frame
    assert named.stack[-1] == named.allocated != named.frame


def test_without_debug_information_the_function_is_named(in_c: Path) -> None:
    program = in_c.with_name("stripped")
    compiled(in_c.parent, "strip", "--strip-debug", "-o", program.name, in_c.name)
    explanation = explained(program, "small_ones")
    named = first(explanation)
    assert (named.file, named.line, named.owner.partition("+")[0]) == (str(program), 0, "small_ones")
    assert "stripped has no debug information: a build with -g" in explanation.missing[-1]
    assert "native block small_ones+0x" in "\n".join(explanation.lines())


def test_without_a_tool_the_symbols_are_read_all_the_same(in_cpp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbols, "TOOLS", ())
    explanation = explained(in_cpp, "generic")
    assert first(explanation).owner.startswith(("Store<Order>::keep()+0x", "generic()+0x"))
    assert "There is no addr2line: functions are named without their lines. Install binutils." in explanation.missing


def test_the_account_adds_up_to_the_growth(in_c: Path) -> None:
    explanation = explained(in_c, "small_ones", measured_kib=5.0)
    account = explanation.document()["account"]
    assert isinstance(account, dict)
    assert account["settledKiB"] == 5.0
    parts = sum(account[part] for part in ("linesKiB", "unnamedKiB", "heldKiB", "unknownKiB"))
    assert parts == pytest.approx(5.0, abs=0.01)
    assert account["linesKiB"] == pytest.approx(C["small_ones"] / 1024, rel=0.25)
    assert explanation.sentences()[0].startswith("Of 5.0 KiB that an invocation keeps: the lines ")


HANDLER = """
import ctypes, os
library = ctypes.CDLL(os.path.join(os.environ["LAMBDA_TASK_ROOT"], "keeper.so"))

def keep(event, context):
    library.keep()

def drop(event, context):
    library.drop()
"""


@pytest.fixture(scope="session")
def in_python(folder: Path) -> Path:
    compiled(folder, "gcc", "-g", "-O1", "-fPIC", "-shared", "-o", "keeper.so", "keeper.c")
    (folder / "loads.py").write_text(HANDLER)
    return folder / "loads.py"


@pytest.mark.parametrize(("handler", "named"), [("keep", ["keeper.c"]), ("drop", [])])
def test_a_library_below_python_is_named_without_memray(
    in_python: Path, handler: str, named: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "variables", lambda _: None)
    explanation = explained(f"{in_python}:{handler}", measured_kib=8000 / 1024)
    assert [Path(each.file).name for each in explanation.holders] == named
    assert native.INSTALL in explanation.missing
    if named:
        assert (first(explanation).line, first(explanation).owner) == (line_marked("keeper.c", "keep"), "keep")


OWN_HANDLER = """
import ctypes, os
library = ctypes.PyDLL(os.path.join(os.environ["LAMBDA_TASK_ROOT"], "own.so"))
library.given.restype = ctypes.py_object
kept = []

def cache(event, context):
    library.cache()

def reference(event, context):
    library.reference()

def entry(event, context):
    library.entry(0)
    keep()

def keep():
    library.entry(1)  # its caller

def freed(event, context):
    library.entry(0)

def given(event, context):
    kept.append(library.given())  # given

def in_python(event, context):
    kept.append(bytearray(6000))  # in_python
"""


@pytest.fixture(scope="session")
def own(library: Path) -> Iterator[Path]:
    """A handler with a library of its own that has debug information."""
    with tempfile.TemporaryDirectory(prefix="truemem-own-", dir=elsewhere()) as name:
        folder = Path(name)
        folder.chmod(0o755)
        shutil.copy(SOURCES / "own.cpp", folder)
        compiled(folder, "g++", "-g", "-O2", "-fPIC", "-shared", "-o", "own.so", "own.cpp")
        (folder / "handlers.py").write_text(OWN_HANDLER)
        yield folder / "handlers.py"


def called_at(handler: str) -> int:
    """The line of OWN_HANDLER that calls the library there."""
    lines = OWN_HANDLER.splitlines()
    mark = {"entry": "    library.entry(1)"}.get(handler, f"    library.{handler}(")
    return next(number for number, line in enumerate(lines, 1) if line.startswith(mark))


@pytest.mark.parametrize(
    ("handler", "kind"), [("cache", "native block"), ("reference", "Python object"), ("entry", "native block")]
)
def test_the_line_of_native_code_comes_before_its_caller(own: Path, handler: str, kind: str) -> None:
    """A reference that is not given back is Python's block: its own tracer would name the caller alone."""
    explanation = explained(f"{own}:{handler}", measured_kib=6000 / 1024)
    named = first(explanation)
    assert (named.file, named.line) == (str(own.with_name("own.cpp")), line_marked("own.cpp", handler))
    assert (named.kind, named.called) == (kind, (str(own), called_at(handler)))
    assert sum(each.kib for each in explanation.holders) == pytest.approx(6000 / 1024, rel=0.1)
    assert [each[1] for each in explanation.annotations()] == [named.line]
    assert f"called at {own}:{called_at(handler)}: library." in "\n".join(explanation.lines())


@pytest.mark.parametrize("handler", ["given", "in_python"])
def test_what_pythons_container_holds_stays_at_its_line(own: Path, handler: str) -> None:
    explanation = explained(f"{own}:{handler}", measured_kib=6000 / 1024)
    line = next(n for n, text in enumerate(OWN_HANDLER.splitlines(), 1) if text.endswith(f"# {handler}"))
    assert [(each.file, each.line, each.owner) for each in explanation.holders] == [(str(own), line, "handlers.kept")]


def test_what_native_code_frees_again_is_not_accused(own: Path) -> None:
    phases: list[str] = []
    explanation = explained(f"{own}:freed", measured_kib=6000 / 1024, progress=lambda name, *_: phases.append(name))
    assert explanation.holders == []
    assert list(dict.fromkeys(phases)) == ["explaining under a tracer", "explaining, native code"]


@pytest.mark.parametrize("handler", ["cache", "given"])
def test_the_sampler_names_no_line_of_a_header(own: Path, handler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "variables", lambda _: None)
    named = first(explained(f"{own}:{handler}", measured_kib=6000 / 1024))
    assert Path(named.file).name == ("own.cpp" if handler == "cache" else "handlers.py")


AT = list(range(10, 110, 10))
CALLER, OWN = ("/task/app.py", 3), ("/src/own.cpp", 9)


def grows(kib: float, *frames: tuple[str, int]) -> dict[str, object]:
    return {"frames": frames, "bytes": [1024 * kib * at for at in AT]}


def of_both(python: list[dict[str, object]], native_stacks: list[dict[str, object]], items: str = "") -> list[Holder]:
    """The lines by both tracers; `items` are in a list of Python's that app.py:4 makes longer."""
    kept: dict[str, object] = {"type": "list", "owner": "app.kept", "items": [items], "lengths": AT, "definedAt": None}
    kept |= {"othersRan": False, "allocatedAt": [[CALLER]], "grewAt": [("/task/app.py", 4, 9)]}
    document = {"invocations": AT, "containers": [], "types": []}
    return native.with_native(
        {**document, "stacks": native_stacks, "sources": [OWN[0]]},
        {**document, "stacks": python, "containers": [kept] if items else []},
        Path("/task"),
        11.0,
    )


def test_no_block_is_counted_by_both_tracers() -> None:
    """Of 10 KiB that Python has seen at a line 4 are its own: 6 are below native code, with 1 that it has not seen."""
    found = of_both([grows(10, CALLER)], [grows(7, CALLER, OWN), grows(4, CALLER)])
    assert [(each.frame, each.kind, each.called) for each in found] == [
        (OWN, "Python object", CALLER),
        (CALLER, "Python object", None),
    ]
    assert [each.kib for each in found] == pytest.approx([7, 4])


def test_what_memray_has_not_seen_stays_at_pythons_line() -> None:
    found = of_both([grows(10, CALLER)], [grows(3, CALLER, OWN)])
    assert [each.frame for each in found] == [CALLER, OWN]
    assert [each.kib for each in found] == pytest.approx([7, 3])


def test_native_memory_of_a_kept_object_is_at_the_container() -> None:
    (kept,) = of_both([grows(0.1, CALLER)], [grows(9, CALLER, OWN), grows(0.1, CALLER)], "engine.Quote")
    assert (kept.frame, kept.owner, kept.kind) == (("/task/app.py", 4), "app.kept", "native block")
    assert kept.allocated == OWN
    assert kept.kib == pytest.approx(9)


def test_a_kept_number_owns_no_native_memory() -> None:
    found = of_both([grows(0.3, CALLER)], [grows(9, CALLER, OWN), grows(0.3, CALLER)], "builtins.int")
    assert [each.frame for each in found] == [OWN, ("/task/app.py", 4)]
    assert [each.kib for each in found] == pytest.approx([9, 0.3])


def test_code_of_others_is_not_the_users(tmp_path: Path) -> None:
    """Neither a module without debug information, nor one that is installed, nor sources that were copied."""
    root = tmp_path / "site-packages" / "task"
    for source in ("own.c", "third_party/json.c", "lib/site-packages/fast.c"):
        (root / source).parent.mkdir(parents=True, exist_ok=True)
        (root / source).write_text("static int made;\n")
    compiled(root, "gcc", "-shared", "-o", "plain.so", "own.c")
    compiled(root, "gcc", "-g", "-shared", "-o", "lib/site-packages/fast.so", "lib/site-packages/fast.c")
    assert not OwnSources(root)
    compiled(root, "gcc", "-g", "-shared", "-o", "own.so", "own.c", "third_party/json.c")
    sources = OwnSources(root)
    assert sources
    own = str(root / "own.c")
    assert [sources.path(str(each)) for each in root.rglob("*.c") if sources.path(str(each))] == [own]
    assert sources.path("own.c") == own
    assert sources.path("/usr/include/stdlib.h") == sources.path("Objects/bytesobject.c") == ""


MODULE = """
import { createRequire } from "node:module";
const keeper = createRequire(import.meta.url)("./keeper.node");
export const keep = async () => { keeper.keep(); };
export const drop = async () => { keeper.drop(); };
"""


@AT_NIGHT
@pytest.mark.parametrize(("handler", "named"), [("keep", ["node_keeper.c"]), ("drop", [])])
def test_a_native_module_of_node_is_named(folder: Path, handler: str, named: list[str]) -> None:
    compiled(folder, "gcc", "-g", "-O1", "-fPIC", "-shared", "-o", "keeper.node", "node_keeper.c")
    (folder / "loads.mjs").write_text(MODULE)
    target = resolve(f"{folder / 'loads.mjs'}:{handler}")
    explanation = explained(target.function, measured_kib=8000 / 1024)
    assert [Path(each.file).name for each in explanation.holders] == named
    if named:
        assert first(explanation).line == line_marked("node_keeper.c", "keep")


def refused(program: Path | str) -> str:
    done = CliRunner().invoke(cli, ["explain", str(program)])
    assert done.exit_code == 2
    return done.stderr


def test_what_cannot_be_preloaded_is_refused(in_c: Path) -> None:
    compiled(in_c.parent, "gcc", "-static", "-o", "static", "every_way.c")
    assert "static is linked statically: its malloc cannot be sampled" in refused(in_c.with_name("static"))
    other = in_c.with_name("other")
    other.write_bytes(in_c.read_bytes().replace(LOADER, b"/lib/ld-musl-x86_64.so.1".ljust(len(LOADER), b"\0")))
    other.chmod(0o755)
    assert "other is linked with ld-musl-x86_64.so.1: malloc is sampled with glibc alone" in refused(other)
    other.write_bytes(b"\x7fELF nothing else")
    assert "other is no program that can be read" in refused(other)


def test_a_missing_sampler_is_said(in_c: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_samples, "library", lambda: None)
    explanation = explained(in_c, "node")
    assert (explanation.is_known, explanation.missing) == (False, (native_samples.NOT_BUILT,))


# --- the sampler itself -----------------------------------------------------------------------------------------------


@contextmanager
def sampled(library: Path, folder: Path, period: int, *command: str | Path) -> Iterator[subprocess.Popen[str]]:
    variables = {
        **os.environ,
        "LD_PRELOAD": str(library),
        "TRUEMEM_EXPLAIN": str(folder),
        native_samples.PERIOD: str(period),
    }
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def every_way(folder: Path) -> Path:
    compiled(folder, "gcc", "-O0", "-o", "every_way", "every_way.c")
    return folder / "every_way"


@pytest.mark.parametrize(("period", "within"), [(1, 0.002), (5000, 0.25)])
def test_each_way_to_ask_for_memory_is_seen(
    library: Path, every_way: Path, tmp_path: Path, period: int, within: float
) -> None:
    """With a period of one byte each block is sampled, else so many that the sum is right; a freed one never."""
    with sampled(library, tmp_path, period, every_way) as process:
        assert process.stdout is not None
        left = int(process.stdout.readline())
        reader = SampleReader(range(1, 5))
        for _ in range(4):
            reader.between(tmp_path)
        (document,) = reader.read(tmp_path)
    assert document["bytes"][-1] == pytest.approx(left, rel=within, abs=4200)  # standard output has a buffer
    assert document["missing"] == []


def test_a_weight_is_right_in_the_mean() -> None:
    """Each of 20,000 allocations of 300 bytes was taken with its chance."""
    asked, period = 300, 1000
    taken = np.random.default_rng(1).random(20_000) < 1 - np.exp(-asked / period)
    slots = np.zeros(int(taken.sum()), SLOT)
    slots["size"], slots["unasked"], slots["period"] = asked + 12, 12, period
    values, variances = native_samples.weights(slots, slots["size"].astype(float))
    total = 20_000 * (asked + 12)
    assert values.sum() == pytest.approx(total, rel=0.03)
    assert abs(values.sum() - total) < 4 * np.sqrt(variances.sum())


def test_the_period_is_for_what_has_grown() -> None:
    assert native_samples.period(0.0, 200) == native_samples.LEAST_PERIOD
    assert native_samples.period(8.0, 250) == 2048
    assert native_samples.period(1e6, 2000) == native_samples.MOST_PERIOD


def test_a_name_is_written_as_its_language_does() -> None:
    assert symbols.demangled("_ZN5StoreI5OrderE4keepEv") == "Store<Order>::keep()"
    assert symbols.demangled("keep") == "keep"
    assert symbols.demangled("_Znonsense") == "_Znonsense"
