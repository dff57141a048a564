"""`truemem size --function`: what it tries in AWS, what that costs, and that the function is as it was at any end."""

import base64
import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from moto.awslambda.exceptions import InvalidParameterValueException, LambdaClientError, PreconditionFailedException
from moto.awslambda.models import LambdaFunction, LambdaStorage
from moto.awslambda.responses import LambdaResponse
from truemem_workbench.attach.lambda_calls import LambdaCalls
from truemem_workbench.attach.records_file import RecordsFile, default_path
from truemem_workbench.judge.prices import GB_SECOND, REQUEST, computing
from truemem_workbench.local.lifecycle.events import Report, parse_report
from truemem_workbench.size import local_sweep
from truemem_workbench.size.remote_sweep import TEMPORARY, Budget

from tests.account.conftest import Account, denied
from tests.report.conftest import Command, Ran, put_events
from tests.report.written import line

NAME = "hasher"
SQS = {"Records": [{"messageId": "1", "eventSource": "aws:sqs", "body": "a"}]}
CPU_MS = 200.0
"""Of each invocation, with one vCPU."""


class Deployed:
    """A function of 512 MB that computes, with an alias on version 1, and what Lambda was asked about it."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.needs = 100
        self.lines = False
        """True if it has the sidecar."""
        self.invoked: list[tuple[str, int]] = []
        """Version and memory size of each invocation."""
        self.events: list[Any] = []
        self.sizes: list[int] = []
        """The memory sizes that it was given."""
        self.reports = True
        """False if its log tails have no REPORT."""
        self.before_invoke: Callable[[str, int], None] = lambda version, memory: None
        self.before_publish: Callable[[], None] = lambda: None
        self.most = 10_240
        """The account's limit of a memory size."""
        self.at_once = 0
        self._running: Counter[str] = Counter()
        self._lock = threading.Lock()
        account.function(NAME, MemorySize=512, Timeout=3, Description="mine")
        account.lambdas.publish_version(FunctionName=NAME)
        account.lambdas.create_alias(FunctionName=NAME, Name="prod", FunctionVersion="1")

    @property
    def memory(self) -> int:
        found: int = self.account.lambdas.get_function_configuration(FunctionName=NAME)["MemorySize"]
        return found

    @property
    def versions(self) -> list[str]:
        return [
            each["Version"] for each in self.account.lambdas.list_versions_by_function(FunctionName=NAME)["Versions"]
        ]

    @property
    def is_as_it_was(self) -> bool:
        alias = self.account.lambdas.get_alias(FunctionName=NAME, Name="prod")["FunctionVersion"]
        return (self.memory, self.versions, alias, sweeps().read()) == (512, ["$LATEST", "1"], "1", {})

    def answer(self, function: Any, body: str, headers: dict[str, str]) -> str:
        version, memory = str(function.version), function.memory_size
        with self._lock:
            self.invoked.append((version, memory))
            self.events.append(json.loads(body))
            self._running["now"] += 1
            self.at_once = max(self.at_once, self._running["now"])
            number = self._running[f"{version} {memory}"] = self._running[f"{version} {memory}"] + 1
        try:
            self.before_invoke(version, memory)
        finally:
            with self._lock:
                self._running["now"] -= 1
        is_killed = memory < self.needs
        request = f"{version}-{memory}-{number}"
        duration = 10.0 if is_killed else CPU_MS * 1769 / memory
        init = 300.0 if number == 1 else None
        report = Report(
            request, "error" if is_killed else "success", "Runtime.OutOfMemory" if is_killed else None, duration,
            round(duration + (init or 0)), memory, min(memory, self.needs), init,
        )  # fmt: skip
        log = [f"START RequestId: {request}", *([report.line()] if self.reports else [])]
        if self.lines and number > 1:  # the line of the invocation before
            log.insert(1, line(version, number - 1, requestId=f"{version}-{memory}-{number - 1}", PeakRSS=80.0))
        headers["x-amzn-requestid"] = request
        headers["x-amz-log-result"] = base64.b64encode("\n".join(log).encode()).decode()
        if is_killed:
            headers["x-amz-function-error"] = "Unhandled"
            return '{"errorType": "Runtime.ExitError", "errorMessage": "signal: killed"}'
        return "{}"


