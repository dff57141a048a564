"""The real sidecar and the real preloads: a leak is named in the log of the function that has it."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from truemem.verdict import GROWING_FROM
from truemem_workbench.local import Function

from faults.receivers import Collector, answers, status
from testing.environment import Environment
from tests.heaps.test_lambda import environment as python_environment
from tests.heaps.test_node import NODE, REQUIRED
from tests.heaps.test_node import function as node_function
from tests.lines.test_lambda import files, with_profile
from tests.local.conftest import needs_cgroups
from tests.report.test_profiles import top

LAYER = Path(__file__).parents[2] / "layer"
FUNCTIONS = Path(__file__).with_name("functions")
ON = {"TRUEMEM_LINES": "on"}
MOST = GROWING_FROM + 500
"""V8 says what is live after its next major collection."""


def profiled(running: Environment) -> bool:
    """Is a line out that has a profile?"""
    return any('"growthProfile"' in line for line in running.local.extension_stdout(running.name))


def named_by(running: Environment) -> bool:
    """Invoke until there is a profile. Has it a line?"""
    while len(running.invocations) < MOST and not profiled(running):
        for _ in range(20):
            running.attempt()
    return any('"growthLines":[{' in line for line in running.local.extension_stdout(running.name))


def check(running: Environment, file: str, gave_up: str = "") -> None:
    named_by(running)
    records = running.told()
    (record,) = [each for each in records if each.growthProfile]
    assert record.growthProfile.get("gaveUp", "") == gave_up
    assert not any(each.dropped for each in records)
    if gave_up:
        return
    named = [(each["file"], each["function"], each["perInvocationKiB"]) for each in record.growthLines]
    assert named[0] == (file, "keep", pytest.approx(40, rel=0.1 if file.endswith(".py") else 0.5))  # V8 may inline it


@pytest.mark.skipif(not (LAYER / "python" / "truemem_lines").exists(), reason="built without the preload's part")
@pytest.mark.parametrize("exact", [True, False])
def test_a_leak_in_python_is_named_also_to_a_relay(exact: bool, tmp_path: Path) -> None:
    with Collector(answers(status(200))) as relay:
        address = f"http://localhost:{relay.start().port}"
        variables = {**ON, "TRUEMEM_OUTPUT": "emf,pprof", "PYROSCOPE_SERVER_ADDRESS": address}
        with python_environment(FUNCTIONS / "leaks.py", variables=variables, exact=exact) as running:
            check(running, "leaks.py")
            log = running.log()
    assert f"pprof to 127.0.0.1:{relay.port}: works, 1 profiles taken" in log
    (head,), (profile,) = relay.heads, relay.bodies
    name = b"name=function%7Bfunction_version%3D$LATEST%7D"
    assert head.startswith(b"POST /ingest?format=pprof&" + name + b" HTTP/1.1\r\n")
    path = tmp_path / "profile"
    path.write_bytes(profile)
    (kept,) = [words for words in map(str.split, top(path).splitlines()) if "leaks.py" in words[-1] and words[0] != "0"]
    assert kept[-2] == "keep"
    assert int(kept[0].removesuffix("B")) == pytest.approx(40 * 1024, rel=0.1)


@needs_cgroups
@pytest.mark.skipif(not (LAYER / "python" / "truemem_lines").exists(), reason="built without the preload's part")
@pytest.mark.parametrize("later", [20, 45])
def test_a_kill_while_profiled_has_its_record(later: int) -> None:
    """While containers are looked at, and while lines are watched."""
    with python_environment(FUNCTIONS / "leaks.py", variables=ON, memory_mib=128) as running:
        while not files(running):
            running.attempt()
        for _ in range(later):
            running.attempt()
        killed = running.attempt("hog")
        after = running.attempt()
        records = running.told()
    assert (killed.function_error, after.payload) == ("Unhandled", 1)
    record = next(each for each in records if each.requestId == killed.request_id)
    assert (record.OutOfMemory, record.status, record.errorType) == (1, "error", "Runtime.OutOfMemory")
    assert "kernel" in record.outOfMemory["signals"]
    (profiled,) = with_profile(records)
    assert (profiled.growthProfile, profiled.growthLines) == ({"gaveUp": "the environment has ended"}, None)


def leaking_node(module: str = "leaks", *needs: Path) -> Function:
    made = node_function(module)
    return replace(made, task_root=FUNCTIONS, needs=(*made.needs, FUNCTIONS, *needs))


@pytest.mark.skipif(not (LAYER / "truemem" / "lines.cjs").exists(), reason="built without the preload's part")
@pytest.mark.skipif(NODE is None, reason="no node on the path")
@pytest.mark.parametrize("exact", [True, False])
def test_a_leak_in_node_is_named(exact: bool) -> None:
    """V8 samples by chance: what it has of a hot function may be too little, in one environment of thirty."""
    variables = {**ON, "NODE_OPTIONS": REQUIRED}
    for _ in range(3):
        with Environment(leaking_node(), environment=variables, exact=exact, memory_mib=512) as running:
            if named_by(running):
                check(running, "leaks.mjs")
                return
    pytest.fail("no environment of three has named a line")


@needs_cgroups
@pytest.mark.skipif(NODE is None, reason="no node on the path")
def test_a_kill_for_memory_while_profiled_is_as_ever() -> None:
    variables = {**ON, "NODE_OPTIONS": REQUIRED}
    with Environment(leaking_node(), environment=variables, exact=True, memory_mib=256) as running:
        while not files(running):
            assert len(running.invocations) < MOST
            running.attempt()
        for _ in range(20):
            running.attempt()
        (_,) = files(running)
        killed = running.attempt("fill")
        assert running.attempt().payload == 1
        assert files(running) == []
        *_, record, after = running.told()
    assert killed.function_error == "Unhandled"
    assert (record.OutOfMemory, after.OutOfMemory) == (1, None)
    (profiled,) = [each for each in (record, after) if each.growthProfile]
    assert (profiled.growthLines, list(profiled.growthProfile)) == (None, ["gaveUp"])


# --- Beside others' preloads, from npm --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def packages() -> Iterator[Path]:
    """Not in pytest's folder: the function's user cannot read that."""
    names = ["dd-trace", "datadog-lambda-js", "@opentelemetry/api", "@opentelemetry/auto-instrumentations-node"]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--prefix", folder, *names], check=True)
        yield Path(folder, "node_modules")


DATADOG = "--require {}/dd-trace/init "
OPEN_TELEMETRY = "--require {}/@opentelemetry/auto-instrumentations-node/build/src/register.js "
OTHERS: dict[str, tuple[str, str, dict[str, str], str]] = {
    "datadog": ("leaks", DATADOG, {}, ""),
    "its profiler": ("leaks", DATADOG, {"DD_PROFILING_ENABLED": "true"}, "heap profiler is in use"),
    "its handler": ("datadog", "", {"DD_LAMBDA_HANDLER": "leaks.handler", "DD_FLUSH_TO_LOG": "true"}, ""),
    "opentelemetry": ("leaks", OPEN_TELEMETRY, {"OTEL_TRACES_EXPORTER": "none"}, ""),
}


@pytest.mark.nightly
@pytest.mark.timeout(1200)
@pytest.mark.skipif(shutil.which("npm") is None or NODE is None, reason="no npm")
@pytest.mark.parametrize("other", OTHERS)
def test_a_leak_is_named_beside_anothers_preload(packages: Path, other: str) -> None:
    module, options, variables, gave_up = OTHERS[other]
    variables = {**ON, **variables, "PACKAGES": str(packages), "NODE_OPTIONS": options.format(packages) + REQUIRED}
    with Environment(leaking_node(module, packages), environment=variables, memory_mib=512) as running:
        check(running, "leaks.mjs", gave_up)
    assert [made.payload for made in running.invocations] == list(range(1, len(running.invocations) + 1))
