"""`truemem attach` and `truemem detach` on an account: what is changed, what is refused, what is restored."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from moto.awslambda.exceptions import InvalidParameterValueException, LambdaClientError
from moto.awslambda.models import LambdaFunction
from truemem_workbench.attach.change import (
    CHAINED_WRAPPER,
    CLOUDWATCH,
    COLLECTOR_CONFIG,
    EXACT_WRAPPER,
    HEAP_FOLDER,
    NODE_OPTIONS,
    PRELOAD,
    PYTHON_PATH,
    WRAPPER,
)
from truemem_workbench.attach.records_file import RecordsFile
from truemem_workbench.aws.layer_zips import layer_zip
from truemem_workbench.aws.rollout import layer_description

from tests.account.conftest import Account, denied
from tests.report.conftest import Command, Ran
from tests.template.stack import EMPTY_ZIP

ARN = "arn:aws:lambda:us-east-1:123456789012:layer:truemem-"


def statuses(ran: Ran) -> dict[str, str]:
    """By function, from --json."""
    return {each["function"]: each["status"] for each in map(json.loads, ran.out.splitlines())}


def reason(ran: Ran) -> str:
    """Of the one function that was not changed."""
    (told,) = [each["reason"] for each in map(json.loads, ran.out.splitlines()) if "reason" in each]
    return str(told)


# --- Attach -----------------------------------------------------------------------------------------------------------


def test_layer_is_published_once_and_added_last(truemem: Command, account: Account) -> None:
    vendor = account.layer("vendor")
    for name in ("one", "two"):
        account.function(name, Layers=[vendor], variables={"A": "1"})
    ran = truemem("attach", "one", "two", "--yes")
    assert ran.code == 0, ran
    assert account.held("one") == account.held("two") == ([vendor, f"{ARN}x86_64:1"], {"A": "1"})
    assert account.our_layers() == ["truemem-x86_64:1"]
    assert statuses(truemem("attach", "one", "--yes", "--json")) == {"one": "as it was"}
    assert account.updates == ["one", "two"]


def test_the_plan_comes_first_and_a_dry_run_ends_with_it(
    truemem: Command, account: Account, records: RecordsFile
) -> None:
    account.function("one", variables={WRAPPER: "/opt/vendor"})
    ran = truemem("attach", "one", "--exact", "--set", "aggregate=60", "--dry-run")
    assert ran.code == 0
    assert ran.out.splitlines() == [
        "publish truemem-x86_64 in us-east-1",
        "one",
        f"  + layer {ARN}x86_64:NEW",
        f"  ~ {WRAPPER}={EXACT_WRAPPER} (was /opt/vendor)",
        "  + TRUEMEM_AGGREGATE=60",
        f"  + {CHAINED_WRAPPER}=/opt/vendor",
    ]
    assert (account.our_layers(), account.updates, records.read()) == ([], [], {})


def test_it_does_nothing_without_a_yes(truemem: Command, account: Account) -> None:
    account.function("one")
    ran = truemem("attach", "one")
    assert (ran.code, account.updates, account.our_layers()) == (2, [], [])
    assert "--yes" in ran.err


@pytest.mark.parametrize("older", ["truemem-x86_64", "truemem-arm64"])
def test_older_or_foreign_version_is_replaced_in_place(truemem: Command, account: Account, older: str) -> None:
    layers = [account.layer("first"), account.layer(older), account.layer("last")]
    account.function("one", Layers=layers)
    assert truemem("attach", "one", "--yes").code == 0
    newest = max(int(each.split(":")[1]) for each in account.our_layers() if "x86_64" in each)
    assert account.held("one").layers == [layers[0], f"{ARN}x86_64:{newest}", layers[2]]


def test_a_layer_of_another_account_can_be_named(truemem: Command, account: Account) -> None:
    account.function("one")
    there = account.layer("truemem-x86_64")
    assert truemem("attach", "one", "--layer", there, "--yes").code == 0
    assert account.held("one").layers == [there]
    account.function("two", Architectures=["arm64"])
    assert "one more --layer" in truemem("attach", "two", "--layer", there, "--yes").refusal


@pytest.mark.parametrize(
    ("option", "runtime", "before", "after"),
    [
        ("--exact", "python3.13", {}, {WRAPPER: EXACT_WRAPPER}),
        ("--exact", "nodejs22.x", {WRAPPER: "/opt/vendor"}, {WRAPPER: EXACT_WRAPPER, CHAINED_WRAPPER: "/opt/vendor"}),
        (
            "--exact",
            "java21",
            {WRAPPER: EXACT_WRAPPER, CHAINED_WRAPPER: "/opt/vendor"},
            {WRAPPER: EXACT_WRAPPER, CHAINED_WRAPPER: "/opt/vendor"},
        ),
        ("--heap", "nodejs22.x", {}, {NODE_OPTIONS: PRELOAD}),
        ("--heap", "nodejs22.x", {NODE_OPTIONS: "--no-warnings"}, {NODE_OPTIONS: f"--no-warnings {PRELOAD}"}),
        ("--heap", "nodejs22.x", {NODE_OPTIONS: f"{PRELOAD} -i"}, {NODE_OPTIONS: f"{PRELOAD} -i"}),
    ],
)
def test_what_is_set_already_is_chained_or_kept(
    truemem: Command, account: Account, option: str, runtime: str, before: dict[str, str], after: dict[str, str]
) -> None:
    account.function("one", Runtime=runtime, variables=before)
    assert truemem("attach", "one", option, "--yes").code == 0
    assert account.held("one").variables == after


@pytest.mark.parametrize(
    ("runtime", "starts"),
    [
        *[(name, True) for name in ("python3.15", "nodejs26.x", "java25", "java8.al2023", "ruby4.0", "dotnet10")],
        ("python3.99", True),  # newer than the table
        *[(name, False) for name in ("provided.al2023", "provided", "go1.x", "custom", "provided.al2099")],
    ],
)
def test_no_wrapper_where_nothing_starts_it(truemem: Command, account: Account, runtime: str, starts: bool) -> None:
    variables = {} if starts else {WRAPPER: EXACT_WRAPPER}  # of an earlier truemem
    account.function("one", Runtime=runtime, variables=variables)
    ran = truemem("attach", "one", "--exact", "--yes")
    assert ran.code == 0
    assert account.held("one") == ([f"{ARN}x86_64:1"], {WRAPPER: EXACT_WRAPPER} if starts else {})
    assert ("attached in the default mode" in ran.out) is not starts


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"TRUEMEM_OUTPUT": "emf,otlp", COLLECTOR_CONFIG: CLOUDWATCH}),
        ({"TRUEMEM_OUTPUT": "json"}, {"TRUEMEM_OUTPUT": "json,otlp", COLLECTOR_CONFIG: CLOUDWATCH}),
        (
            {"TRUEMEM_OUTPUT": "otlp", COLLECTOR_CONFIG: "/opt/x"},
            {"TRUEMEM_OUTPUT": "otlp", COLLECTOR_CONFIG: "/opt/x"},
        ),
    ],
)
def test_a_collector_comes_and_goes_with_the_layer(
    truemem: Command, account: Account, before: dict[str, str], after: dict[str, str]
) -> None:
    older, collector = account.layer("collector"), account.layer("collector")
    account.function("one", variables=before)
    account.function("two", Layers=[older], variables=before)
    ran = truemem("attach", "one", "two", "--collector", collector, "--yes")
    assert ran.code == 0, ran
    assert "its role needs cloudwatch:PutMetricData" in ran.out
    assert ("its collector has a configuration of its own" in ran.out) == (before.get(COLLECTOR_CONFIG) is not None)
    assert account.held("one") == ([f"{ARN}x86_64:1", collector], after)
    assert account.held("two") == ([collector, f"{ARN}x86_64:1"], after)
    assert truemem("detach", "one", "two", "--yes").code == 0
    assert (account.held("one"), account.held("two")) == (([], before), ([older], before))


def test_a_collector_that_cannot_be_added_is_refused(truemem: Command, account: Account) -> None:
    account.function("one")
    elsewhere = account.layer("collector").replace("us-east-1", "eu-west-1")
    assert "in another region" in reason(truemem("attach", "one", "--collector", elsewhere, "--yes", "--json"))
    assert "not the ARN of a layer version" in truemem("attach", "one", "--collector", "collector", "--yes").refusal


def test_no_exact_brings_the_earlier_wrapper_back(truemem: Command, account: Account) -> None:
    account.function("one", variables={WRAPPER: "/opt/vendor"})
    assert truemem("attach", "one", "--exact", "--yes").code == 0
    assert truemem("attach", "one", "--yes").code == 0
    assert account.held("one").variables[WRAPPER] == EXACT_WRAPPER
    assert truemem("attach", "one", "--no-exact", "--yes").code == 0
    assert account.held("one") == ([f"{ARN}x86_64:1"], {WRAPPER: "/opt/vendor"})


@pytest.mark.parametrize(
    ("options", "value"),
    [([], "10%"), (["--lines-share", "2.50"], "2.5%"), (["--lines-share", "100 %"], "on"), (["--heap"], "10%")],
)
@pytest.mark.parametrize("runtime", ["python3.13", "nodejs22.x"])
def test_lines_load_the_heap_probe_and_detach_takes_both(
    truemem: Command, account: Account, runtime: str, options: list[str], value: str
) -> None:
    account.function("one", Runtime=runtime, variables={"A": "1"})
    probe = {"python3.13": (PYTHON_PATH, f"{HEAP_FOLDER}:/var/runtime"), "nodejs22.x": (NODE_OPTIONS, PRELOAD)}[runtime]
    shown = truemem("attach", "one", "--lines", *options, "--dry-run").out
    assert f"  + TRUEMEM_LINES={value}" in shown
    assert f"  + {probe[0]}={probe[1]}" in shown
    assert truemem("attach", "one", "--lines", *options, "--yes").code == 0
    assert account.held("one").variables == {"A": "1", "TRUEMEM_LINES": value, **dict([probe])}
    assert truemem("detach", "one", "--yes").code == 0
    assert account.held("one") == ([], {"A": "1"})


@pytest.mark.parametrize(
    ("runtime", "option", "told", "variables"),
    [
        ("provided.al2023", "--lines", "without the heap probe; its own tools name what grows: truemem docs", {}),
        ("provided.al2023", "--heap", "attached without the heap probe", {}),
        ("dotnet8", "--heap", "dotnet8 is not Python, nor Node.js 18 or newer", {}),
        ("nodejs16.x", "--lines", "nodejs16.x is not Python, nor Node.js 18 or newer", {}),
        ("java17.al2023", "--lines", "With --lines-java its classes are named", {}),
        ("custom", "--lines", "yours to set", {"TRUEMEM_LINES": "10%"}),
    ],
)
def test_where_there_is_no_probe_the_rest_is_attached(
    truemem: Command, account: Account, runtime: str, option: str, told: str, variables: dict[str, str]
) -> None:
    account.function("one", Runtime=runtime, variables={"A": "1"})
    account.function("two", variables={"A": "1"})
    assert told in truemem("attach", "one", "two", option, "--dry-run").out
    ran = truemem("attach", "one", "two", option, "--yes", "--json")
    assert (ran.code, statuses(ran)) == (0, {"one": "done", "two": "done"})
    assert told in " ".join(json.loads(ran.out.splitlines()[0])["notes"])
    assert account.held("one") == ([f"{ARN}x86_64:1"], {"A": "1", **variables})
    assert truemem("detach", "one", "two", "--yes").code == 0
    assert account.held("one") == account.held("two") == ([], {"A": "1"})


@pytest.mark.parametrize("option", ["--heap", "--lines"])
def test_under_nodes_permissions_the_probe_is_left_out(truemem: Command, account: Account, option: str) -> None:
    """Node.js 20 would not start with it. The grants are the user's to give."""
    account.function("one", Runtime="nodejs20.x", variables={NODE_OPTIONS: "--experimental-permission"})
    assert (
        "add --allow-fs-read=/opt/truemem/ --allow-fs-write=/tmp/" in truemem("attach", "one", option, "--dry-run").out
    )
    assert truemem("attach", "one", option, "--yes").code == 0
    assert account.held("one") == ([f"{ARN}x86_64:1"], {NODE_OPTIONS: "--experimental-permission"})
    account.function("three", Runtime="nodejs20.x", variables={NODE_OPTIONS: f"--experimental-permission {PRELOAD}"})
    assert truemem("attach", "three", option, "--yes").code == 0
    assert account.held("three").variables == {NODE_OPTIONS: "--experimental-permission"}
    granted = "--permission --allow-fs-read=/opt/truemem/ --allow-fs-write=/tmp/"
    account.function("two", Runtime="nodejs24.x", variables={NODE_OPTIONS: granted})
    ran = truemem("attach", "two", option, "--yes")
    assert ("no lines are profiled" in ran.out) is (option == "--lines")
    assert account.held("two").variables[NODE_OPTIONS] == f"{granted} {PRELOAD}"


