"""What doctor and attach say of settings of the platform: log classes and levels, tenants, scaling, and others."""

import json
import shlex
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any

import pytest
from botocore import xform_name
from botocore.client import BaseClient
from botocore.exceptions import ClientError
from botocore.session import get_session
from moto.logs.models import LogGroup
from truemem_workbench.attach.platform_diagnosis import (
    diagnose_log_class,
    diagnose_records,
    diagnose_scaling,
    diagnose_settings,
    log_class_text,
)
from truemem_workbench.support.diagnosis import Diagnosis

from tests.account.conftest import Account
from tests.report.conftest import Command

NAME = "orders"
TODAY = date(2026, 11, 26)


def said(**configuration: Any) -> list[Diagnosis]:
    function = {"FunctionName": NAME, **configuration}
    return [*diagnose_settings(function, TODAY), *diagnose_records(function)]


def commands(found: Sequence[Diagnosis]) -> Iterator[list[str]]:
    """The commands of AWS's CLI in what is to be done, in words."""
    for each in found:
        for part in each.fix.split(" && "):
            _, aws, command = part.partition("aws ")
            yield from [shlex.split(command)] if aws else []


def is_known(command: list[str]) -> bool:
    """True if the API has the operation, and each option is one of its members."""
    service, operation, *options = command
    model = get_session().get_service_model(service)
    names = {xform_name(name, "-"): name for name in model.operation_names}
    shape = model.operation_model(names[operation]).input_shape
    members = shape.members if shape else {}
    wanted = {each.removeprefix("--") for each in options if each.startswith("--")}
    return wanted <= {xform_name(member, "-") for member in members}


LEVELS = {"LogFormat": "JSON", "ApplicationLogLevel": "ERROR", "SystemLogLevel": "WARN", "LogGroup": "/a b"}
WRAPPED = {"Variables": {"AWS_LAMBDA_EXEC_WRAPPER": "/opt/truemem/exact"}}
SETTINGS = [
    ({"Runtime": "nodejs24.x", "LoggingConfig": {"LogFormat": "Text"}, "PackageType": "Zip"}, "", ""),
    ({"Runtime": "python3.99"}, "! Its Runtime python3.99 is newer than what this truemem knows", "pip install"),
    ({"Architectures": ["riscv64"]}, "! Its Architecture riscv64 is newer", "pip install --upgrade truemem"),
    ({"Runtime": "nodejs20.x"}, "! Its runtime is deprecated: from 2027-03-03 Lambda refuses", "--runtime nodejs24.x"),
    ({"Runtime": "go1.x"}, "! Its runtime is deprecated: from", "--runtime provided.al2023"),
    ({"Runtime": "python3.6"}, "! Its runtime is deprecated: since 2022-08-29 Lambda", "--runtime python3.14"),
    (
        {"LoggingConfig": {"ApplicationLogLevel": "WARN"}},
        "! Its log level is WARN: the sidecar's first line is",
        "=INFO",
    ),
    (
        {"LoggingConfig": {"ApplicationLogLevel": "FATAL"}},
        "! Its log level is FATAL: what the sidecar says of",
        "=INFO",
    ),
    ({"LoggingConfig": {"SystemLogLevel": "WARN"}}, "! Its system log level is WARN: the log has REPORT of", "=INFO"),
    ({"Runtime": "custom", "Environment": WRAPPED}, "! Lambda need not start a wrapper in custom, and", "let its boot"),
    ({"Runtime": "python3.14", "Environment": WRAPPED}, "", ""),
    ({"Environment": {"Variables": {"AWS_LWA_PORT": "8000"}}}, "! It runs behind the Lambda Web Adapter", "--exact"),
    (
        {"Environment": {"Variables": {"TRUEMEM_PORT": "9717", "AWS_LWA_LAMBDA_RUNTIME_API_PROXY": "127.0.0.1:9717"}}},
        "problem Its Lambda Web Adapter asks the sidecar for events, and no record is",
        "--no-exact",
    ),
    ({"TenancyConfig": {"TenantIsolationMode": "PER_TENANT"}}, "ok Tenant isolation: an environment", "--by tenantId"),
]