def sweeps() -> RecordsFile:
    return RecordsFile(default_path("sized.json.sweep"))


@pytest.fixture
def deployed(account: Account, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployed]:
    """Its Lambda publishes only what its caller has seen, has a limit of the memory size, and deletes no version that
    an alias has."""
    monkeypatch.setattr("truemem_workbench.support.exit_codes.raise_on_signals", lambda: None)  # they are pytest's
    made = Deployed(account)
    publish, delete = LambdaResponse.publish_version, LambdaStorage.del_function
    listed = LambdaStorage.list_versions_by_function

    def publish_version(self: Any) -> Any:
        made.before_publish()
        if self._get_param("RevisionId") != str(account.revisions[NAME]) or not self._get_param("CodeSha256"):
            raise PreconditionFailedException("The Revision Id provided does not match the latest Revision Id")
        return publish(self)

    def del_function(self: Any, name: str, qualifier: str | None = None) -> None:
        assert qualifier is not None  # or all of it would go
        if any(each.function_version == qualifier for each in self.list_aliases(NAME)):
            raise LambdaClientError("ResourceConflictException", "An alias has this version")
        delete(self, name, qualifier)

    configure = LambdaFunction.update_configuration

    def update_configuration(self: Any, updates: dict[str, Any]) -> Any:
        if updates.get("MemorySize", 0) > made.most:
            raise InvalidParameterValueException(f"'MemorySize' value failed to satisfy constraint: {made.most}")
        answer = configure(self, updates)
        made.sizes.append(updates["MemorySize"])
        return answer

    monkeypatch.setattr(
        LambdaStorage, "list_versions_by_function", lambda self, arn: listed(self, unquote(arn).split(":")[-1])
    )
    monkeypatch.setattr(LambdaResponse, "publish_version", publish_version)
    monkeypatch.setattr(LambdaStorage, "del_function", del_function)
    monkeypatch.setattr(LambdaFunction, "update_configuration", update_configuration)
    # An invocation's id is in its log too: it stays.
    monkeypatch.setattr("moto.core.responses.gen_amzn_requestid_long", lambda h: h.setdefault("x-amzn-requestid", "id"))
    monkeypatch.setattr(LambdaFunction, "invoke", lambda self, body, _, headers: made.answer(self, body, headers))
    yield made


def refusal(ran: Ran) -> str:
    """What it says if it cannot be done, after a plan or without."""
    assert (ran.code, ran.err.count("\n")) == (2, 1), ran
    return ran.err


def size(truemem: Command, *arguments: object) -> Ran:
    return truemem("size", NAME, *map(str, arguments))


def swept(truemem: Command, *arguments: object, sizes: str = "512,1024,1769") -> Ran:
    """Two invocations at each of these sizes, after one that warms up."""
    few = ["--memory", sizes, "--invocations", 2, "--warm-up", 1, "--event", "{}", "--yes"]
    return size(truemem, *few, *arguments)


# --- The sweep --------------------------------------------------------------------------------------------------------


