"""What is created: AWS's own translator, boto3, moto's real server; and read back from there."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from truemem.config import Config
from truemem.line_schema import MEMBERS, METRICS, MIB

from deploy import application
from layer.__main__ import EXECUTABLES
from tests.attach.insights import SYSTEM_FIELDS, names
from tests.template.conftest import EVERYTHING, Resources
from tests.template.resolve import Resolver
from tests.template.stack import CODE, Account, Stack, plain, zips

pytestmark = pytest.mark.filterwarnings("ignore:Tried to parse")  # what moto does not make, it says

SAMPLES = {"IncidentX86": "x86_64", "RepairedX86": "x86_64", "IncidentArm": "arm64", "RepairedArm": "arm64"}

UNSUPPORTED = {"AWS::CloudWatch::Alarm", "AWS::S3::BucketPolicy", "AWS::Lambda::Permission"}
"""What moto's CloudFormation does not make, or does not list."""
OWN = {"AWS::IAM::Policy", "AWS::Lambda::LayerVersion"}
"""What it makes under another name."""

LAMBDA_METRICS = {"Errors"}
"""AWS/Lambda's own that we show."""


def test_cloudformation_takes_it(truth: Stack, template: application.Template) -> None:
    assert truth.description()["StackStatus"] == "CREATE_COMPLETE"
    resources = plain(template)["Resources"].items()
    wanted = {name for name, each in resources if each["Type"] not in UNSUPPORTED | OWN and "Image" not in name}
    assert wanted <= set(truth.ids)


def test_it_tells_both_layers_and_all_samples(truth: Stack) -> None:
    outputs = {each["OutputKey"]: each["OutputValue"] for each in truth.description()["Outputs"]}
    assert set(outputs) == {"TruememLayerX86", "TruememLayerArm64", "ModelBucket", "DashboardUrl"} | {
        f"{name}Function" for name in SAMPLES
    }
    for name in SAMPLES:
        assert outputs[f"{name}Function"] == truth.ids[name]
    assert outputs["ModelBucket"] == truth.ids["Models"]


@pytest.mark.parametrize(("name", "architecture"), SAMPLES.items())
def test_a_function_has_the_layer_of_its_architecture(name: str, architecture: str, resources: Resources) -> None:
    function = resources("AWS::Lambda::Function")[name]
    assert function["Runtime"] == "python3.13"
    assert function["Architectures"] == [architecture]
    (layer,) = (resources("AWS::Lambda::LayerVersion")[layer] for layer in function["Layers"])
    assert (layer["LayerName"], layer["CompatibleArchitectures"]) == (f"truemem-{architecture}", [architecture])
    assert not layer.get("CompatibleRuntimes")
    assert function["LoggingConfig"]["LogFormat"] == "JSON"
    assert function["LoggingConfig"]["ApplicationLogLevel"] == "WARN"


def test_a_changed_layer_replaces_the_version_before(template: application.Template) -> None:
    def layers(key: str) -> dict[str, str]:
        changed = application.located(template, CODE, {**zips(template), "TruememX86": key})
        resources = application.translated(changed)["Resources"].items()
        kinds = {
            name: each.get("DeletionPolicy") for name, each in resources if each["Type"] == "AWS::Lambda::LayerVersion"
        }
        return {name: policy for name, policy in kinds.items() if name.startswith("TruememX86")}

    before, after = layers("before.zip"), layers("after.zip")
    assert (*before.values(), *after.values()) == ("Delete", "Delete")
    assert set(before).isdisjoint(after)  # another resource: CloudFormation deletes the one that is gone


def test_the_settings_differ_as_in_the_incident(resources: Resources) -> None:
    functions = resources("AWS::Lambda::Function")
    settings = {name: functions[name]["Environment"]["Variables"] for name in SAMPLES}
    assert settings["IncidentX86"] == settings["IncidentArm"]
    assert settings["RepairedX86"] == settings["RepairedArm"]
    incident, repaired = settings["IncidentX86"], settings["RepairedX86"]
    pairs = {name: (incident.get(name), value) for name, value in repaired.items()}
    assert {name: (before, after) for name, (before, after) in pairs.items() if before != after} == {
        "LOAD_FROM": ("bytes", "path"),
        "POP_BEFORE_LOAD": ("false", "true"),
        "MALLOC_MMAP_THRESHOLD_": (None, "32768"),
        "MMAP_THRESHOLD": (None, "32768"),
    }
    assert repaired["TRACER_ENABLED"] == EVERYTHING["Tracing"]