@pytest.mark.parametrize(("configuration", "text", "fix"), SETTINGS)
def test_a_setting_has_a_sentence_and_a_command(configuration: dict[str, Any], text: str, fix: str) -> None:
    found = said(**configuration)
    grades = {"note": "!", "ok": "ok", "problem": "problem"}
    assert [f"{grades[each.grade]} {each.text}"[: len(text)] for each in found] == [text] * bool(text)
    assert all(fix in each.fix for each in found)


def test_exact_mode_that_works_needs_no_note() -> None:
    behind = {"Layers": [{"Arn": "arn:aws:lambda:eu-west-1:753240598075:layer:LambdaAdapterLayerX86:30"}]}
    assert not [*diagnose_records({"Runtime": "custom", "Environment": WRAPPED, **behind}, is_exact=True)]


def test_a_durable_function_has_versions_and_replays() -> None:
    versions, replays = said(DurableConfig={"ExecutionTimeout": 9})
    assert "stays with its version" in versions.text
    assert ("may look like a leak" in replays.text, replays.fix.endswith("--by executionArn")) == (True, True)


def test_a_log_level_is_changed_alone() -> None:
    application, system = commands(said(LoggingConfig=LEVELS))
    assert application[-1] == "LogFormat=JSON,ApplicationLogLevel=INFO,SystemLogLevel=WARN,LogGroup=/a b"
    assert system[-1] == "LogFormat=JSON,ApplicationLogLevel=ERROR,SystemLogLevel=INFO,LogGroup=/a b"


def test_each_command_is_one_that_aws_has() -> None:
    function = {"FunctionName": NAME, "Runtime": "nodejs20.x", "LoggingConfig": LEVELS, "DurableConfig": {"a": 1}}
    none = {"AppliedFunctionScalingConfig": {"MinExecutionEnvironments": 0, "MaxExecutionEnvironments": 0}}
    found = [*said(**function), *diagnose_log_class(function, "/g", "DELIVERY"), *diagnose_scaling(function, none)]
    written = [*commands(found)]
    assert len(written) == 7
    assert all(map(is_known, written)), written


CLASSES = [
    ("STANDARD", "emf", ""),
    ("INFREQUENT_ACCESS", "emf", "Its log group is of the class Infrequent Access: no metrics are made of its lines"),
    (
        "DELIVERY",
        "emf",
        "Its log group is of the class Delivery: no metrics are made of its lines, Logs Insights reads none of them,"
        " they are kept for 1 day",
    ),
    (
        "DELIVERY",
        "json",
        "Its log group is of the class Delivery: Logs Insights reads none of them, they are kept for 1 day",
    ),
    ("DELIVERY", "otlp", ""),
    ("INFREQUENT_ACCESS", "json", ""),
    (
        "ESSENTIALS",
        "emf,otlp",
        "Its log group is of the class Essentials: AWS does not say whether metrics are made of",
    ),
    ("GLACIAL", "emf", "Its log class GLACIAL is newer than what this truemem knows"),
]


@pytest.mark.parametrize(("named", "output", "text"), CLASSES)
def test_a_log_class_lacks_what_the_output_needs(named: str, output: str, text: str) -> None:
    variables = {"TRUEMEM_OUTPUT": output, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}
    found = log_class_text(named, variables)
    assert found.startswith(text)
    assert bool(found) == bool(text)


def test_scaling_says_how_many_environments_there_are() -> None:
    (some,) = diagnose_scaling({}, {"AppliedFunctionScalingConfig": {"MinExecutionEnvironments": 3}})
    assert (some.grade, some.text) == (
        "ok", "Managed Instances: 3 environments at least. One that serves nothing prints nothing."
    )  # fmt: skip
    (none,) = diagnose_scaling({"Version": "7"}, {"AppliedFunctionScalingConfig": {"MaxExecutionEnvironments": 0}})
    assert none.grade == "problem"
    assert "--qualifier 7 " in none.fix
    assert [*diagnose_scaling({}, {})] == []


# --- The commands -----------------------------------------------------------------------------------------------------


