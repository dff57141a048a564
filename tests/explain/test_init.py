"""`truemem explain --init`: what init holds, by import and by statement, as a process that nothing traces has it."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from truemem_workbench.commands.__main__ import cli
from truemem_workbench.explain.init_cost import BEFORE, cost, python_packages
from truemem_workbench.explain.init_log import read_log
from truemem_workbench.local import Function, LocalLambda, Settings

MIB = 2**20
LIBRARIES = {
    "holds": "HELD = bytearray(b'x') * (20 * 2**20)",
    "sleeps": "import time; time.sleep(0.2)",
    "shared": "HELD = bytearray(b'x') * (10 * 2**20)",
    "first": "import shared; HELD = bytearray(b'x') * (4 * 2**20)",
    "second": "import shared; HELD = bytearray(b'x') * (3 * 2**20)",
    "wastes": """
def waste():
    cycle = [bytearray(b'x') * (30 * 2**20)]
    cycle.append(cycle)
waste()
""",
    "late": "HELD = bytearray(b'x') * (6 * 2**20)",
}
HANDLER = """
def handler(event, context):
    import gc, _ctypes
    gc.collect()
    _ctypes.call_function(_ctypes.dlsym(_ctypes.dlopen("libc.so.6", 0), "malloc_trim"), (0,))
    said = open("/proc/self/smaps_rollup").read().split()
    import late
    return int(said[said.index("Rss:") + 1]) / 1024
"""
APP = """\"\"\"The user's file.\"\"\"
from __future__ import annotations
import holds, wastes
try:
    import first
except ImportError:
    raise
import second
import sleeps
MODEL = bytearray(b"x") * (8 * 2**20)
with open(__file__):
    import helper
    BLOCK = bytearray(b"x") * (7 * 2**20)
GONE = bytearray(b"x") * (90 * 2**20)
del GONE
"""
HELPER = "TABLE = bytearray(b'x') * (5 * 2**20)\n"


@pytest.fixture(autouse=True)
def _signals_are_pytests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("truemem_workbench.support.exit_codes.raise_on_signals", lambda: None)


def explain(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["explain", *map(str, arguments), "--init"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A function beside libraries that are not below its root."""
    folder = tmp_path_factory.mktemp("init")
    (folder / "libraries").mkdir()
    for name, text in LIBRARIES.items():
        (folder / "libraries" / f"{name}.py").write_text(text)
    (folder / "task").mkdir()
    (folder / "task" / "app.py").write_text(APP + HANDLER)
    (folder / "task" / "helper.py").write_text(HELPER)
    return folder


@pytest.fixture(scope="module")
def seen(folder: Path) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("truemem_workbench.support.exit_codes.raise_on_signals", lambda: None)
        done = explain(f"{folder}/task/app.py:handler", "--env", f"PYTHONPATH={folder}/libraries", "--json")
    assert done.exit_code == 0, done.output
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def part(seen: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for each in seen["init"]["parts"] if name in (each["name"], each.get("source")))


def held(folder: Path, text: str, libraries: Path | None = None) -> float:
    """MiB that a function with this text holds after init: the judge asks a process that nothing traces."""
    (folder / "task" / "judged.py").write_text(text + HANDLER)
    function = Function.from_spec(f"{folder}/task/judged.py:handler")
    settings = Settings(memory_mib=2048, environment={"PYTHONPATH": str(libraries or folder / "libraries")})
    with LocalLambda(function, settings) as local:
        answer = local.invoke({}).payload
    assert isinstance(answer, float), answer
    return answer


def test_the_whole_is_what_a_judge_measures(folder: Path, seen: dict[str, Any]) -> None:
    assert seen["init"]["heldMiB"] == pytest.approx(held(folder, APP), abs=1)


def test_parts_sum_up_to_the_whole(seen: dict[str, Any]) -> None:
    init = seen["init"]
    assert sum(each["mib"] for each in init["parts"]) == pytest.approx(init["heldMiB"], abs=0.3)
    assert sum(each["ms"] for each in init["parts"]) == pytest.approx(init["ms"], abs=1)