def test_the_samples_run_in_exact_mode(template: application.Template) -> None:
    """The image as well."""
    functions = {
        name: each["Properties"]["Environment"]["Variables"]["AWS_LAMBDA_EXEC_WRAPPER"]
        for name, each in template["Resources"].items()
        if each["Type"] == "AWS::Serverless::Function"
    }
    assert functions == dict.fromkeys([*SAMPLES, "SampleImage"], f"/opt/{EXECUTABLES[1]}")


def test_text_logs_have_no_level_to_filter_by(template: application.Template) -> None:
    default = Resolver(plain(template), {}, {}).resources("AWS::Lambda::Function")
    assert set(default) == set(SAMPLES)  # the image is off
    for function in default.values():
        assert function["LoggingConfig"]["LogFormat"] == "Text"
        assert "ApplicationLogLevel" not in function["LoggingConfig"]


def test_the_bucket_is_encrypted_closed_and_cleared(truth: Stack, account: Account, resources: Resources) -> None:
    bucket = truth.ids["Models"]
    encryption = account.client("s3").get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]
    (default,) = (rule["ApplyServerSideEncryptionByDefault"] for rule in encryption["Rules"])
    assert default["SSEAlgorithm"] == "AES256"
    properties = resources("AWS::S3::Bucket")["Models"]
    closed = ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets")
    assert properties["PublicAccessBlockConfiguration"] == dict.fromkeys(closed, True)
    rules = properties["LifecycleConfiguration"]["Rules"]
    assert {rule["Id"]: rule["Status"] for rule in rules} == {"models": "Enabled", "unfinished-uploads": "Enabled"}
    assert rules[0]["Prefix"] == "models/"
    (policy,) = resources("AWS::S3::BucketPolicy").values()
    (statement,) = policy["PolicyDocument"]["Statement"]
    assert statement["Effect"] == "Deny"
    assert policy["Bucket"] == bucket


def test_the_samples_may_do_no_more_than_they_do(truth: Stack, account: Account, resources: Resources) -> None:
    iam, role = account.client("iam"), truth.ids["SampleRole"]
    assert not iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]
    inline = resources("AWS::IAM::Role")["SampleRole"]["Policies"]
    alone = resources("AWS::IAM::Policy").values()
    policies = {each["PolicyName"]: each["PolicyDocument"]["Statement"] for each in [*inline, *alone]}
    assert set(iam.list_role_policies(RoleName=role)["PolicyNames"]) == set(policies)
    (logs,) = policies["logs"]
    assert logs["Action"] == ["logs:CreateLogStream", "logs:PutLogEvents"]
    assert len(logs["Resource"]) == len(SAMPLES)
    objects, listing = policies["models"]
    assert objects["Action"] == ["s3:GetObject", "s3:PutObject"]
    assert objects["Resource"].endswith(f"{truth.ids['Models']}/models/*")
    assert listing["Action"] == "s3:ListBucket"
    assert listing["Resource"].endswith(truth.ids["Models"])
    everywhere = {name for name, statements in policies.items() if any(each["Resource"] == "*" for each in statements)}
    assert everywhere == {"traces"}  # with Tracing only


def test_log_groups_end(truth: Stack, account: Account) -> None:
    groups = {each["logGroupName"]: each for each in account.client("logs").describe_log_groups()["logGroups"]}
    for name in SAMPLES:
        assert groups[truth.ids[f"{name}Log"]]["retentionInDays"] == 14


def test_the_schedules_send_what_the_handler_takes(truth: Stack, account: Account) -> None:
    events = account.client("events")
    rules = [each["Name"] for each in events.list_rules()["Rules"]]
    targets = [target for rule in rules for target in events.list_targets_by_rule(Rule=rule)["Targets"]]
    inputs = [json.loads(target["Input"]) for target in targets]
    assert len(inputs) == 4 * 5 + 4
    assert all(set(each) == {"model", "batch"} and 0 <= each["model"] < 40 for each in inputs)
    assert {each["batch"] for each in inputs} == {16, 2048}