def test_each_function_is_named_with_its_mode(truemem: Command, account: Account) -> None:
    account.function("go", Runtime="provided.al2023", variables={WRAPPER: EXACT_WRAPPER})
    account.function("python")
    account.function("image")
    account.said["image"] = {"PackageType": "Image"}
    ran = truemem("attach", "--match", "*", "--exact", "--yes")
    rows = [line.split()[:3] for line in ran.out.splitlines()]
    assert ["go", "done", "default"] in rows
    assert ["python", "done", "exact"] in rows
    assert ["image", "left", "a"] in rows
    shown = {
        each["function"]: each for each in map(json.loads, truemem("attach", "--match", "*", "--json").out.splitlines())
    }
    assert [shown[name].get("mode") for name in ("go", "python", "image")] == ["default", "exact", None]
    assert "mode" not in truemem("detach", "go", "--yes", "--json").out


def test_a_jvm_is_asked_for_its_classes_where_that_is_wanted(truemem: Command, account: Account) -> None:
    account.function("one", Runtime="java21", variables={"A": "1"})
    assert "--lines-java is for --lines" in truemem("attach", "one", "--lines-java").refusal
    assert truemem("attach", "one", "--lines", "--lines-java", "--yes").code == 0
    assert account.held("one").variables == {"A": "1", "TRUEMEM_LINES": "10%,java"}
    assert truemem("detach", "one", "--yes").code == 0
    assert account.held("one") == ([], {"A": "1"})