@pytest.mark.parametrize(
    ("name", "mib", "at"),
    [
        ("holds", 20, "app.py:3"),
        ("first", 14, "app.py:5"),
        ("second", 3, "app.py:8"),
        ("wastes", 0, "app.py:3"),
        ('MODEL = bytearray(b"x") * (8 * 2**20)', 8, "app.py:10"),
        ('BLOCK = bytearray(b"x") * (7 * 2**20)', 7, "app.py:13"),
        ("TABLE = bytearray(b'x') * (5 * 2**20)", 5, "helper.py:1"),
    ],
)
def test_each_import_and_statement_has_what_it_holds(seen: dict[str, Any], name: str, mib: float, at: str) -> None:
    found = part(seen, name)
    assert found["mib"] == pytest.approx(mib, abs=0.5)
    assert found["at"].endswith(f"/{at}")


@pytest.mark.parametrize(
    ("name", "line"),
    [("holds", "import holds, wastes\n"), ("first", "    import first\n")],
)
def test_what_an_import_saves_a_judge_saves_too(folder: Path, seen: dict[str, Any], name: str, line: str) -> None:
    saved = held(folder, APP) - held(folder, APP.replace(line, line.replace(line.strip(), "pass")))
    assert part(seen, name)["savesMiB"] == pytest.approx(saved, abs=0.7)


def test_the_first_that_imports_pays_for_the_others(seen: dict[str, Any]) -> None:
    [shared] = part(seen, "first")["parts"]
    assert (shared["name"], shared["mib"]) == ("shared", pytest.approx(10, abs=0.5))
    assert part(seen, "first")["savesMiB"] == pytest.approx(4, abs=0.5)


def test_time_is_where_the_process_sleeps(seen: dict[str, Any]) -> None:
    assert part(seen, "sleeps")["ms"] >= 200
    assert seen["init"]["ms"] >= 200


def test_the_peak_has_the_package_that_ran(seen: dict[str, Any]) -> None:
    assert seen["init"]["peakMiB"] >= seen["init"]["heldMiB"]


def test_imports_of_the_first_invocation_are_apart(seen: dict[str, Any]) -> None:
    first = seen["init"]["firstInvocation"]
    assert first["mib"] == pytest.approx(6, abs=1)
    assert "late" in [each["name"] for each in first["parts"]]


def test_the_answer_leaves_out_what_is_freed_later(seen: dict[str, Any]) -> None:
    assert "/app.py 15." in seen["init"]["answer"]
    assert "app.py:14" not in seen["init"]["answer"]


def test_on_managed_instances_one_worker_is_run(folder: Path) -> None:
    properties = {
        "CodeUri": "task",
        "Handler": "small.handler",
        "Runtime": "python3.13",
        "MemorySize": 4096,
        "CapacityProviderConfig": {"Arn": "arn", "PerExecutionEnvironmentMaxConcurrency": 4},
    }
    (folder / "task" / "small.py").write_text("def handler(event, context): pass\n")
    resource = {"Type": "AWS::Serverless::Function", "Properties": properties}
    (folder / "template.json").write_text(json.dumps({"Resources": {"Fn": resource}}))
    done = explain(f"{folder}/template.json:Fn", "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["init"]["memorySize"] == 4096
    assert any("one worker is run" in each for each in document["notices"])


@pytest.mark.parametrize(("size", "is_said"), [(128, True), (512, False), (None, False)])
def test_init_above_the_memory_size_is_said(size: int | None, is_said: bool) -> None:
    lines = ["s\t0\t5000\t10\t", "S\t0\t5000\t5000\t", "@\t1\t5000\t5000\t/app.py:1", "E\t2\t300000\t300000\t"]
    log = read_log("\n".join([*lines, "s\t0\t300000\t280000\t"]))
    said = cost(log, [(log, 1)], python_packages, lambda _: True, size_mib=size).answer
    assert ("Lambda ends it at 128 MB: init alone needs 273.4 MiB." in said) is is_said


@pytest.mark.parametrize(("missing", "saves"), [("", 0), ("!\t0\t0\t0\tES modules are not told apart.\n", None)])
def test_saves_is_left_out_where_imports_are_unknown(missing: str, saves: float | None) -> None:
    lines = ["s\t0\t5000\t10\t", "S\t0\t5000\t0\t", "(\t1\t5000\t0\theavy", ")\t2\t7000\t0\t", "E\t3\t7000\t0\t"]
    log = read_log(missing + "\n".join([*lines, "s\t0\t7000\t10\t"]))
    assert cost(log, [(log, 1)], python_packages, lambda _: False).root.rows["package heavy"].saves_kib == saves


def test_text_ends_with_the_answer_and_a_command(folder: Path) -> None:
    (folder / "task" / "small.py").write_text(
        "MODEL = bytearray(b'x') * 9_000_000\ndef handler(event, context): pass\n"
    )
    done = explain(f"{folder}/task/small.py:handler", "--event", '{"a": 1}')
    assert done.exit_code == 0, done.output
    *_, answer, following = done.stdout.splitlines()
    assert answer.startswith("- Init holds ")
    assert f"s: {folder}/task/small.py:1 8." in answer
    assert following == f"""Next: truemem check {folder}/task/small.py:handler --event '{{"a": 1}}'"""


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        (
            "import nothing_here\ndef handler(event, context): pass",
            (),
            "init fails: Runtime.ImportModuleError: Unable to import module 'wrong'",
        ),
        ("def handler(event, context): pass", ("--invocations", "3"), "--init with --invocations"),
        ("def handler(event, context): pass", ("--output", "init.html"), "its ending is not .json"),
    ],
)
def test_what_has_no_init_to_explain_is_refused(folder: Path, text: str, arguments: tuple[str, ...], said: str) -> None:
    (folder / "task" / "wrong.py").write_text(text)
    done = explain(f"{folder}/task/wrong.py:handler", *arguments)
    assert (done.exit_code, said in done.stderr) == (2, True), done.output


