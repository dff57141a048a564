"""The real sidecar asks a function that plays truemem's preload, under the local Lambda."""

from pathlib import Path
from typing import Any

import pytest
from truemem.verdict import GROWING_FROM

from testing.environment import Environment, Record
from tests.lines.functions.keeps import LATER
from tests.local.conftest import until
from tests.scenarios.killing import kill

FUNCTION = Path(__file__).with_name("functions") / "keeps.py"
MOST = GROWING_FROM + 40


def environment(**settings: Any) -> Environment:
    return Environment(FUNCTION, environment={"TRUEMEM_LINES": "on"}, **settings)


def until_asked(running: Environment, do: str) -> None:
    """Invoke until the preload is asked."""
    for _ in range(MOST):
        if running.invoke(do)["asked"]:
            return
    raise AssertionError("it was never asked")


def files(running: Environment) -> list[str]:
    folder = running.local.environment_dir / "tmp"
    return sorted(file.name for file in folder.iterdir() if file.name.startswith(".truemem-lines-"))


def keeps_up(running: Environment) -> bool:
    """Has the sidecar printed all but the last lines? On a busy machine it may be behind, and what has no place in the
    journal is lost with it."""
    return len(running.local.extension_stdout(running.name)) >= len(running.invocations) - 4


def with_profile(records: list[Record]) -> list[Record]:
    return [record for record in records if record.growthProfile]


@pytest.mark.parametrize("exact", [True, False])
def test_an_environment_that_ends_while_asked_says_so(exact: bool) -> None:
    with environment(exact=exact) as running:
        until_asked(running, "nothing")
        records = running.told()
    (record,) = with_profile(records)
    assert record.growthProfile == {"gaveUp": "the environment has ended"}


def test_an_answer_that_cannot_be_read_costs_the_profile_alone() -> None:
    with environment(exact=True) as running:
        until_asked(running, "junk")
        for _ in range(LATER + 3):
            running.invoke("junk")
        assert files(running) == []
        records = running.told()
        log = running.log()
    (record,) = with_profile(records)
    assert record.growthProfile == {"gaveUp": "the answer cannot be read"}
    assert record.growthLines is None
    assert sum(each.dropped or 0 for each in records) == 1
    assert "ERROR" not in log


def test_a_sidecar_killed_while_it_waits_loses_no_record() -> None:
    with environment() as running:
        until_asked(running, "nothing")
        until(lambda: bool(running.invoke("nothing")) and keeps_up(running))
        known = [made.request_id for made in running.invocations[:-1]]  # the last INVOKE may still be on its way
        kill(running)
        until(lambda: running.attempt("nothing").function_error is None)
        until(lambda: bool(running.invoke("nothing")) and not files(running))
        records = running.records()
    assert {*known, running.invocations[-1].request_id} <= {record.requestId for record in records}
    (record,) = with_profile(records)
    assert record.growthProfile == {"gaveUp": "the environment was reset"}
