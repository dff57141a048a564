"""Programs in Go with a planted leak are run as they are: the line that keeps it is named, its repaired twin is not."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from truemem_workbench.explain import go, run
from truemem_workbench.explain.attribution import Holder
from truemem_workbench.explain.explanation import Account, Explanation
from truemem_workbench.explain.go_keepers import variables
from truemem_workbench.explain.growth_page import page
from truemem_workbench.local import Function
from truemem_workbench.runs.here import need_explicable
from truemem_workbench.support.bad_input import BadInput
from truemem_workbench.target.target import Target

FUNCTIONS = Path(__file__).with_name("functions") / "go"
GO = shutil.which("go")
needs_go = pytest.mark.skipif(GO is None, reason="there is no go")
MARK = re.compile(r"// (\w+)$")
KINDS = {
    "blocked": "goroutine (chan receive)",
    "unbounded": "map of []uint8 main.answersByNumber",
    "failures": "main.audit main.audited",  # a variable that leads to what has no name
    "slower": "goroutine (chan send)",
    "after": "timer",
    "later": "timer",
    "ticker": "goroutine (chan receive)",
    "appended": "slice of *main.order main.orders",
    "closure": "slice of func() main.atEnd",
    "contexts": "context.Context main.root",
    "substring": "slice of string main.names",
    "unclosed": "goroutine (select)",
    "linked": "main.link main.newest",
    "lastUsed": "container/list.List main.used",
    "session": "sync.Map main.sessions",
    "buffer": "bytes.Buffer main.logged",
    "stored": "planted/stock.Store main.store",
    "days": "map of [][]uint8 main.byDay",
    "worker": "",
    "locked": "goroutine (",
    "libraryCache": "example.com/kit.Cache main.library",
    "libraryGoroutine": "goroutine (chan send)",
    "listener": "map of []func() example.com/kit.listeners",
    "generic": "main.cache[int,[]uint8] main.bodies",
    "compiled": "map of *regexp.Regexp main.expressions",
    "decode": "slice of map[string]string main.decoded",
    "subslice": "slice of []uint8 main.heads",
    "tree": "main.node main.top",
    "captured": "func() main.capturedUnbounded",
    "subscribed": "main.bus main.events",
    "deadline": "timer",
    "pumped": "goroutine (chan receive)",
    "clients": "goroutine (",
    "built": "strings.Builder main.report",
    "nested": "map of map[int][]uint8 main.byUser",
    "small": "map of []*main.price main.history",
    "retried": "map of *main.failure main.retries",
    "helper": "",
    "collected": "",
    "everywhere": "",
}
QUICK = ("blocked", "failures", "collected", "everywhere")
NEWER_FREES = ("after",)  # from Go 1.23 on a timer that nothing refers to is collected


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("planted")


def built(folder: Path, *flags: str, code: Path = FUNCTIONS, cgo: str = "0") -> Path:
    """The program, built with these flags."""
    program = folder / f"{code.name}{'_'.join(flags)}" / "bootstrap"
    if not program.exists():
        own = {"CGO_ENABLED": cgo, "GO111MODULE": "on", "GOFLAGS": "", "GOTOOLCHAIN": "local"}
        command = [str(GO), "build", *flags, "-o", str(program), "."]
        subprocess.run(command, cwd=code, env={**os.environ, **own}, check=True)
    return program


def target(program: Path, **environment: str) -> Target:
    function = Function.from_spec(str(program))
    return Target(spec="planted", name="planted", function=function, memory_mib=1024, environment=environment)


def explained(program: Path, measured_kib: float = 8.0, **environment: str) -> Explanation:
    return run.explain(
        target(program, **environment),
        [{}],
        invocations=151,
        plain_seconds=60,
        measured_kib=measured_kib,
        progress=lambda _, __, ___: None,
    )


def line_marked(name: str, folder: Path = FUNCTIONS) -> tuple[str, int]:
    """The line that ends with this mark."""
    for path in sorted(folder.rglob("*.go")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if (found := MARK.search(line)) is not None and found[1] == name:
                return str(path), number
    raise AssertionError(name)


def names_first(explanation: Explanation, name: str) -> Holder:
    assert explanation.holders, explanation.lines()
    first = explanation.holders[0]
    assert (first.file, first.line) == line_marked(name), explanation.lines()
    return first


def version() -> tuple[int, ...]:
    said = subprocess.run([str(GO), "env", "GOVERSION"], capture_output=True, text=True, check=True).stdout
    return tuple(int(part) for part in re.findall(r"\d+", said)[:2])


@needs_go
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.nightly) for name in KINDS]
)
def test_the_line_of_go_that_keeps_comes_first(folder: Path, name: str) -> None:
    if name in NEWER_FREES and version() >= (1, 23):
        pytest.skip("Go collects it")
    explanation = explained(built(folder), KEEPS=name)
    first = names_first(explanation, name)
    assert f"{first.kind} {first.owner}".strip().startswith(KINDS[name])
    assert explanation.missing == ()


@needs_go
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.nightly) for name in (*KINDS, "queued")]
)
def test_the_repaired_twin_in_go_is_not_accused(folder: Path, name: str) -> None:
    assert explained(built(folder), KEEPS=f"{name}Repaired").holders == []


@needs_go
@pytest.mark.nightly
def test_a_pool_in_go_is_not_accused(folder: Path) -> None:
    assert explained(built(folder), KEEPS="pooled").holders == []


@needs_go
@pytest.mark.nightly
def test_what_waits_in_a_channel_with_room_has_its_own_line(folder: Path) -> None:
    first = explained(built(folder), KEEPS="queued").holders[0]
    file, number = line_marked("queued")
    assert (first.file, first.owner) == (file, "main.queue")
    assert first.line != number  # it is made elsewhere, and nothing grows where it is sent


@needs_go
@pytest.mark.parametrize("flags", [("-trimpath",), pytest.param(("-buildmode=pie",), marks=pytest.mark.nightly)])
def test_the_line_of_go_is_named_however_it_was_built(
    folder: Path, flags: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(FUNCTIONS)  # where a path without a folder is looked for
    explanation = explained(built(folder, *flags), KEEPS="stored", GODEBUG="madvdontneed=1")
    first = names_first(explanation, "stored")
    assert first.kib == pytest.approx(8.1, abs=0.4)  # 8,000 bytes take 8,192, and an item comes with them
    assert "stock.go:21" in page(explanation, "planted")


@needs_go
def test_a_goroutine_counts_with_what_it_keeps(folder: Path) -> None:
    first = names_first(explained(built(folder), KEEPS="slower"), "slower")
    assert first.items == pytest.approx(1, abs=0.05)
    assert first.kib == pytest.approx(2 + 8 + 0.4, abs=0.5)  # its stack, what it sends, its structure


@needs_go
def test_a_stripped_program_in_go_is_told_how_to_build(folder: Path) -> None:
    with pytest.raises(BadInput, match=r"no debug information.*without -s and -w"):
        need_explicable(target(built(folder, "-ldflags=-s -w")))
    assert need_explicable(target(built(folder)))


CGO = """
package main