def test_other_languages_are_told_what_to_use() -> None:
    done = explain(Path(__file__).parents[1] / "local" / "functions" / "bootstrap")
    assert (done.exit_code, "GODEBUG=inittrace=1" in done.stderr) == (2, True), done.output


NAMES = st.sampled_from(["a", "b.c", "numpy", "numpy.core", "app"])
KINDS = st.sampled_from(["(", ")", "i", "@", "s"])


@given(st.lists(st.tuples(KINDS, NAMES, st.integers(0, 10**6), st.integers(0, 10**5)), max_size=40))
def test_whatever_was_loaded_the_sums_close(events: list[tuple[str, str, int, int]]) -> None:
    lines, now, held_kib = ["s\t0\t5000\t10\t", "r\t0\t5000\t0\t", "S\t0\t5000\t5000\t"], 0, 5000
    for kind, name, ns, kib in [*events, ("E", "", 1, 7000), ("s", "", 0, 7000)]:
        now += ns
        if kind == "s":
            lines += [f"s\t0\t{kib}\t0\t", f"r\t0\t{kib}\t0\t"]
            held_kib = kib
        else:
            lines.append(f"{kind}\t{now}\t{kib}\t{kib}\t{f'/{name}:3' if kind in 'i@' else name}")
    log = read_log("\n".join(lines))
    init = cost(log, [(log, now / 1e6 + 50)], python_packages, lambda file: file.startswith("app"))
    assert init.root.kib == pytest.approx(held_kib)
    assert init.root.ms == pytest.approx(now / 1e6 + 50)
    assert init.root.rows[f"package {BEFORE}"].own_ms == pytest.approx(50)


REAL = """
import boto3
import numpy
import onnxruntime
import pandas
from aws_lambda_powertools import Logger, Metrics
MODEL = boto3.client("s3", region_name="eu-west-1")
"""


@pytest.mark.nightly
def test_real_libraries_hold_what_a_judge_measures(folder: Path) -> None:
    """Each line's share is the difference to the same file that ends before it."""
    (folder / "task" / "real.py").write_text(REAL + HANDLER)
    libraries = f"PYTHONPATH={folder}/libraries"
    done = explain(f"{folder}/task/real.py:handler", "--env", libraries, "--json")
    seen = json.loads(done.stdout)
    lines = REAL.splitlines(keepends=True)
    for number in range(2, len(lines)):
        adds = held(folder, "".join(lines[: number + 1])) - held(folder, "".join(lines[:number]))
        rows = [each for each in seen["init"]["parts"] if each.get("at", "").endswith(f"real.py:{number + 1}")]
        assert sum(each["mib"] for each in rows) == pytest.approx(adds, abs=1, rel=0.05), lines[number]
    for name in ("onnxruntime", "pandas", "numpy"):
        saved = held(folder, REAL) - held(folder, REAL.replace(f"import {name}\n", ""))
        assert part(seen, name)["savesMiB"] == pytest.approx(saved, abs=1, rel=0.05), name
