"""The real sidecar and the real preloads: a leak is named in the log of the function that has it."""

from dataclasses import replace
from pathlib import Path

import pytest
from truemem.verdict import GROWING_FROM
from truemem_workbench.local import Function

from testing.environment import Environment
from tests.heaps.test_lambda import environment as python_environment
from tests.heaps.test_node import NODE, REQUIRED
from tests.heaps.test_node import function as node_function
from tests.lines.test_lambda import files, with_profile
from tests.local.conftest import needs_cgroups

LAYER = Path(__file__).parents[2] / "layer"
FUNCTIONS = Path(__file__).with_name("functions")
ON = {"TRUEMEM_LINES": "on"}
MOST = GROWING_FROM + 500
"""V8 says what is live after its next major collection."""


def check(running: Environment, file: str) -> None:
    for _ in range(MOST):
        running.attempt()
    records = running.told()
    (record,) = [each for each in records if each.growthProfile]
    assert "gaveUp" not in record.growthProfile
    named = [(each["file"], each["function"], each["perInvocationKiB"]) for each in record.growthLines]
    assert named[0] == (file, "keep", pytest.approx(40, rel=0.1))
    assert not any(each.dropped for each in records)


@pytest.mark.skipif(not (LAYER / "python" / "truemem_lines").exists(), reason="built without the preload's part")
@pytest.mark.parametrize("exact", [True, False])
def test_a_leak_in_python_is_named(exact: bool) -> None:
    with python_environment(FUNCTIONS / "leaks.py", variables=ON, exact=exact) as running:
        check(running, "leaks.py")


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


def leaking_node() -> Function:
    made = node_function("leaks")
    return replace(made, task_root=FUNCTIONS, needs=(*made.needs, FUNCTIONS))


@pytest.mark.skipif(not (LAYER / "truemem" / "lines.cjs").exists(), reason="built without the preload's part")
@pytest.mark.skipif(NODE is None, reason="no node on the path")
@pytest.mark.parametrize("exact", [True, False])
def test_a_leak_in_node_is_named(exact: bool) -> None:
    variables = {**ON, "NODE_OPTIONS": REQUIRED}
    with Environment(leaking_node(), environment=variables, exact=exact, memory_mib=512) as running:
        check(running, "leaks.mjs")