def test_sizes_are_tried_in_versions_that_are_deleted(truemem: Command, deployed: Deployed) -> None:
    deployed.lines = True
    deployed.before_invoke = lambda *_: own.append(deployed.sizes[-1])
    own: list[int] = []
    ran = swept(truemem, "--json")
    assert ran.code == 0, ran
    assert [(each["memory"], each["durationMs"]["p50"], each["initMs"]) for each in ran.document["sizes"]] == [
        (512, 691.02, 300), (1024, 345.51, 300), (1769, 200, 300)
    ]  # fmt: skip
    assert [each["peak"] for each in ran.document["sizes"]] == [80, 80, 80]
    assert ran.document["suggested"] == 1769  # it costs the same, within 3 %, and is the fastest
    assert ran.document["next"] == f"truemem size {NAME} --apply 1769"
    assert {version for version, _ in deployed.invoked}.isdisjoint({"$LATEST"})
    assert [memory for _, memory in deployed.invoked] == [512, 1024, 1769] * 3  # they take turns
    assert deployed.sizes == [1024, 1769, 512]
    assert {*own} == {512}  # it had its own again before the first invocation
    assert deployed.is_as_it_was


def test_a_version_of_before_is_tried_and_stays(truemem: Command, deployed: Deployed) -> None:
    """Lambda publishes none where nothing has changed, and answers with the one that is there."""
    assert swept(truemem, sizes="512").code == 0
    assert {*deployed.invoked} == {("1", 512)}
    assert deployed.is_as_it_was


def test_without_the_sidecar_the_peak_is_the_mark(truemem: Command, deployed: Deployed) -> None:
    ran = swept(truemem, "--json", sizes="1024")
    assert ran.document["sizes"][0]["peak"] == 100
    assert "peaks are Lambda's Max Memory Used" in str(ran.document["notices"])


def test_without_report_it_says_where_to_look(truemem: Command, deployed: Deployed) -> None:
    deployed.reports = False
    ran = swept(truemem, "--json", sizes="1024")
    assert ran.code == 2
    assert f"no log tail had REPORT, so durations are not known. Try truemem doctor {NAME}" in str(ran)
    assert deployed.is_as_it_was


def test_sizes_begin_above_the_peak_of_the_function_as_it_is(truemem: Command, deployed: Deployed) -> None:
    deployed.needs = 300
    ran = size(truemem, "--invocations", 1, "--warm-up", 1, "--event", "{}", "--yes", "--json")
    assert [each["memory"] for each in ran.document["sizes"]] == [384, 512, 1024, 1769, 3008]
    assert [memory for _, memory in deployed.invoked[:2]] == [512, 512]
    assert deployed.is_as_it_was


def test_a_size_that_kills_is_out_at_once(truemem: Command, deployed: Deployed) -> None:
    deployed.needs = 600
    ran = swept(truemem, "--json", sizes="256,1024")
    assert ran.document["sizes"][0]["against"]["killed"] == "killed for memory in 1 of 1 invocations"
    assert ran.document["suggested"] == 1024


def test_events_are_those_of_its_log(truemem: Command, deployed: Deployed) -> None:
    at = int(time.time() * 1000)
    put_events(deployed.account.client("logs"), f"/aws/lambda/{NAME}", "a", [(at, json.dumps(SQS))])
    assert size(truemem, "--memory", 512, "--invocations", 1, "--warm-up", 1, "--yes").code == 0
    assert deployed.events == [SQS] * 2


EVENTS = "events.jsonl"


@pytest.mark.parametrize(
    ("has_lines", "given", "command"),
    [
        (False, ["--event", "{}"], f"truemem attach {NAME}"),
        (True, ["--event", "{}"], f"truemem check --function {NAME} --event '{{}}'"),
        (
            True,
            [],
            f"truemem events {NAME} --since 1h --output {EVENTS} && truemem check --function {NAME} --events {EVENTS}",
        ),
    ],
)
def test_what_may_grow_is_judged_before_a_size_is_applied(
    truemem: Command, deployed: Deployed, has_lines: bool, given: list[str], command: str
) -> None:
    at = int(time.time() * 1000)
    put_events(deployed.account.client("logs"), f"/aws/lambda/{NAME}", "a", [(at, json.dumps(SQS))])
    deployed.lines = has_lines

    def grow(version: str, memory: int) -> None:
        deployed.needs += 5

    deployed.before_invoke = grow
    ran = size(truemem, "--memory", 1024, "--invocations", 12, "--warm-up", 1, *given, "--yes", "--json")
    assert ran.document["suggested"] == 1024
    assert "so growth is not excluded" in ran.document["sentences"][0]
    assert ran.document["next"] == command