@pytest.mark.parametrize("share", ["0", "101", "-1", "nan", "half", ""])
def test_lines_share_that_is_none_is_refused(truemem: Command, share: str) -> None:
    assert "Try --lines-share 25%" in truemem("attach", "one", "--lines", "--lines-share", share).refusal
    assert "--lines-share is for --lines" in truemem("attach", "one", "--lines-share", "10%").refusal


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("agregate=60", "aggregate"),
        ("aggregate", "NAME=VALUE"),
        ("aggregate=", "no value"),
        ("aggregate=999", "seconds from 1 to 300"),
        ("dimensions=PeakRSS=1", "member of every line"),
    ],
)
def test_a_setting_that_the_sidecar_would_not_take_is_refused(
    truemem: Command, account: Account, setting: str, said: str
) -> None:
    account.function("one")
    assert said in truemem("attach", "one", "--set", setting, "--yes").refusal
    assert account.updates == []


UNREADABLE = {"Environment": {"Error": {"ErrorCode": "AccessDeniedException", "Message": "kms"}}}


# --- What is left as it is --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("says", "options", "why"),
    [
        ({"PackageType": "Image"}, [], "truemem layer-files"),
        ({"LastUpdateStatus": "InProgress"}, [], "another update is in progress"),
        ({"State": "Pending"}, [], "being created"),
        ({"State": "Failed", "StateReason": "no subnet"}, [], "no subnet"),
        ({"Architectures": ["riscv"]}, [], "no layer for riscv"),
        ({"CodeSize": 300 << 20}, [], "250 MB"),
        (
            {"Layers": [{"Arn": f"arn:aws:lambda:us-east-1:1:layer:a:{n}", "CodeSize": 1} for n in range(5)]},
            [],
            "5 layers",
        ),
        (UNREADABLE, ["--exact"], "kms:Decrypt"),
    ],
)
def test_a_function_that_cannot_take_it_is_named_with_the_reason(
    truemem: Command, account: Account, says: dict[str, Any], options: list[str], why: str
) -> None:
    account.function("it")
    account.function("other")
    account.said["it"] = says
    ran = truemem("attach", "it", "other", "--set", "journal=off", *options, "--yes", "--json")
    assert (ran.code, statuses(ran)["it"]) == (1, "left")
    assert why in json.loads(ran.out.splitlines()[0])["reason"]
    assert "it" not in account.updates


