"""Many environments of one function: which gets a request, when they start and end, and what is left of them."""

import asyncio
import gc
import json
import os
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from truemem_workbench.local import Answer, BadInput, EnvironmentChange, Scaling, Settings, Stopped, Throttled
from truemem_workbench.local.lifecycle.environment import OnDemandEnvironment
from truemem_workbench.local.lifecycle.journal import EnvironmentJournal
from truemem_workbench.local.scaling import permit_files

from tests.local.conftest import (
    BOUND_S,
    HANDLER,
    RECORDER,
    RUN,
    Local,
    LocalRun,
    cgroups_of,
    client_of,
    function_at,
    has_ended,
    needs_cgroups,
    until,
)


class Fleet(Local):
    """A local Lambda that scales out, with what tests ask of it."""

    def __init__(self, function: Path | str = HANDLER, **settings: Any) -> None:
        scaling = Scaling(**{name: settings.pop(name) for name in Scaling.__annotations__ if name in settings})
        self.changes: list[EnvironmentChange] = []
        super().__init__(
            function_at(function), Settings(**settings), scaling=scaling, on_environment=self.changes.append
        )

    def answers(self, *payloads: object) -> list[Answer]:
        """Of requests that are made at once."""

        async def all_of_them() -> list[Answer]:
            return await asyncio.gather(*(self.answer(json.dumps(payload).encode()) for payload in payloads))

        return self.run(all_of_them())

    def one(self, payload: object = None) -> Answer:
        """Of a request that is alone."""
        self.settle()
        (answer,) = self.answers(payload)
        self.settle()
        return answer

    def of_kind(self, kind: str) -> list[EnvironmentChange]:
        return [change for change in self.changes if change.kind == kind]

    def ends(self) -> list[tuple[str, str]]:
        """Id and reason of each environment that has ended."""
        return [(change.environment, change.reason) for change in self.of_kind("ended")]


StartFleet = Callable[..., Fleet]