def test_fewer_invocations_after_five_minutes_are_said(
    truemem: Command, deployed: Deployed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_sweep, "PATIENCE_S", 0.0)
    ran = size(truemem, "--memory", 1024, "--event", "{}", "--yes", "--json")
    assert ran.document["sizes"][0]["invocations"] == 13
    assert "it ended with 10 of 50 timed invocations a size. --invocations N" in str(ran.document["notices"])


def test_a_size_above_the_accounts_limit_is_left_out(truemem: Command, deployed: Deployed) -> None:
    deployed.most = 3008
    ran = swept(truemem, "--json", sizes="512,4096,5120")
    assert [each["memory"] for each in ran.document["sizes"]] == [512]
    assert "Lambda does not permit 5,120 MB" in str(ran.document["notices"])
    assert deployed.is_as_it_was


def test_some_invocations_run_at_a_time(truemem: Command, deployed: Deployed) -> None:
    together = threading.Barrier(3)

    def meet(version: str, memory: int) -> None:
        if len(deployed.invoked) <= 3:
            together.wait(timeout=30)

    deployed.before_invoke = meet
    assert swept(truemem, "--concurrency", 3).code == 0
    assert deployed.at_once == 3
    assert len(deployed.invoked) == 9


def test_unpublished_the_function_itself_has_each_size(truemem: Command, deployed: Deployed) -> None:
    ran = swept(truemem, "--unpublished", sizes="512,1024")
    assert ran.code == 0, ran
    assert [memory for _, memory in deployed.invoked] == [512] * 3 + [1024] * 3
    assert deployed.sizes == [1024, 512]
    assert deployed.is_as_it_was


def test_the_plan_says_what_is_changed_and_what_it_costs(truemem: Command, deployed: Deployed) -> None:
    ran = swept(truemem, "--dry-run")
    assert ran.code == 0
    assert "for all who invoke it without a version or alias" in ran.out
    assert "Aliases and provisioned concurrency stay" in ran.out
    # 3 of each: 13 s (timeout and init) at 3.2275 GB in all, at 0.0000166667 a GB-second; and 9 requests
    assert "cost: at most $0.0021, if each takes its whole timeout; it ends before $1 (--max-cost)" in ran.out
    assert (deployed.invoked, deployed.account.updates) == ([], [])
    assert "--yes" in size(truemem, "--memory", "512", "--event", "{}", "--json").refusal


# --- What it costs ----------------------------------------------------------------------------------------------------


def test_the_budget_is_that_of_hand_made_figures(deployed: Deployed) -> None:
    budget = Budget(0.001, LambdaCalls().read(NAME), concurrency=2)
    assert budget.longest(1024) == pytest.approx(13 * 0.0000166667 + 0.0000002)  # 3 s of timeout, 10 of init
    budget.charge(1024, 1000)
    assert budget.spent == pytest.approx(0.0000166667 + 0.0000002)
    assert budget.permits(1024)  # 0.000017 and twice 0.000217
    for _ in range(3):
        budget.charge(1024, None)
    assert not budget.permits(1024)
    assert budget.permits(512)


def test_it_ends_before_it_costs_more(truemem: Command, deployed: Deployed) -> None:
    most = 0.001
    ran = swept(truemem, "--json", "--max-cost", most, "--invocations", 100, sizes="1024,1769")
    assert "it ended early: more could cost above $0.001" in str(ran.document["notices"])
    assert 4 < len(deployed.invoked) < 200
    spent = sum(
        computing(memory, CPU_MS * 1769 / memory, GB_SECOND["x86_64"]) + REQUEST for _, memory in deployed.invoked
    )
    assert 0.0005 < spent < most
    assert deployed.is_as_it_was
    said = refusal(swept(truemem, "--max-cost", 0.0001))
    assert "with 1,769 MB, a timeout of 3 s and 1 at a time, $0.00037 may be spent" in said
    assert said.endswith("Try --max-cost 0.00075\n")