def test_what_a_user_should_know_is_in_the_plan(truemem: Command, account: Account) -> None:
    account.function("one", variables={"TRUEMEM_ENABLED": "false"})
    version = account.lambdas.publish_version(FunctionName="one")["Version"]
    account.lambdas.create_alias(FunctionName="one", Name="prod", FunctionVersion=version)
    account.said["one"] = {
        "LoggingConfig": {"LogFormat": "JSON", "ApplicationLogLevel": "WARN"},
        "CapacityProviderConfig": {},
    }
    told = truemem("attach", "one", "--dry-run").out
    for note in ("alias prod", "its log level is WARN", "TRUEMEM_ENABLED=false", "Managed Instances"):
        assert f"! {note}" in told


# --- What goes wrong on the way ---------------------------------------------------------------------------------------


def test_concurrent_change_is_refused_without_a_record(
    truemem: Command, account: Account, records: RecordsFile
) -> None:
    account.function("one")
    account.function("two")

    def another(function: Any) -> None:
        if function.function_name == "one":
            account.revisions["one"] += 1

    account.before_update = another
    ran = truemem("attach", "one", "two", "--yes", "--json")
    assert statuses(ran) == {"one": "failed", "two": "done"}
    assert "changed by another" in reason(ran)
    assert account.held("one").layers == []
    assert [arn.split(":")[-1] for arn in records.read()] == ["two"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (denied("lambda:UpdateFunctionConfiguration"), "The caller needs lambda:UpdateFunctionConfiguration"),
        (LambdaClientError("ResourceConflictException", "An update is in progress"), "another update is in progress"),
        (InvalidParameterValueException("Unzipped size must be smaller than 262144000"), "Unzipped size"),
    ],
)
def test_a_refusal_of_one_function_does_not_stop_the_others(
    truemem: Command, account: Account, records: RecordsFile, answer: Exception, said: str
) -> None:
    for name in ("one", "two", "three"):
        account.function(name)

    def refuse(function: Any) -> None:
        if function.function_name == "two":
            raise answer

    account.before_update = refuse
    ran = truemem("attach", "one", "two", "three", "--yes", "--json")
    assert (ran.code, statuses(ran)) == (1, {"one": "done", "two": "failed", "three": "done"})
    assert said in reason(ran)
    assert len(records.read()) == 2