/*
#include <stdlib.h>
#include <string.h>
static void keep(int size) { memset(malloc(size), 1, size); }
*/
import "C"
import "errors"

func init() {
	handlers["c"] = func() { C.keep(9000); orders = append(orders, newOrder()) }
	handlers["inlined"] = inlined
}

var problems [100_000]error

func inlined() {
	for at := 0; at < 100; at++ {
		number++
		problem := errors.New("too late") // inlined
		problems[number] = problem
	}
}
"""


@pytest.fixture(scope="module")
def code_with_c(folder: Path) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc")
    code = folder / "code"
    shutil.copytree(FUNCTIONS, code)
    (code / "c.go").write_text(CGO)
    return code


@needs_go
@pytest.mark.nightly
def test_what_c_keeps_below_go_is_told_apart(folder: Path, code_with_c: Path) -> None:
    explanation = explained(built(folder, code=code_with_c, cgo="1"), measured_kib=16.9, KEEPS="c")
    assert explanation.account is not None
    assert explanation.account.lines == pytest.approx(8.1, abs=0.4)
    assert explanation.account.outside == pytest.approx(8.8, abs=0.4)
    assert any("C code keeps it, outside of Go's heap (cgo)" in each for each in explanation.sentences())


@needs_go
@pytest.mark.nightly
def test_an_inlined_call_in_a_file_with_c_has_its_line(folder: Path, code_with_c: Path) -> None:
    """cgo writes the file anew, with other lines: the debug information has these for what is inlined."""
    first = explained(built(folder, code=code_with_c, cgo="1"), measured_kib=1.6, KEEPS="inlined").holders[0]
    assert (first.file, first.line) == line_marked("inlined", code_with_c)


@needs_go
def test_gos_program_that_ends_is_no_error(folder: Path) -> None:
    with patch.multiple(run, LOOKS=4, JITTER=(0.0,) * 4):
        explanation = explained(built(folder), KEEPS="unknown")
    assert not explanation.holders
    assert any("failed under the tracer" in each for each in explanation.missing)


AT = [10, 30, 50, 70, 90, 110, 130, 150]


@pytest.mark.parametrize(
    ("levels", "grows"),
    [
        ([1, 1, 2, 2, 4, 4, 4, 8], True),
        ([1, 2, 4, 8, 8, 8, 8, 8], False),  # it was large enough after the first half
        ([1, 1, 2, 2, 3, 3, 4, 4], False),  # each step is as large: no object that is copied
        ([1, 1, 2, 1, 4, 4, 4, 8], False),
        ([1, 1, 1, 1, 1, 1, 1, 8], False),
    ],
)
def test_an_object_that_doubles_grows_step_by_step(levels: list[int], grows: bool) -> None:
    assert (go.doubling(AT, levels) > 0) is grows


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("main.handler.func1", "main"),
        ("net/http.(*Transport).dialConn", "net/http"),
        ("planted/stock.(*Store).Put", "planted/stock"),
        ("main.(*cache[go.shape.int,go.shape.[]uint8]).put", "main"),
        ("example.com/kit.listeners", "example.com/kit"),
    ],
)
def test_a_name_in_go_begins_with_its_package(name: str, package: str) -> None:
    assert go.package(name) == package


def test_what_has_no_name_is_of_the_variable_that_leads_to_it() -> None:
    words = np.array([1040, 7, 0, 0, 0, 1064, 5, 0, 3], np.int64)
    found = variables([(1000, words)], [("main.store", 1000, 1008), ("main.other", 1016, 1024)])
    assert [(each.name, each.words.tolist()) for each in found] == [
        ("main.store", [1040, 1064, 5, 0, 3]),  # the words from 1040 on, and those from 1064 on to which they lead
        ("main.other", [0]),
        ("", [7, 0, 0]),
    ]


def test_gos_settings_are_beside_the_functions_own() -> None:
    assert go.settings({}) == {"GODEBUG": "tracebackancestors=10"}
    assert go.settings({"GODEBUG": "gctrace=1"}) == {"GODEBUG": "gctrace=1,tracebackancestors=10"}


@pytest.mark.parametrize(
    ("account", "said"),
    [
        (
            Account.of(10, lines=6, counted=7, outside=2, known="counted"),
            "the lines 6.0 (counted), places too small to name 1.0 (the same), outside of the runtime's heap 2.0 (by"
            " malloc's own lists), not known 1.0",
        ),
        (Account.of(10, lines=12, counted=15, outside=3, known="counted"), "the lines 12.0 (counted)"),
    ],
)
def test_the_parts_of_the_growth_add_up(account: Account, said: str) -> None:
    assert account.sentence() == f"Of 10.0 KiB that an invocation keeps: {said}."
    parts = {name: kib for name, kib in account.document().items() if name != "settledKiB"}
    assert sum(parts.values()) == max(10, account.lines)
