"""The sidecar itself is killed: what it knew is printed by the next process of the environment, once."""

import json
from pathlib import Path

from truemem.journal import CURVE
from truemem.support.files import PAGE_BYTES

from testing.environment import Environment
from tests.local.conftest import in_background, until
from tests.scenarios.killing import kill


def journals(environment: Environment) -> list[Path]:
    return list((environment.local.environment_dir / "tmp").glob(".truemem-*"))


def test_the_next_process_prints_what_ran_and_what_waited() -> None:
    with Environment(timeout_s=300) as environment:
        environment.invoke(mib=5)
        environment.invoke(mib=9)
        running = in_background(lambda: environment.attempt(mib=60, ms=300_000))
        until(lambda: level_reached(environment, 60))
        kill(environment)
        running.result()
        environment.invoke(mib=5)
        records = {record.requestId: record for record in environment.records()}
    ids = [made.request_id for made in environment.invocations]
    assert list(records) == ids
    assert [records[each].invocation for each in ids] == [1, 2, 3, 4]
    assert {record.environmentId for record in records.values()} == {records[ids[0]].environmentId}
    died = records[ids[2]]
    assert died.recovered is True
    assert (died.method, died.peakUpper, died.OutOfMemory) == ("sampled", None, None)
    assert died.PeakRSS > 60
    assert died.lastSamples[-1][1] > 60
    after = records[ids[3]]
    assert (after.coldStart, after.suppressedInit, after.recovered) == (None, True, None)
    assert after.highWaterMark >= records[ids[1]].PeakRSS


def level_reached(environment: Environment, mib: int) -> bool:
    """Has the function touched so much, and the sidecar written it down?"""
    (journal,) = journals(environment)
    pages = journal.read_bytes()
    curves = [pages[at : pages.index(b"\n", at)] for at in (PAGE_BYTES + CURVE, 2 * PAGE_BYTES + CURVE)]
    return any(curve.startswith(b"[") and json.loads(curve)[1] > mib * 1024 for curve in curves)


def test_the_journal_is_private_and_goes_at_the_end() -> None:
    with Environment() as environment:
        environment.invoke()
        (journal,) = journals(environment)
        about = journal.stat()
        assert about.st_mode & 0o777 == 0o600
        assert about.st_size < 100_000
        environment.local.stop()
        assert not journal.exists()


def test_switched_off_there_is_no_file() -> None:
    with Environment(environment={"TRUEMEM_JOURNAL": "off"}) as environment:
        environment.invoke()
        assert journals(environment) == []
        (record,) = environment.records()
    assert record.recovered is None