def test_update_that_fails_in_lambda_stays_recorded(truemem: Command, account: Account, records: RecordsFile) -> None:
    account.function("one")

    def fail(function: Any) -> None:
        account.said["one"] = {"LastUpdateStatus": "Failed", "LastUpdateStatusReason": "no such subnet"}

    account.before_update = fail
    ran = truemem("attach", "one", "--yes", "--json")
    assert (statuses(ran), len(records.read())) == ({"one": "failed"}, 1)
    assert "no such subnet" in reason(ran)


def test_a_record_that_cannot_be_kept_stops_it_before_any_change(
    truemem: Command, account: Account, tmp_path: Path
) -> None:
    account.function("one")
    (tmp_path / "file").touch()
    ran = truemem("attach", "one", "--yes", "--json", "--state", tmp_path / "file" / "state.json")
    assert (ran.code, account.updates) == (2, [])
    assert "--state" in ran.err


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"format": 2, "functions": {}}', '{"format": 1, "functions": {"a": 1}}']
)
def test_a_file_that_is_no_record_is_refused_and_not_written(
    truemem: Command, account: Account, tmp_path: Path, text: str
) -> None:
    (tmp_path / "state.json").write_text(text)
    for command in ("attach", "detach"):
        assert "state.json" in truemem(command, "one", "--yes", "--state", tmp_path / "state.json").refusal
    assert (tmp_path / "state.json").read_text() == text