def answers(monkeypatch: pytest.MonkeyPatch, operation: str, answer: Any) -> None:
    """From then on one operation has this answer, or raises it: moto has it not, or answers otherwise than AWS."""
    call: Any = BaseClient.__dict__["_make_api_call"]

    def make_api_call(self: Any, name: str, kwargs: Any) -> Any:
        if name != operation:
            return call(self, name, kwargs)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(BaseClient, "_make_api_call", make_api_call)


def log_group(account: Account, monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    """The function's log group, of this class. moto forgets it."""
    describe = LogGroup.to_describe_dict
    monkeypatch.setattr(LogGroup, "to_describe_dict", lambda group: {**describe(group), "logGroupClass": named})
    account.client("logs").create_log_group(logGroupName=f"/aws/lambda/{NAME}")


def test_doctor_looks_at_all_settings(truemem: Command, account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    account.function(NAME)
    account.said[NAME] = {
        "Runtime": "python3.99",
        "LoggingConfig": {"LogFormat": "JSON", "SystemLogLevel": "WARN"},
        "CapacityProviderConfig": {},
    }
    before = truemem("doctor", "--function", NAME).out  # moto has no GetFunctionScalingConfig: left out
    scaling = {"AppliedFunctionScalingConfig": {"MinExecutionEnvironments": 2, "MaxExecutionEnvironments": 5}}
    answers(monkeypatch, "GetFunctionScalingConfig", scaling)
    after = truemem("doctor", "--function", NAME).out
    assert "2 environments at least" not in before
    for text in "Runtime python3.99 is newer", "system log level is WARN", "2 environments at least":
        assert text in after


def test_doctor_names_a_class_whose_lines_it_cannot_read(
    truemem: Command, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    account.function(NAME)
    log_group(account, monkeypatch, "DELIVERY")
    refused = ClientError({"Error": {"Code": "InvalidParameterException", "Message": "class"}}, "FilterLogEvents")
    answers(monkeypatch, "FilterLogEvents", refused)
    ran = truemem("doctor", "--function", NAME)
    assert ran.code == 1
    assert "✗ Its log group is of the class Delivery: no metrics" in ran.out
    assert "No invocation" not in ran.out


def test_a_refusal_to_read_a_standard_group_is_none_of_the_class(
    truemem: Command, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    account.function(NAME)
    log_group(account, monkeypatch, "STANDARD")
    refused = ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "FilterLogEvents")
    answers(monkeypatch, "FilterLogEvents", refused)
    assert "logs:FilterLogEvents" in truemem("doctor", "--function", NAME).refusal


@pytest.mark.parametrize(
    ("setting", "command"),
    [
        (
            {"TenancyConfig": {"TenantIsolationMode": "PER_TENANT"}},
            "aws lambda invoke --function-name orders --tenant-id",
        ),
        ({"DurableConfig": {"ExecutionTimeout": 9}}, "Try truemem doctor 'orders:$LATEST' --follow --invoke"),
    ],
)
def test_what_lambda_would_not_invoke_is_not_invoked(
    truemem: Command, account: Account, setting: dict[str, Any], command: str
) -> None:
    account.function(NAME)
    account.said[NAME] = setting
    assert command.removeprefix("Try ") in truemem("doctor", "--function", NAME).out
    assert command in truemem("doctor", NAME, "--follow", "--invoke").refusal


def test_check_says_where_to_measure_what_it_cannot_invoke(
    truemem: Command, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = "Tenant ID configuration not specified"
    refused = ClientError({"Error": {"Code": "InvalidParameterValueException", "Message": message}}, "Invoke")
    answers(monkeypatch, "Invoke", refused)
    assert "callers do, and try truemem report orders" in truemem("check", "--function", NAME).refusal


def test_attach_notes_what_is_newer_and_what_ends(
    truemem: Command, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    account.function(NAME)
    account.said[NAME] = {"Runtime": "python3.99", "DurableConfig": {"ExecutionTimeout": 9}}
    log_group(account, monkeypatch, "DELIVERY")
    document = json.loads(truemem("attach", NAME, "--dry-run", "--json").out)
    assert [note.partition(":")[0].partition(" is newer")[0] for note in document["notes"]] == [
        "its Runtime python3.99",
        "it is durable",
        "its log group is of the class Delivery",
    ]