# --- However it ends, it is as it was ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "where"),
    [
        (signal.SIGINT, "first update"),
        (signal.SIGTERM, "second update"),
        (signal.SIGINT, "publish"),
        (signal.SIGTERM, "invoke"),
        (signal.SIGQUIT, "invoke"),
    ],
)
def test_a_signal_puts_it_back(deployed: Deployed, number: int, where: str) -> None:
    running: list[subprocess.Popen[str]] = []

    def end() -> None:
        deployed.account.before_update = lambda _: None
        deployed.before_publish = lambda: None
        running[0].send_signal(number)
        time.sleep(0.5)  # what was asked for comes after the command has gone on

    if where == "invoke":
        deployed.before_invoke = lambda version, memory: end() if memory == 1024 else None
    elif where != "publish":
        taken = ("first update", "second update").index(where)
        deployed.account.before_update = lambda _: end() if len(deployed.sizes) == taken else None
    else:
        deployed.before_publish = lambda: end() if len(deployed.sizes) == 2 else None
    running.append(_started("--memory", "768,1024,1769", "--event", "{}", "--yes"))
    _, errors = running[0].communicate(timeout=60)
    assert running[0].returncode == 128 + number, errors
    assert deployed.is_as_it_was
    assert len(deployed.invoked) == (2 if where == "invoke" else 0)