def test_control_c_leaves_no_function_half_attached(truemem: Command, account: Account, records: RecordsFile) -> None:
    names = [account.function(f"f{number:02}", variables={WRAPPER: "/opt/vendor"}) for number in range(12)]
    before = {name: account.held(name) for name in names}
    running: list[subprocess.Popen[str]] = []

    def end(function: Any) -> None:
        if len(account.updates) == 4:
            running[0].send_signal(signal.SIGINT)

    account.before_update = end
    command = [str(Path(sys.executable).with_name("truemem")), "attach", "--match", "f*", "--exact", "--yes", "--json"]
    running.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    told, errors = running[0].communicate(timeout=60)
    assert running[0].returncode == 128 + signal.SIGINT, errors
    after = [name for name in names if account.held(name) != before[name]]
    assert 4 <= len(after) < len(names)
    said = {each["function"]: each["status"] for each in map(json.loads, told.splitlines())}
    assert {name for name in names if said[name] in ("done", "not known")} >= {*after}
    assert {name for name in names if said[name] == "not begun"}.isdisjoint(after)
    assert {arn.split(":")[-1] for arn in records.read()} >= {*after}
    assert truemem("detach", "--all", "--yes").code == 0
    assert {name: account.held(name) for name in names} == before
    assert records.read() == {}


def test_many_functions_are_one_change_in_the_plan(truemem: Command, account: Account) -> None:
    names = [account.function(f"f{number:03}") for number in range(30)]
    ran = truemem("attach", "--match", "f*", "--yes")
    assert (ran.code, sorted(account.updates)) == (0, names)
    plan = ran.out.partition("function  ")[0]
    assert "30 functions: f000, f001" in plan
    assert plan.count("+ layer") == 1
    assert "30 of 30 functions: as asked" in ran.out


# --- Which functions --------------------------------------------------------------------------------------------------


def test_functions_are_chosen_by_pattern_and_tag(truemem: Command, account: Account) -> None:
    account.function("api-a", Tags={"team": "ml"})
    account.function("api-b", Tags={"team": "web"})
    account.function("job", Tags={"team": "ml"})
    for options, chosen in (
        (["--match", "api-*"], {"api-a", "api-b"}),
        (["--tag", "team=ml"], {"api-a", "job"}),
        (["--match", "api-*", "--tag", "team=ml"], {"api-a"}),
    ):
        assert {*statuses(truemem("attach", *options, "--dry-run", "--json"))} == chosen


def test_functions_are_chosen_by_stack(truemem: Command, account: Account) -> None:
    account.function("outside")
    role = {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": {}}}
    settings = {
        "Handler": "a.b",
        "Runtime": "python3.13",
        "Code": {"ZipFile": "1"},
        "Role": {"Fn::GetAtt": ["R", "Arn"]},
    }
    function = {"Type": "AWS::Lambda::Function", "Properties": {"FunctionName": "inside", **settings}}
    template = json.dumps({"Resources": {"R": role, "F": function}})
    account.client("cloudformation").create_stack(StackName="mine", TemplateBody=template)
    assert {*statuses(truemem("attach", "--stack", "mine", "--dry-run", "--json"))} == {"inside"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no function is named"),
        (["one", "--match", "*"], "Leave one out"),
        (["--match", "nothing-*"], "--match nothing-*"),
        (["--tag", "team"], "KEY=VALUE"),
        (["--stack", "none"], "stack none"),
        (["a b"], "no name of a function"),
        (["one:prod"], "Try one"),
        (["arn:aws:lambda:us-east-1:123456789012:function:one:7"], "Try one"),
        (["missing"], "no function missing"),
        (["missing"], "in a Web Function or a MicroVM Lambda starts no extension"),
        (["arn:aws:lambda:us-east-1:123456789012:web-function/shop"], "web-function/shop: in a Web Function"),
        (["arn:aws:lambda:us-east-1:123456789012:microvm-image:box"], "or a MicroVM Lambda starts no extension"),
    ],
)
def test_a_choice_that_finds_nothing_is_one_line(
    truemem: Command, account: Account, arguments: list[str], said: str
) -> None:
    for command in ("attach", "detach"):
        assert said in truemem(command, *arguments, "--yes").refusal