def listening() -> int:
    return sum(made.status == psutil.CONN_LISTEN for made in psutil.Process().net_connections())


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StartFleet]:
    """Start a fleet. At the end everything is stopped, and nothing of it may be left."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    started: list[Fleet] = []
    before = listening()

    def start(function: Path | str = HANDLER, **settings: Any) -> Fleet:
        made = Fleet(function, **settings)
        made.start()
        started.append(made)
        return made

    yield start
    for each in started:
        pids = [pid for name in each.environment_ids for pid in each.processes(name).values()]
        each.stop(abort=True)
        assert not [pid for pid in pids if psutil.pid_exists(pid)]
        ids = [change.environment for change in each.of_kind("started")]
        assert sorted(ids) == sorted(name for name, _ in each.ends())
        assert not [name for name in ids if cgroups_of(name)]
    assert not list(tmp_path.glob("truemem-*"))
    assert listening() == before


# --- routing ----------------------------------------------------------------------------------------------------------


def test_a_request_takes_a_free_environment_else_a_new_one(fleet: StartFleet) -> None:
    local = fleet(environments=2)
    assert local.environment_ids == []

    first = local.one()
    assert (first.is_cold, first.error) == (True, "")
    again = local.one()
    assert (again.environment, again.is_cold) == (first.environment, False)

    at_once = local.answers({"sleep": 0.2}, {"sleep": 0.2})
    assert sorted(answer.is_cold for answer in at_once) == [False, True]
    assert {answer.environment for answer in at_once} == set(local.environment_ids)


def test_of_free_environments_the_last_used_one_is_taken(fleet: StartFleet) -> None:
    local = fleet(environments=2)
    slow, quick = local.answers({"sleep": 0.5}, None)
    assert slow.ended_s > quick.ended_s
    assert {local.one().environment for _ in range(5)} == {slow.environment}


def test_a_cold_start_waits_for_the_init(fleet: StartFleet) -> None:
    local = fleet(environments=1)
    answer = local.one()
    kinds = ["started", "initialised"]
    assert [change.kind for change in local.changes] == kinds
    assert {change.environment for change in local.changes} == {answer.environment}
    assert answer.begun_s < local.of_kind("initialised")[0].time_s < answer.ended_s
    (init_ms,) = [change.init_ms for change in local.of_kind("initialised")]
    assert local.reports[0].init_duration_ms == init_ms


def test_a_visit_comes_after_the_invocation_and_before_the_next(fleet: StartFleet) -> None:
    local = fleet(environments=1)
    environment = local.one().environment
    running = local.begin(local.answer(b'{"sleep": 0.3}'))
    until(lambda: environment in local.environment_ids and not local.run(_is_idle(local)))
    visited: list[tuple[int, bool]] = []
    waiting: list[Any] = []

    def look(pid: int) -> None:
        visited.append((pid, running.done()))
        waiting.append(local.begin(local.answer(b"{}")))
        time.sleep(0.2)
        assert not waiting[0].done()

    local.visit(lambda pid: True, look)
    assert visited == [(local.processes(environment)["runtime"], True)]
    assert (waiting[0].result(BOUND_S).error, waiting[0].result().is_cold) == ("", False)
    local.visit(lambda pid: False, look)
    assert len(visited) == 1


async def _is_idle(local: Fleet) -> bool:
    return all(not member.requests for member in local._server.fleet._members)


def test_one_more_request_is_throttled(fleet: StartFleet) -> None:
    local = fleet(environments=2)
    answers = local.answers({"sleep": 0.3}, {"sleep": 0.3}, None)
    assert [answer.error for answer in answers] == ["", "", "throttled"]
    assert answers[2].environment == ""
    assert local.one().error == ""  # a place is free again


@pytest.mark.parametrize(
    ("scaling", "reason"),
    [
        ({"environments": 1}, "ConcurrentInvocationLimitExceeded"),
        ({"environments": 2, "reserved_concurrency": 1}, "ReservedFunctionConcurrentInvocationLimitExceeded"),
    ],
)
def test_boto3_raises_what_lambda_throttles(fleet: StartFleet, scaling: dict[str, int], reason: str) -> None:
    local = fleet(**scaling)
    client = client_of(local)
    running = local.invoke_in_background({"sleep": 1})
    until(lambda: local.of_type("start"))
    with pytest.raises(client.exceptions.TooManyRequestsException) as error:
        client.invoke(FunctionName="function")
    assert error.value.response["Reason"] == reason  # type: ignore[typeddict-item]
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 429
    assert error.value.response["Error"]["Message"] == "Rate Exceeded."
    with pytest.raises(Throttled, match=reason):
        local.invoke()
    assert running.result(BOUND_S).function_error is None


def test_asynchronous_invocations_wait_in_order(fleet: StartFleet) -> None:
    local = fleet(environments=1)
    client = client_of(local)
    for number in range(5):
        payload = json.dumps({"print": f"number {number}"})
        answer = client.invoke(FunctionName="function", Payload=payload, InvocationType="Event")
        assert answer["StatusCode"] == 202
    local.settle()
    assert [line.text for line in local.logs if line.source == "function"] == [f"number {n}" for n in range(5)]
    assert len(local.of_kind("started")) == 1


def test_an_environment_belongs_to_one_tenant(fleet: StartFleet) -> None:
    local = fleet(environments=2)
    for tenant, number in (("green", 1), ("blue", 2), ("green", 2), ("blue", 2)):
        assert local.finish(tenant_id=tenant).payload["tenant"] == tenant
        assert len(local.of_kind("started")) == number

    oldest = local.environment_ids[0]
    local.finish(tenant_id="red")  # the environment that was idle for longest makes room
    until(lambda: local.ends() == [(oldest, "tenant")])
    assert len(local.environment_ids) == 2


def test_managed_instances_have_several_places_in_each(fleet: StartFleet) -> None:
    local = fleet(environments=2, managed_instances=2)
    answers = local.answers(*[{"sleep": 0.5}] * 5)
    assert [answer.error for answer in answers] == ["", "", "", "", "throttled"]
    assert sorted(answer.environment for answer in answers[:4]) == sorted(local.environment_ids * 2)


def test_a_managed_environment_that_fails_starts_again(fleet: StartFleet) -> None:
    local = fleet(environments=1, managed_instances=2)
    first = local.one()
    os.kill(local.processes(first.environment)["runtime"], signal.SIGKILL)
    until(lambda: local.of_kind("reset"))
    until(lambda: not local.processes(first.environment))

    again = local.one()
    assert (again.environment, again.is_cold, again.error) == (first.environment, True, "")


def test_provisioned_environments_start_at_once_and_stay(fleet: StartFleet) -> None:
    local = fleet(environments=2, initialization="provisioned-concurrency", idle_s=0.1)
    local.settle()
    assert len(local.of_kind("initialised")) == 2
    assert [answer.is_cold for answer in local.answers(None, None)] == [False, False]
    time.sleep(0.3)
    assert not local.ends()


def test_snap_start_restores_each_environment(fleet: StartFleet) -> None:
    local = fleet(environments=2, initialization="snap-start")
    assert [answer.is_cold for answer in local.answers(None, None)] == [True, True]
    local.settle()
    assert all(report.restore_duration_ms for report in local.reports)


# --- ends -------------------------------------------------------------------------------------------------------------


def test_an_idle_environment_ends_by_spindown(fleet: StartFleet) -> None:
    behaviour = json.dumps({"events": ["INVOKE", "SHUTDOWN"]})
    local = fleet(environments=1, idle_s=0.3, extensions={"recorder": RECORDER}, environment={"RECORDER": behaviour})
    first = local.one()
    until(local.ends)
    assert local.ends() == [(first.environment, "idle")]
    assert local.shutdown_reasons() == ["spindown"]
    assert not cgroups_of(first.environment)
    with pytest.raises(LookupError):
        local.processes(first.environment)

    second = local.one()
    assert second.is_cold
    assert second.environment != first.environment


def test_an_old_environment_ends_when_it_is_idle(fleet: StartFleet) -> None:
    local = fleet(environments=1, age_s=0.5)
    busy = local.one({"sleep": 1})
    assert busy.error == ""
    until(local.ends)
    assert local.ends() == [(busy.environment, "age")]

    idle = local.one()
    until(lambda: len(local.ends()) == 2)
    assert local.ends()[1] == (idle.environment, "age")


def test_an_aged_provisioned_environment_is_replaced(fleet: StartFleet) -> None:
    local = fleet(environments=1, initialization="provisioned-concurrency", age_s=1.5)
    until(lambda: len(local.of_kind("initialised")) == 2)
    assert [reason for _, reason in local.ends()] == ["age"]


def test_a_failure_resets_its_environment_alone(fleet: StartFleet) -> None:
    local = fleet(environments=2)
    local.answers({"sleep": 0.3}, {"sleep": 0.3})
    local.settle()
    before = {name: local.processes(name) for name in local.environment_ids}
    failed = local.one({"exit": 1})
    (spared,) = set(before) - {failed.environment}
    assert failed.error.startswith("Runtime.ExitError: RequestId: ")
    assert [(change.environment, change.reason) for change in local.of_kind("reset")] == [
        (failed.environment, "Runtime.ExitError")
    ]
    assert local.processes(spared) == before[spared]

    again = local.one()
    assert (again.environment, again.is_cold) == (failed.environment, True)
    assert not local.ends()


@needs_cgroups
def test_each_environment_has_its_own_limit_and_mark(fleet: StartFleet) -> None:
    local = fleet(environments=2, memory_mib=128)
    large, small = local.answers({"keep": 60}, {"sleep": 0.5})
    local.settle()
    marks = {report.request_id: report.max_memory_used_mib for report in local.reports}
    assert marks[large.request_id] >= marks[small.request_id] + 50
    before = local.processes(small.environment)

    taken = local.answers({"sleep": 0.5}, {"keep": 200})[1]  # the small one was used last
    local.settle()
    assert taken.environment == large.environment
    assert taken.error.startswith("Runtime.OutOfMemory: ")
    assert [change.reason for change in local.of_kind("reset")] == ["out of memory"]
    assert local.processes(small.environment) == before


def test_each_line_names_its_environment_and_its_sidecar(fleet: StartFleet) -> None:
    local = fleet(environments=2, extensions={"recorder": RECORDER}, environment={"RECORDER": "{}"})
    answers = local.answers({"sleep": 0.3}, {"sleep": 0.3})
    local.settle()
    for answer in answers:
        own = [line for line in local.logs if line.environment == answer.environment]
        assert {line.source for line in own} == {"platform", "extension:recorder"}
        assert any(f"RequestId: {answer.request_id}" in line.text for line in own)
        assert set(local.processes(answer.environment)) == {"runtime", "extension:recorder"}
    assert {line.environment for line in local.logs} == {answer.environment for answer in answers}


def test_an_environment_that_cannot_start_refuses_its_request(fleet: StartFleet, tmp_path: Path) -> None:
    local = fleet(environments=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
        answer = local.post()
    assert (answer.status_code, "absent" in answer.json()["Message"]) == (500, True)
    until(local.ends)
    assert "absent" in local.ends()[0][1]
    assert local.one().error == ""


def test_an_error_of_our_own_ends_its_environment(fleet: StartFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    local = fleet(environments=1)
    before = local.one()
    with monkeypatch.context() as patch:
        patch.setattr(OnDemandEnvironment, "_start_clock", None)
        with pytest.raises(Stopped):
            local.answers(None)
    until(local.ends)
    assert local.ends() == [(before.environment, "'NoneType' object is not callable")]
    assert local.one().environment != before.environment


# --- at a terminal ----------------------------------------------------------------------------------------------------


def test_a_run_has_a_finding_for_each_environment(local_run: LocalRun) -> None:
    done = local_run(HANDLER, "--environments", "2", "--event", '{"sleep": 0.1}', "--invocations", "6", "--json")
    documents = [json.loads(line) for line in done.stdout.splitlines()]
    ids = {each["log"]["environment"] for each in documents if "log" in each}
    summary = documents[-1]["summary"]
    assert (done.returncode, summary["invocations"], len(ids)) == (0, 6, 2)
    assert {each["environment"] for each in summary["environments"]} == ids
    assert {row["environment"] for row in summary["last"]} == ids
    assert {each["cause"] for each in summary["environments"]} == {"undecided"}


def test_each_line_has_the_name_of_its_environment(local_run: LocalRun) -> None:
    event = '{"print": "hello"}'
    done = local_run(HANDLER, "--environments", "1", "--event", event, "--invocations", "2", "--raw", "--no-sidecar")
    names = {line.split()[0] for line in done.stdout.splitlines() if " function | hello" in line}
    assert len(names) == 1
    assert all(len(name) == 6 for name in names)


# --- what is left of them ---------------------------------------------------------------------------------------------


def test_the_tool_does_not_grow_when_nothing_is_kept(fleet: StartFleet) -> None:
    local = fleet(environments=2, keep=False)
    local.answers(*[{"sleep": 0.2}] * 2)

    def objects_after(invocations: int) -> int:
        for _ in range(invocations // 2):
            local.answers(None, None)
        local.settle()
        gc.collect()
        return len(gc.get_objects())

    before = objects_after(100)
    grown = objects_after(300) - before
    assert grown < 100, "less than one object in three invocations"
    assert (local.logs, local.events, local.reports) == ([], [], [])


def test_nothing_of_an_ended_environment_stays_in_memory(fleet: StartFleet) -> None:
    local = fleet(environments=1, age_s=0.01, keep=False)
    for _ in range(3):
        local.one()
        until(lambda: not local.environment_ids)
    until(lambda: len(local.ends()) == 3)
    ids = {name for name, _ in local.ends()}

    def kept() -> list[EnvironmentJournal]:
        gc.collect()
        return [each for each in gc.get_objects() if isinstance(each, EnvironmentJournal) and each.environment in ids]

    until(lambda: not kept())


def test_the_death_of_the_tool_ends_every_environment(tmp_path: Path) -> None:
    """Frozen processes would stay for ever: a guard ends them."""
    place = tmp_path / "folders"
    place.mkdir()
    command = [*RUN, HANDLER, "--no-sidecar", "--environments", "2", "--provisioned-concurrency", "--json"]
    environment = {**os.environ, "TMPDIR": str(place)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as tool:
        assert tool.stdout is not None
        ids: set[str] = set()
        for line in tool.stdout:
            logged = json.loads(line).get("log", {"text": ""})
            ids |= {logged["environment"]} if logged["text"].startswith("INIT_REPORT") else set()
            if len(ids) == 2:
                break
        children = psutil.Process(tool.pid).children(recursive=True)
        assert len(children) >= 4  # two runtimes, two watchdogs
        tool.send_signal(signal.SIGKILL)
        tool.stdout.read()
    until(lambda: all(map(has_ended, children)))
    until(lambda: not any(map(cgroups_of, ids)))
    until(lambda: not list(place.glob("truemem-*")))


def test_more_environments_than_open_files_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    permitted: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 1024))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: permitted.append(limits))
    with pytest.raises(BadInput, match=r"50 environments need 1200 open files.* 1024\. Try --environments 41"):
        permit_files(50)
    permit_files(41)
    permit_files(1)
    assert permitted == [(1020, 1024)]


# --- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scaling", "said"),
    [
        ({"environments": 0}, "0 environments: .* Try --environments 1"),
        ({"reserved_concurrency": -1}, "reserved concurrency of -1.* Try --reserved-concurrency 1"),
        ({"idle_s": 0}, "idle time of 0 s"),
        ({"age_s": -5}, "age time of -5 s"),
    ],
)
def test_what_scaling_refuses(scaling: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        Scaling(**scaling)