def _started(*arguments: str) -> subprocess.Popen[str]:
    command = [str(Path(sys.executable).with_name("truemem")), "size", "--function", NAME, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("more", [["--unpublished"], []], ids=["unpublished", "versions"])
def test_undo_puts_back_after_a_sigkill(truemem: Command, deployed: Deployed, more: list[str]) -> None:
    running: list[subprocess.Popen[str]] = []

    def end(function: Any) -> None:
        if len(deployed.sizes) == 2:
            running[0].kill()
            running[0].wait()

    deployed.account.before_update = end
    running.append(_started("--memory", "768,1024,1769", "--event", "{}", "--yes", "--invocations", "1", *more))
    running[0].communicate(timeout=60)
    deployed.account.before_update = lambda _: None
    assert deployed.memory == 1769
    assert len(deployed.versions) == (2 if more else 4)
    assert "another sweep of hasher runs, or was killed" in refusal(swept(truemem))
    assert size(truemem, "--undo", "--yes").code == 0
    assert deployed.is_as_it_was
    assert "nothing to undo" in size(truemem, "--undo", "--yes").refusal


def test_undo_without_the_record_says_the_size_is_unknown(truemem: Command, deployed: Deployed) -> None:
    """Of a sweep that was killed on another machine."""
    deployed.account.lambdas.update_function_configuration(FunctionName=NAME, MemorySize=1769)
    LambdaCalls().publish_version(LambdaCalls().read(NAME), TEMPORARY)
    ran = size(truemem, "--undo", "--yes")
    assert (ran.code, deployed.memory, deployed.versions) == (1, 1769, ["$LATEST", "1"])
    assert f"{NAME} has 1,769 MB now. Which size it had before the sweep is not known here" in ran.err
    assert f"truemem size {NAME} --undo --state FILE" in ran.err
    assert f"truemem size {NAME} --apply MB" in ran.err
    assert "as it was" not in ran.err


@pytest.mark.parametrize("more", [["--unpublished"], []], ids=["unpublished", "versions"])
def test_an_error_on_the_third_size_puts_it_back(truemem: Command, deployed: Deployed, more: list[str]) -> None:
    def fail(function: Any) -> None:
        if len(deployed.sizes) == 2:
            deployed.account.before_update = lambda _: None
            raise denied("lambda:UpdateFunctionConfiguration")

    deployed.account.before_update = fail
    ran = swept(truemem, "--json", *more, sizes="768,1024,1769")
    assert ran.code == 2
    if more:  # two sizes are known
        assert [each["memory"] for each in ran.document["sizes"]] == [768, 1024]
        assert "it ended early: function hasher: access denied" in str(ran.document["notices"])
    else:
        assert "The caller needs lambda:UpdateFunctionConfiguration" in ran.refusal
    assert deployed.is_as_it_was


def test_where_no_version_can_be_made_there_is_another_way(truemem: Command, deployed: Deployed) -> None:
    def refuse() -> None:
        raise denied("lambda:PublishVersion")

    deployed.before_publish = refuse
    said = refusal(swept(truemem, sizes="1024"))
    assert "The caller needs lambda:PublishVersion. Where no version can be made: --unpublished" in said
    assert deployed.is_as_it_was


def test_one_that_is_throttled_ends_with_what_is_known(
    truemem: Command, deployed: Deployed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0.0)

    def throttle(version: str, memory: int) -> None:
        if len(deployed.invoked) > 8:
            raise LambdaClientError("TooManyRequestsException", "Rate Exceeded.")

    deployed.before_invoke = throttle
    ran = swept(truemem, "--invocations", 9, "--json")
    assert ran.code == 2
    assert "throttled 10 times (TooManyRequestsException)" in str(ran.document["notices"])
    assert [len(each["durationMs"]) for each in ran.document["sizes"]] == [3, 3, 3]
    assert deployed.is_as_it_was


def test_a_deployment_in_the_middle_is_not_undone(truemem: Command, deployed: Deployed) -> None:
    def deploy(function: Any) -> None:
        if len(deployed.sizes) == 1:
            deployed.account.revisions[NAME] += 1
            function.memory_size = 2048
            deployed.account.before_update = lambda _: None

    deployed.account.before_update = deploy
    assert "it was changed by another" in refusal(swept(truemem, sizes="768,1024"))
    assert (deployed.memory, deployed.versions, sweeps().read()) == (2048, ["$LATEST", "1"], {})


@pytest.mark.parametrize("more", [["--unpublished"], []], ids=["unpublished", "versions"])
def test_a_size_that_another_sets_meanwhile_stays(truemem: Command, deployed: Deployed, more: list[str]) -> None:
    def deploy(*_: object) -> None:
        if len(deployed.invoked) == 2:
            deployed.account.lambdas.update_function_configuration(FunctionName=NAME, MemorySize=2048)

    deployed.before_invoke = deploy
    ran = swept(truemem, *more, sizes="1024,2048")
    assert (ran.code, "was changed by another" in ran.out) == (2 if more else 0, bool(more))
    assert (deployed.memory, deployed.versions, sweeps().read()) == (2048, ["$LATEST", "1"], {})


def test_a_deployment_while_it_is_put_back_does_not_hinder(truemem: Command, deployed: Deployed) -> None:
    def deploy(function: Any) -> None:
        if len(deployed.sizes) == 1:
            deployed.account.revisions[NAME] += 1
            deployed.account.before_update = lambda _: None

    deployed.account.before_update = deploy
    assert swept(truemem, sizes="1024").code == 0
    assert deployed.is_as_it_was


def test_what_cannot_be_put_back_is_named_with_the_command(truemem: Command, deployed: Deployed) -> None:
    def move(version: str, memory: int) -> None:
        deployed.account.lambdas.update_alias(FunctionName=NAME, Name="prod", FunctionVersion=version)

    deployed.before_invoke = move
    said = refusal(swept(truemem, sizes="1024"))
    assert "hasher is not as it was: version 2 of hasher: ResourceConflictException" in said
    assert "To put it back, type truemem size hasher --undo" in said
    deployed.account.lambdas.update_alias(FunctionName=NAME, Name="prod", FunctionVersion="1")
    assert size(truemem, "--undo", "--yes").code == 0
    assert deployed.is_as_it_was


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ({"LastUpdateStatus": "InProgress"}, "another update is in progress"),
        ({"State": "Pending"}, "it is being created"),
        ({"LastUpdateStatus": "Failed"}, "its last update failed"),
        ({"CapacityProviderConfig": {}}, "on Managed Instances"),
    ],
)
def test_a_function_that_takes_no_change_is_refused(
    truemem: Command, deployed: Deployed, says: dict[str, Any], why: str
) -> None:
    deployed.account.said[NAME] = says
    assert why in refusal(swept(truemem))
    assert why in size(truemem, "--apply", 1024, "--yes").refusal
    assert deployed.account.updates == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([f"{NAME}:prod"], "Try hasher"),
        (["missing"], "there is no function missing"),
        ([NAME, "--env", "A=1"], "leave out --timeout, --env, --python and --managed-instances"),
        ([NAME, "app.py:handler"], "give one function"),
    ],
)
def test_bad_input_is_one_line(truemem: Command, deployed: Deployed, arguments: list[str], said: str) -> None:
    assert said in truemem("size", "--function", *arguments, "--event", "{}", "--yes").refusal