# --- Detach -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("runtime", ["python3.13", "nodejs22.x"])
def test_attached_twice_is_undone_at_once(truemem: Command, account: Account, runtime: str) -> None:
    """What any number of changes comes to is in test_change."""
    layers = [account.layer("vendor"), account.layer("truemem-arm64"), account.layer("other")]
    variables = {WRAPPER: "/opt/vendor", "TRUEMEM_AGGREGATE": "30", PYTHON_PATH: "/a", NODE_OPTIONS: "-i", "A": "ü"}
    account.function("one", Runtime=runtime, Layers=layers, variables=variables)
    assert truemem("attach", "one", "--set", "aggregate=60", "--heap", "--yes").code == 0
    assert truemem("attach", "one", "--set", "aggregate=90", "--exact", "--yes").code == 0
    assert account.updates == ["one", "one"]
    assert truemem("detach", "one", "--yes").code == 0
    assert account.held("one") == (layers, variables)


def test_variables_that_were_changed_since_are_left_and_named(truemem: Command, account: Account) -> None:
    account.function("one", variables={"TRUEMEM_JOURNAL": "off"})
    assert truemem("attach", "one", "--exact", "--set", "aggregate=60", "--yes").code == 0
    changed = {**account.held("one").variables, "TRUEMEM_AGGREGATE": "90", "TRUEMEM_NAMESPACE": "mine", "B": "2"}
    account.lambdas.update_function_configuration(FunctionName="one", Environment={"Variables": changed})
    told = truemem("detach", "one", "--yes").out
    assert "! TRUEMEM_AGGREGATE was changed" in told
    assert "! TRUEMEM_NAMESPACE is not from truemem attach" in told
    kept = {"TRUEMEM_JOURNAL": "off", "TRUEMEM_AGGREGATE": "90", "TRUEMEM_NAMESPACE": "mine", "B": "2"}
    assert account.held("one") == ([], kept)


def test_no_function_keeps_our_preload_without_our_layer(truemem: Command, account: Account) -> None:
    """It would not start. Here another option was added since, and then the layer was taken off by hand."""
    account.function("one", Runtime="nodejs22.x")
    assert truemem("attach", "one", "--heap", "--yes").code == 0
    more = {NODE_OPTIONS: f"{PRELOAD} --no-warnings"}
    account.lambdas.update_function_configuration(FunctionName="one", Layers=[], Environment={"Variables": more})
    told = truemem("detach", "one", "--yes").out
    assert account.held("one") == ([], {NODE_OPTIONS: "--no-warnings"})
    assert "it stays" not in told


@pytest.mark.parametrize("runtime", ["python3.13", "nodejs22.x"])
def test_without_a_record_everything_of_truemem_is_removed(
    truemem: Command, account: Account, records: RecordsFile, runtime: str
) -> None:
    vendor = account.layer("vendor")
    before = {"A": "1", WRAPPER: "/opt/vendor", "PYTHONPATH": "/var/task/src", NODE_OPTIONS: "--no-warnings"}
    account.function("one", Layers=[vendor], variables=before, Runtime=runtime)
    assert truemem("attach", "one", "--exact", "--heap", "--set", "aggregate=60", "--yes").code == 0
    records.path.unlink()
    told = truemem("detach", "one", "--yes").out
    assert "! there is no record of it" in told
    assert account.held("one") == ([vendor], before)