def test_alarms_watch_what_the_sidecar_emits(resources: Resources) -> None:
    alarms = resources("AWS::CloudWatch::Alarm")
    assert set(alarms) == {f"{name}{what}" for name in SAMPLES for what in ("NearLimit", "Drift", "OutOfMemory")}
    queries = [query for name in alarms if "OutOfMemory" not in name for query in alarms[name]["Metrics"]]
    metrics = [query["MetricStat"]["Metric"] for query in queries if "MetricStat" in query]
    assert {metric["Namespace"] for metric in metrics} == {Config({}).namespace}
    assert {dimension["Name"] for metric in metrics for (dimension,) in [metric["Dimensions"]]} == {"FunctionName"}
    seen = {metric["MetricName"] for metric in metrics}
    assert seen == {"PeakRSS", "CurrentRSS"} <= set(METRICS)
    assert {METRICS[name] for name in seen} == {MIB}  # Megabytes, in which the expressions divide by the memory size


def test_out_of_memory_is_the_sidecars_own_verdict(resources: Resources, truth: Stack) -> None:
    alarms = resources("AWS::CloudWatch::Alarm")
    for name in SAMPLES:
        alarm = alarms[f"{name}OutOfMemory"]
        assert (alarm["Namespace"], alarm["MetricName"]) == (Config({}).namespace, "OutOfMemory")
        assert alarm["Dimensions"] == [{"Name": "FunctionName", "Value": truth.ids[name]}]
        assert (alarm["Statistic"], alarm["Threshold"], alarm["TreatMissingData"]) == ("Sum", 1, "notBreaching")
    assert "OutOfMemory" in METRICS


def widgets(resources: Resources, kind: str) -> list[dict[str, Any]]:
    (dashboard,) = resources("AWS::CloudWatch::Dashboard").values()
    return [each["properties"] for each in json.loads(dashboard["DashboardBody"])["widgets"] if each["type"] == kind]


def test_the_dashboard_shows_peak_current_and_mark_on_one_graph_for_each_function(
    resources: Resources, truth: Stack
) -> None:
    shown: dict[str, list[set[str]]] = {}
    for properties in widgets(resources, "metric"):
        graph: dict[str, set[str]] = {}
        for namespace, name, *dimension in (each for each in properties["metrics"] if not isinstance(each[0], dict)):
            assert name in {"truemem": METRICS, "AWS/Lambda": LAMBDA_METRICS}[namespace]
            if namespace == "truemem":
                assert dimension[0] == "FunctionName"
                graph.setdefault(dimension[1], set()).add(name)
        for function, metrics in graph.items():
            shown.setdefault(function, []).append(metrics)
    assert set(shown) == {truth.ids[name] for name in SAMPLES}
    assert all({"PeakRSS", "CurrentRSS", "MaxMemoryUsed"} in graphs for graphs in shown.values())


def test_its_queries_name_members_that_a_line_has(resources: Resources, truth: Stack) -> None:
    queries = [properties["query"] for properties in widgets(resources, "log")]
    assert len(queries) >= 4 + 4
    used = {name for query in queries for name in names(re.sub(r"SOURCE '[^']*' \| ", "", query))} - {*SYSTEM_FIELDS}
    known = {*MEMBERS, "holders.truemem", "drift.verdict", "drift.perInvocationKiB"}
    assert used <= known, used - known
    assert {"CurrentRSS", "environmentId", "holders.truemem", "drift.verdict"} <= used
    groups = {group for query in queries for group in re.findall(r"SOURCE '([^']*)'", query)}
    assert groups == {truth.ids[f"{name}Log"] for name in SAMPLES}


def test_the_parse_of_other_extensions_fits_a_line(resources: Resources) -> None:
    line = '{"holders":{"function":1.0,"truemem":5.1,"extensions":{"a-b":3.5,"c":1}},"rss":{}}'
    parses = [re.search(r"parse @message /(.*?)/ ", properties["query"]) for properties in widgets(resources, "log")]
    (expression,) = [parse[1].replace("(?<", "(?P<") for parse in parses if parse]
    found = re.search(expression, line)
    assert found is not None
    assert found["extensions"] == '"a-b":3.5,"c":1'
