"""Who is who, whatever the variables say: with real extensions and a real runtime."""

import sys
from pathlib import Path

import pytest
from truemem_workbench.local import Function

from testing.environment import Environment
from tests.local.conftest import executable
from tests.scenarios.test_out_of_memory import scores

EXTENSIONS = Path(__file__).with_name("extensions")
HELD_MIB = 56

EVERYWHERE = {
    "LAMBDA_TASK_ROOT": "/var/task",
    "AWS_EXECUTION_ENV": "AWS_Lambda_python3.13",
    "ELSEWHERE": str(EXTENSIONS / "plain.py"),
    "HOLDS": str(HELD_MIB),
    "NAME": "elsewhere",
}
"""Base images, and who builds one, set variables for every process."""


def test_an_extension_that_becomes_a_program_is_not_the_function() -> None:
    with Environment(extensions=[EXTENSIONS / "elsewhere"], memory_mib=512, environment=EVERYWHERE) as environment:
        for _ in range(2):
            environment.invoke(mib=5)
        found = scores(environment)
        records = environment.records()
    for record in records:
        assert record.processes in (1, None)  # of the last, nothing is left to count
        assert record.PeakRSS < HELD_MIB, f"{record.line} {environment.log()}"
    assert records[0].CurrentRSS < HELD_MIB
    # One that began when the sidecar had registered, on a busy machine, is known as nothing.
    for held in records[0].holders.get("extensions", {}).values():
        assert held > 2 * HELD_MIB  # with its child
    assert found["extension:elsewhere"] < found["runtime"]


BOOTSTRAP = """#!/bin/sh
cd /
{start} "{python}" -IS "{program}" "$AWS_LAMBDA_RUNTIME_API"
"""
PROGRAM = """import http.client, sys, time
api = http.client.HTTPConnection(sys.argv[1])
held = b"x" * (8 << 20)
while True:
    api.request("GET", "/2018-06-01/runtime/invocation/next")
    event = api.getresponse()
    event.read()
    time.sleep(0.05)
    more = b"x" * (20 << 20)
    del more
    request = event.headers["Lambda-Runtime-Aws-Request-Id"]
    api.request("POST", f"/2018-06-01/runtime/invocation/{request}/response", b"{}")
    api.getresponse().read()
"""


@pytest.mark.parametrize(
    ("start", "processes"),
    [("env -u _HANDLER -u AWS_EXECUTION_ENV", 2), ("exec env -i", 1)],
    ids=["under a shell", "without any variable"],
)
def test_a_runtime_that_no_variable_tells_of(start: str, processes: int, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    text = BOOTSTRAP.format(start=start, python=sys.executable, program=program)
    bootstrap = executable(tmp_path / "bootstrap", text)
    tmp_path.chmod(0o755)
    with Environment(Function.from_bootstrap(bootstrap)) as environment:
        for _ in range(2):
            environment.attempt()
        record, last = environment.records()
    assert record.processes == processes
    assert record.peakLower < 60, record.line
    assert record.peakUpper > 28, record.line  # on a busy machine the runtime may have run before it was found
    assert last.baselineRSS is None or last.baselineRSS > 10
    assert "no process of the function" not in environment.log()