def test_all_is_each_function_of_the_file(truemem: Command, account: Account, records: RecordsFile) -> None:
    for name in ("one", "two", "other"):
        account.function(name)
    assert "has no function" in truemem("detach", "--all", "--yes").refusal
    assert truemem("attach", "one", "two", "--yes").code == 0
    assert statuses(truemem("detach", "--all", "--yes", "--json")) == {"one": "done", "two": "done"}
    assert records.read() == {}


# --- What an adversary has tried --------------------------------------------------------------------------------------


@pytest.mark.parametrize("recorded", [True, False])
def test_detach_leaves_a_function_whose_variables_cannot_be_read(
    truemem: Command, account: Account, records: RecordsFile, recorded: bool
) -> None:
    account.function("one", variables={"A": "1"})
    assert truemem("attach", "one", "--exact", "--yes").code == 0
    if not recorded:
        records.path.unlink()
    before = account.held("one")
    account.said["one"] = UNREADABLE
    ran = truemem("detach", "one", "--yes", "--json")
    assert (ran.code, statuses(ran)) == (1, {"one": "left"})
    account.said.clear()
    assert account.held("one") == before


def test_second_command_keeps_the_first_ones_record(truemem: Command, account: Account, records: RecordsFile) -> None:
    """The other command changes the function after ours has read it. Ours is refused; the record of the other stays."""
    account.function("one", variables={"TRUEMEM_AGGREGATE": "30"})
    others: list[int] = []

    def another(function: Any) -> None:
        if not others:
            others.append(0)
            others.append(truemem("attach", "one", "--set", "aggregate=90", "--yes").code)

    account.before_update = another
    ran = truemem("attach", "one", "--set", "aggregate=60", "--yes", "--json")
    assert (others, statuses(ran)) == ([0, 0], {"one": "failed"})
    assert len(records.read()) == 1
    assert truemem("detach", "one", "--yes").code == 0
    assert account.held("one") == ([], {"TRUEMEM_AGGREGATE": "30"})


def test_a_garbled_answer_to_an_update_keeps_the_record(
    truemem: Command, account: Account, records: RecordsFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    account.function("one")
    update = LambdaFunction.update_configuration

    def garbled(self: Any, config_updates: dict[str, Any]) -> Any:
        update(self, config_updates)
        return "<html>a proxy's page</html>"

    monkeypatch.setattr(LambdaFunction, "update_configuration", garbled)
    ran = truemem("attach", "one", "--yes", "--json")
    assert ran.code == 1
    assert statuses(ran)["one"] in ("done", "not known")
    assert len(records.read()) == 1


def test_records_of_gone_or_restored_functions_go(truemem: Command, account: Account, records: RecordsFile) -> None:
    for name in ("one", "two"):
        account.function(name)
    assert truemem("attach", "one", "two", "--yes").code == 0
    account.lambdas.delete_function(FunctionName="one")
    account.lambdas.update_function_configuration(FunctionName="two", Layers=[])
    ran = truemem("detach", "--all", "--yes", "--json")
    assert (ran.code, statuses(ran)) == (0, {"two": "as it was"})
    assert "function:one is gone" in ran.err
    assert records.read() == {}


def test_layer_is_known_by_its_content_not_its_description(truemem: Command, account: Account) -> None:
    planted = {"LayerName": "truemem-x86_64", "Content": {"ZipFile": EMPTY_ZIP}}
    account.lambdas.publish_layer_version(Description=layer_description(layer_zip("x86_64")), **planted)
    account.function("one")
    assert truemem("attach", "one", "--yes").code == 0
    assert account.held("one").layers == [f"{ARN}x86_64:2"]


def test_an_update_that_failed_is_not_said_to_be_in_force(
    truemem: Command, account: Account, records: RecordsFile
) -> None:
    account.function("one")
    assert truemem("attach", "one", "--yes").code == 0
    account.said["one"] = {"LastUpdateStatus": "Failed", "LastUpdateStatusReason": "no subnet"}
    ran = truemem("attach", "one", "--yes", "--json")
    assert (ran.code, statuses(ran)) == (1, {"one": "left"})
    assert "no subnet" in reason(ran)
