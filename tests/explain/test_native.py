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
from truemem_workbench.explain.run import explain
from truemem_workbench.local import Function
from truemem_workbench.local.processes.tmp import elsewhere
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
    program: Path | str | Function, leak: str = "", repaired: bool = False, measured_kib: float = 2.0
) -> Explanation:
    function = program if isinstance(program, Function) else Function.from_spec(str(program))
    variables = {"LEAK": leak} | ({"REPAIRED": "1"} if repaired else {})
    return explain(
        Target(spec="planted", name="planted", function=function, memory_mib=512, environment=variables),
        [{}],
        invocations=INVOCATIONS,
        plain_seconds=60,
        measured_kib=0.0 if repaired else measured_kib,
        progress=lambda *_: None,
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
}
"""Bytes that each leak of planted.c keeps of an invocation, with malloc's own."""
IN_CI = ("small_ones", "beside_others", "in_thread", "forking", "below_go", "doubled", "mapped")
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