def test_options_of_aws_are_not_for_a_local_function(truemem: Command) -> None:
    assert "--apply is for --function NAME alone" in truemem("size", "app.py:f", "--apply", "512", "--yes").refusal


# --- --apply and --undo -----------------------------------------------------------------------------------------------


def test_applied_twice_is_undone_at_once(truemem: Command, deployed: Deployed) -> None:
    applied = size(truemem, "--apply", 1024, "--yes")
    assert applied.code == 0
    assert "~ memory size 1,024 MB (was 512)" in applied.out
    assert "alias prod: a published version does not change" in applied.out
    assert size(truemem, "--apply", 2048, "--yes").code == 0
    assert swept(truemem).code == 0
    assert deployed.memory == 2048  # the sweep has not undone it
    assert size(truemem, "--undo", "--yes").code == 0
    assert deployed.is_as_it_was
    assert RecordsFile(default_path("sized.json")).read() == {}
    assert deployed.account.held(NAME) == ([], {})


def test_a_size_of_others_since_then_stays(truemem: Command, deployed: Deployed) -> None:
    assert size(truemem, "--apply", 1024, "--yes").code == 0
    deployed.account.lambdas.update_function_configuration(FunctionName=NAME, MemorySize=3008)
    ran = size(truemem, "--undo", "--yes")
    assert "it stays at 3,008 MB" in ran.out
    assert (ran.code, deployed.memory) == (0, 3008)


# --- REPORT -----------------------------------------------------------------------------------------------------------

TEXT = (
    "REPORT RequestId: 8f5d\tDuration: 3000.00 ms\tBilled Duration: 3301 ms\tMemory Size: 128 MB\t"
    "Max Memory Used: 36 MB\tInit Duration: 300.51 ms\tStatus: timeout\t"
)
JSON = {
    "time": "2026-01-01T00:00:00Z",
    "type": "platform.report",
    "record": {
        "requestId": "8f5d",
        "status": "timeout",
        "metrics": {
            "durationMs": 3000, "billedDurationMs": 3301, "memorySizeMB": 128, "maxMemoryUsedMB": 36,
            "initDurationMs": 300.51,
        },
    },
}  # fmt: skip


@pytest.mark.parametrize("text", [TEXT, json.dumps(JSON)])
def test_a_report_is_read_in_both_formats(text: str) -> None:
    assert parse_report(text) == Report("8f5d", "timeout", None, 3000, 3301, 128, 36, 300.51)


@pytest.mark.parametrize(
    "text",
    ["", "START RequestId: 8f5d", "REPORT RequestId: 8f5d\tDuration: ms", "[]", "{}", '{"record": 1}', "REPORT "],
)
def test_a_line_that_is_no_report_is_none(text: str) -> None:
    assert parse_report(text) is None
