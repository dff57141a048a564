"""The preload in Node.js functions, and what the sidecar's line says of them."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.local import Function
from truemem_workbench.local.configuration.node_function import from_node_handler

from testing.environment import Environment
from tests.heaps.test_lambda import environment as python_environment
from tests.heaps.test_lambda import finished
from tests.scenarios.test_managed_instances import wait_for_lines

ROOT = Path(__file__).parents[2]
PRELOAD = ROOT / "layer" / "truemem" / "heap.cjs"
FUNCTIONS = Path(__file__).with_name("functions") / "node"
NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="no node on the path")

REQUIRED = f"--require {PRELOAD}"
STAND_IN = f"--require {FUNCTIONS / 'stand_in.cjs'}"
CLIENTS = {"fetch": REQUIRED, "http": REQUIRED, "addon": f"{STAND_IN} {REQUIRED}"}


def function(
    module: str = "allocates",
    flags: Sequence[str] = (),
    *,
    name: str = "handler",
    folder: Path = FUNCTIONS,
    program: Path = Path(str(NODE)),
) -> Function:
    """Through a runtime client that needs no compiler (functions/node/client.mjs)."""
    node, client, handler = program.resolve(), FUNCTIONS / "client.mjs", f"{module}.{name}"
    command = (str(node), *flags, str(client), handler)
    return Function(command, folder, handler, "nodejs20.x", needs=(FUNCTIONS, folder, node))


def environment(
    module: str = "allocates",
    *,
    options: str = REQUIRED,
    flags: Sequence[str] = (),
    exact: bool = False,
    **variables: str,
) -> Environment:
    chosen = {**({"NODE_OPTIONS": options} if options else {}), **variables}
    return Environment(function(module, flags), environment=chosen, exact=exact, memory_mib=512)


def managed(workers: int) -> Environment:
    """A Managed Instance whose client serves in so many worker threads."""
    variables = {"NODE_OPTIONS": REQUIRED, "WORKERS": str(workers)}
    return Environment(function(), environment=variables, managed_instances=workers, memory_mib=512)


# --- What is on the line ----------------------------------------------------------------------------------------------


def check(running: Environment) -> None:
    """The heap of each invocation is on its line, of one that fails as well."""
    running.invoke("nothing")
    running.invoke("leak", mib=20)
    assert "RangeError" in str(running.attempt("fail").payload)
    running.invoke("buffers", mib=20)
    before, leak, failed, buffers = finished(running)
    assert {record.heap["runtime"] for record in (before, leak, failed, buffers)} == {"nodejs"}
    assert leak.heap["used"] - before.heap["used"] == pytest.approx(20, abs=6)
    assert failed.heap["used"] - leak.heap["used"] == pytest.approx(0, abs=4)
    assert buffers.heap["external"] - failed.heap["external"] == pytest.approx(20, abs=1)
    for record in (before, leak, failed, buffers):
        heap = record.heap
        assert heap["used"] <= heap["committed"] <= heap["limit"]
        assert heap["metaspace"] < heap["used"]
        assert heap["collections"] >= ("live" in heap)


@pytest.mark.parametrize(
    ("client", "module", "exact"),
    [(client, module, client == "http") for client in CLIENTS for module in ("allocates", "allocates_too")],
)
def test_each_invocation_has_the_heap_on_its_line(client: str, module: str, exact: bool) -> None:
    with environment(module, options=CLIENTS[client], exact=exact, CLIENT=client) as running:
        check(running)


def test_on_managed_instances_the_workers_heaps_are_added_up() -> None:
    """Whichever of them serves: each has a reading of all."""
    with managed(workers=2) as running:
        for do in [*["nothing"] * 20, *["leak"] * 6, *["nothing"] * 20]:
            running.invoke(do, mib=4)
        wait_for_lines(running, 46)
        removed = running.invoke("empty")["answer"]
        wait_for_lines(running, 47)
        running.invoke("nothing")
        running.invoke("nothing")
        wait_for_lines(running, 49)
        heaps = [record.heap for record in running.records()]
    assert removed == 1
    assert all(heaps)
    assert heaps[40]["used"] - heaps[18]["used"] == pytest.approx(24, abs=8)
    assert not any("limit" in heap for heap in heaps)
    counts = [heap["collections"] for heap in heaps]
    assert counts == sorted(counts)


@pytest.mark.parametrize("module", ["allocates.cjs", "allocates_too.mjs", "streams.mjs"])
def test_each_invocation_has_it_under_awss_own_client(module: str) -> None:
    """`streams` sends its answer in pieces."""
    subject = from_node_handler(f"{FUNCTIONS / module}:handler", None, print)
    with Environment(subject, environment={"NODE_OPTIONS": REQUIRED}, memory_mib=512) as running:
        if module != "streams.mjs":
            check(running)
            return
        for mib in (0, 20, 0):
            assert running.attempt("stream", mib=mib).payload == {"answer": None}
        before, after = running.records()[:2]
    assert after.heap["used"] - before.heap["used"] > 8


@pytest.mark.parametrize(
    ("do", "live", "external"), [("leak", 20, 0), ("garbage", 0, 0), ("buffers", 0, 20), ("cache", 0, 0)]
)
def test_what_grows_between_collections_is_told(do: str, live: float, external: float) -> None:
    """20 invocations of 1 MiB after the first 20, each counted after a collection."""
    with environment(flags=["--expose-gc"]) as running:
        for _ in range(2):
            for _ in range(20):
                running.invoke(do, mib=1)
            running.invoke("collect")
        records = finished(running)
    half, end = records[20].heap, records[41].heap
    assert end["live"] - half["live"] == pytest.approx(live, abs=5 if live else 2)
    assert end["external"] - half["external"] == pytest.approx(external, abs=2)
    assert end["collections"] > half["collections"]
    assert end["gcMs"] > half["gcMs"]


def test_garbage_is_used_and_not_live() -> None:
    with environment(flags=["--expose-gc", "--max-semi-space-size=64"]) as running:
        running.invoke("collect")
        for do, mib in (("garbage", 10), ("code", 3), ("code", 3)):
            running.invoke(do, mib=mib)
        _, lazy, *coded = (record.heap for record in finished(running))
    assert lazy["used"] - lazy["live"] > 8
    sizes = [heap["metaspace"] for heap in (lazy, *coded)]
    assert sizes[2] > sizes[1] + 0.3 > sizes[0] + 0.6


# --- It does no harm --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("running", [environment, python_environment], ids=["nodejs", "python"])
def test_a_function_that_empties_tmp_has_a_new_page(running: Callable[[], Environment]) -> None:
    with running() as function:
        removed = [function.invoke(do)["answer"] for do in ("nothing", "empty", "empty")]
        records = finished(function)
    assert removed == [None, 1, 1]
    assert records[-1].heap  # those before may have been removed before they were read


@pytest.mark.parametrize("running", [environment, python_environment], ids=["nodejs", "python"])
def test_what_took_a_closed_pages_descriptor_is_not_written(running: Callable[[], Environment]) -> None:
    with running() as function:
        *_, written = [function.invoke(do)["answer"] for do in ("nothing", "close", "victim")]
        records = finished(function)
    assert written == 0
    assert records[-1].heap


def test_unhandled_rejection_still_kills_node() -> None:
    answers: list[list[Any]] = []
    for options in ("--unhandled-rejections=strict", f"{REQUIRED} --unhandled-rejections=strict"):
        with environment(options=options) as running:
            running.invoke("nothing")
            answers.append([running.attempt(do).payload for do in ("reject", "nothing", "look")])
            records = finished(running)
    (_, as_ever, _), (_, noted, looked) = answers
    assert as_ever == noted
    assert len(looked["answer"]["probes"]) == 1
    assert records[-1].heap


OTHERS = {
    "replaces.cjs": "const fs = require('fs'); fs.ftruncateSync = fs.opendirSync = fs.unlinkSync = () => {"
    " throw new Error('replaced') }; Date.now = () => 1e12;",
    "wraps.cjs": "const { dlopen } = process; process.dlopen = (...given) => dlopen.apply(process, given);"
    "const http = require('http'), { request } = http; http.request = (...given) => request(...given);",
    "subscribes.mjs": "import { subscribe } from 'node:diagnostics_channel';"
    "for (const name of ['http.client.request.start', 'undici:request:create']) subscribe(name, () => {});",
}


@pytest.fixture
def others() -> Iterator[dict[str, Path]]:
    """Not in pytest's folder: the function's user cannot read that."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        paths = {each: Path(name, each) for each in OTHERS}
        for each, path in paths.items():
            path.write_text(OTHERS[each])
        yield paths


@pytest.mark.parametrize("client", CLIENTS)
def test_other_preloads_run_as_well(client: str, others: dict[str, Path]) -> None:
    more = f"--require {others['wraps.cjs']} {CLIENTS[client]} --import {others['subscribes.mjs']}"
    with environment(options=f"{more} --require {others['replaces.cjs']}", CLIENT=client) as running:
        running.invoke("nothing")
        assert finished(running)[0].heap


def test_a_preload_that_throws_ends_the_process_as_ever(tmp_path: Path) -> None:
    (tmp_path / "throws.cjs").write_text("throw new RangeError('own')")
    for options in (f"--require {tmp_path / 'throws.cjs'}", f"{REQUIRED} --require {tmp_path / 'throws.cjs'}"):
        done = run("console.log(1)", NODE_OPTIONS=options, AWS_LAMBDA_RUNTIME_API="127.0.0.1:9")
        assert (done.returncode, done.stdout) == (1, "")
        assert "RangeError: own" in done.stderr


# --- In a process of its own ------------------------------------------------------------------------------------------


def run(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    own = {name: value for name, value in os.environ.items() if name not in ("NODE_OPTIONS", "AWS_LAMBDA_RUNTIME_API")}
    command = [str(NODE), "-e", program]
    return subprocess.run(command, env={**own, **variables}, capture_output=True, text=True, check=False, timeout=60)


def in_lambda(program: str, tmp: Path, **variables: str) -> Any:
    """What the program prints, as JSON. It runs with the preload, and has `answer(id)`: a client's request."""
    answer = (
        "const channel = require('diagnostics_channel').channel('http.client.request.start'); const answer = (id) => "
        "channel.publish({ request: { path: `/2018-06-01/runtime/invocation/${id}/response`,"
        " getHeader: () => '127.0.0.1:9' } });"
    )
    about = {"NODE_OPTIONS": REQUIRED, "AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9", "TMPDIR": str(tmp), **variables}
    done = run(answer + program, **about)
    assert done.stderr == ""
    return json.loads(done.stdout or "null")


HOOKED = "!String(process.dlopen).includes('[native code]')"
IN_WORKER = (
    "new (require('worker_threads').Worker)("
    f"\"require('worker_threads').parentPort.postMessage({HOOKED})\", {{ eval: true }}).on('message', console.log)"
)


def test_it_is_off_outside_lambda_and_in_worker_threads(tmp_path: Path) -> None:
    assert in_lambda(f"console.log({HOOKED})", tmp_path) is True
    assert in_lambda(f"console.log({HOOKED})", tmp_path, AWS_LAMBDA_RUNTIME_API="") is False
    assert in_lambda(IN_WORKER, tmp_path) is False


def test_it_keeps_no_process_alive(tmp_path: Path) -> None:
    program = "answer('one'); let kept = []; for (let n = 0; n < 1e6; n++) { kept = [kept.slice(0, 9), n] }"
    assert in_lambda(program, tmp_path) is None
    (page,) = tmp_path.iterdir()
    assert page.stat().st_size == 4096
    assert page.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("api", ["127.0.0.1:8", "127.0.0.1:90", "localhost:9"])
def test_requests_to_others_are_none_of_its_business(tmp_path: Path, api: str) -> None:
    in_lambda("answer('one')", tmp_path, AWS_LAMBDA_RUNTIME_API=api)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("request_id", ["%0A", "%20", "%E4%BD%A0", "%", "a".ljust(240, "b")])
def test_a_request_id_that_does_not_fit_is_not_noted(tmp_path: Path, request_id: str) -> None:
    in_lambda(f"answer('{request_id}')", tmp_path)
    assert all(b"truemem-heap" not in page.read_bytes() for page in tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_to_is_no_error(tmp_path: Path) -> None:
    assert in_lambda("answer('one'); console.log(1)", tmp_path / "none") == 1


@pytest.mark.parametrize(
    "breaks",
    [
        "delete globalThis.Reflect",
        "Array.prototype[Symbol.iterator] = () => { throw new Error('broken') }",
        "for (const name of ['Math', 'RegExp', 'Date', 'decodeURIComponent']) delete globalThis[name]",
        "for (const { prototype } of [Object, Array, Function, RegExp, String]) Object.freeze(prototype)",
    ],
)
def test_a_function_that_breaks_built_ins_is_answered(tmp_path: Path, breaks: str) -> None:
    (tmp_path / "addon.cjs").write_text("process.dlopen = () => {}")
    client = "const client = { next() {}, done(id, body) { return body }, error() {} };"
    answers = "require('fs').writeSync(1, client.done('one', '1'))"
    program = f"{client} process.dlopen({{ exports: client }}, 'client'); {breaks}; {answers}"
    assert in_lambda(program, tmp_path, NODE_OPTIONS=f"--require {tmp_path / 'addon.cjs'} {REQUIRED}") == 1


def test_collections_under_a_broken_iterator_are_not_observed(tmp_path: Path) -> None:
    """Node.js itself iterates for an observer, and the error would end the process."""
    breaks = "Array.prototype[Symbol.iterator] = () => { throw new Error('broken') };"
    collects = "for (let n = 0, kept; n < 1e6; n += 1) kept = [n, kept && kept[0]];"
    prints = "setTimeout(() => require('fs').writeSync(1, '1'), 50);"
    assert in_lambda(f"answer('one'); {breaks} answer('two'); {collects} {prints}", tmp_path) == 1


def test_no_link_is_followed_and_old_pages_are_removed(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / f".truemem-heap-{ended.pid}").touch()
    (tmp_path / ".truemem-heap-1").touch()
    link = f"require('fs').symlinkSync('{victim}', `{tmp_path}/.truemem-heap-${{process.pid}}`);"
    pid = in_lambda(f"{link} answer('one'); console.log(process.pid)", tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {"victim", ".truemem-heap-1", f".truemem-heap-{pid}"}
    assert victim.read_text() == "precious"
    assert not (tmp_path / f".truemem-heap-{pid}").is_symlink()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{}", None),
        ("--no-warnings  {} --no-deprecation", "--no-warnings --no-deprecation"),
        ("{} {} -r fs", "-r fs"),
    ],
)
@pytest.mark.parametrize("spelling", ["--require {}", "-r {}", "--require={}", '--require "{}"'])
def test_the_option_is_taken_off_however_it_is_spelled(
    tmp_path: Path, spelling: str, before: str, after: str | None
) -> None:
    option = spelling.format(PRELOAD)
    program = "answer('one'); console.log(JSON.stringify(process.env.NODE_OPTIONS ?? null))"
    assert in_lambda(program, tmp_path, NODE_OPTIONS=before.format(option, option)) == after
