"""What is created: AWS's own translator, boto3, moto's real server; and read back from there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from truemem.config import Config
from truemem.line_schema import MEMBERS, METRICS, MIB

from deploy import application
from layer.__main__ import EXECUTABLES
from tests.template.conftest import EVERYTHING
from tests.template.resolve import Resolver
from tests.template.stack import Account, Parts, Stack, plain

pytestmark = pytest.mark.filterwarnings("ignore:Tried to parse")  # what moto does not make, it says

SAMPLES = {"IncidentX86": "x86_64", "RepairedX86": "x86_64", "IncidentArm": "arm64", "RepairedArm": "arm64"}
FUNCTIONS = {**SAMPLES, "ProbeX86": "x86_64", "ProbeArm": "arm64"}

UNSUPPORTED = {"AWS::CloudWatch::Alarm", "AWS::S3::BucketPolicy", "AWS::Lambda::Permission"}
"""What moto's CloudFormation does not make, or does not list."""
OWN = {"AWS::IAM::Policy", "AWS::Lambda::LayerVersion"}
"""What it makes under another name."""

LAMBDA_METRICS = {"Errors"}
"""AWS/Lambda's own that we show."""


def test_cloudformation_takes_it(truth: Stack, template: application.Template) -> None:
    assert truth.description()["StackStatus"] == "CREATE_COMPLETE"
    wanted = {
        name
        for name, each in plain(template)["Resources"].items()
        if each["Type"] not in UNSUPPORTED | OWN and "Image" not in name
    }
    assert wanted <= set(truth.ids)


def test_it_tells_both_layers_and_all_samples(truth: Stack) -> None:
    outputs = {each["OutputKey"]: each["OutputValue"] for each in truth.description()["Outputs"]}
    assert set(outputs) == {"TruememLayerX86", "TruememLayerArm64", "ModelBucket", "DashboardUrl"} | {
        f"{name}Function" for name in SAMPLES
    }
    for name in SAMPLES:
        assert outputs[f"{name}Function"] == truth.ids[name]
    assert outputs["ModelBucket"] == truth.ids["Models"]


def test_layers_are_for_one_architecture_and_any_runtime(parts: Parts) -> None:
    published = parts.layers()
    sent = parts.resolve.resources("AWS::Lambda::LayerVersion").values()
    architectures = {each["LayerName"]: each["CompatibleArchitectures"] for each in sent}
    assert architectures == {"truemem-x86_64": ["x86_64"], "truemem-arm64": ["arm64"]}
    assert set(architectures) <= set(published)
    assert not any(each.get("CompatibleRuntimes") for each in published.values())


@pytest.mark.parametrize(("name", "architecture"), FUNCTIONS.items())
def test_a_function_has_the_layer_of_its_architecture(name: str, architecture: str, parts: Parts) -> None:
    function = parts.function(name)
    assert function["Runtime"] == "python3.13"
    assert function["Architectures"] == [architecture]
    (layer,) = function["Layers"]
    arn = layer["Arn"] if isinstance(layer, dict) else layer
    assert re.fullmatch(rf"arn:aws:lambda:.*:layer:truemem-{architecture}:\d+", arn)
    assert function["LoggingConfig"]["LogFormat"] == "JSON"
    assert function["LoggingConfig"]["ApplicationLogLevel"] == "WARN"


def test_the_settings_differ_as_in_the_incident(parts: Parts) -> None:
    functions = parts.resolve.resources("AWS::Lambda::Function")
    settings = {name: functions[name]["Environment"]["Variables"] for name in SAMPLES}
    assert settings["IncidentX86"] == settings["IncidentArm"]
    assert settings["RepairedX86"] == settings["RepairedArm"]
    incident, repaired = settings["IncidentX86"], settings["RepairedX86"]
    assert {
        name: (incident.get(name), repaired[name]) for name in repaired if incident.get(name) != repaired[name]
    } == {
        "LOAD_FROM": ("bytes", "path"),
        "POP_BEFORE_LOAD": ("false", "true"),
        "MALLOC_MMAP_THRESHOLD_": (None, "32768"),
        "MMAP_THRESHOLD": (None, "32768"),
    }
    assert repaired["TRACER_ENABLED"] == EVERYTHING["Tracing"]


def test_the_samples_run_in_exact_mode(template: application.Template) -> None:
    """The image as well; not the probe, which looks at Lambda and not at us."""
    functions = {
        name: each["Properties"].get("Environment", {}).get("Variables", {}).get("AWS_LAMBDA_EXEC_WRAPPER")
        for name, each in template["Resources"].items()
        if each["Type"] == "AWS::Serverless::Function"
    }
    wrapped = {name for name, wrapper in functions.items() if wrapper == f"/opt/{EXECUTABLES[1]}"}
    assert wrapped == {*SAMPLES, "SampleImage"}
    assert {functions[name] for name in functions.keys() - wrapped} == {None}


def test_text_logs_have_no_level_to_filter_by(template: application.Template) -> None:
    default = Resolver(plain(template), {}, {}).resources("AWS::Lambda::Function")
    assert set(default) == set(SAMPLES)  # the probe and the images are off
    for function in default.values():
        assert function["LoggingConfig"]["LogFormat"] == "Text"
        assert "ApplicationLogLevel" not in function["LoggingConfig"]


def test_the_bucket_is_encrypted_closed_and_cleared(truth: Stack, account: Account, parts: Parts) -> None:
    s3, bucket = account.client("s3"), truth.ids["Models"]
    (encryption,) = s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"]
    assert encryption["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"
    properties = parts.resolve.resources("AWS::S3::Bucket")["Models"]
    s3.put_public_access_block(
        Bucket=bucket, PublicAccessBlockConfiguration=properties["PublicAccessBlockConfiguration"]
    )
    assert all(s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"].values())
    rules = properties["LifecycleConfiguration"]["Rules"]
    assert {rule["Id"]: rule["Status"] for rule in rules} == {"models": "Enabled", "unfinished-uploads": "Enabled"}
    assert rules[0]["Prefix"] == "models/"
    ((_, policy),) = parts.resolve.resources("AWS::S3::BucketPolicy").items()
    (statement,) = policy["PolicyDocument"]["Statement"]
    assert statement["Effect"] == "Deny"
    assert policy["Bucket"] == bucket


def test_the_samples_may_do_no_more_than_they_do(truth: Stack, account: Account, parts: Parts) -> None:
    iam, role = account.client("iam"), truth.ids["SampleRole"]
    assert not iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]
    inline = parts.resolve.resources("AWS::IAM::Role")["SampleRole"]["Policies"]
    alone = parts.resolve.resources("AWS::IAM::Policy").values()
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


def test_alarms_watch_what_the_sidecar_emits(parts: Parts) -> None:
    alarms = parts.alarms()
    assert set(alarms) == {f"{name}{what}" for name in SAMPLES for what in ("NearLimit", "Drift", "OutOfMemory")}
    namespace = Config({}).namespace
    seen = set()
    for name in SAMPLES:
        for what in ("NearLimit", "Drift"):
            for query in alarms[f"{name}{what}"]["Metrics"]:
                if "MetricStat" in query:
                    metric = query["MetricStat"]["Metric"]
                    assert metric["Namespace"] == namespace
                    (dimension,) = metric["Dimensions"]
                    assert dimension["Name"] == "FunctionName"
                    seen.add(metric["MetricName"])
    assert seen == {"PeakRSS", "CurrentRSS"} <= set(METRICS)
    assert {METRICS[name] for name in seen} == {
        MIB
    }  # so they are Megabytes, in which the expressions divide by the memory size


def test_out_of_memory_is_the_sidecars_own_verdict(parts: Parts, truth: Stack) -> None:
    alarms = parts.alarms()
    for name in SAMPLES:
        alarm = alarms[f"{name}OutOfMemory"]
        assert (alarm["Namespace"], alarm["MetricName"]) == (Config({}).namespace, "OutOfMemory")
        assert alarm["Dimensions"] == [{"Name": "FunctionName", "Value": truth.ids[name]}]
        assert (alarm["Statistic"], alarm["Threshold"], alarm["TreatMissingData"]) == ("Sum", 1, "notBreaching")
    assert "OutOfMemory" in METRICS


def widgets(parts: Parts, kind: str) -> Iterator[dict[str, Any]]:
    for widget in parts.dashboard()["widgets"]:
        if widget["type"] == kind:
            yield widget["properties"]


def test_the_dashboard_shows_peak_current_and_mark_on_one_graph_for_each_function(parts: Parts, truth: Stack) -> None:
    shown: dict[str, list[set[str]]] = {}
    for properties in widgets(parts, "metric"):
        graph: dict[str, set[str]] = {}
        for metric in properties["metrics"]:
            if isinstance(metric[0], dict):
                continue
            namespace, name = metric[:2]
            if namespace == "truemem":
                assert name in METRICS
                assert metric[2] == "FunctionName"
                graph.setdefault(metric[3], set()).add(name)
            else:
                assert namespace == "AWS/Lambda"
                assert name in LAMBDA_METRICS
        for function, names in graph.items():
            shown.setdefault(function, []).append(names)
    assert set(shown) == {truth.ids[name] for name in SAMPLES}
    assert all({"PeakRSS", "CurrentRSS", "MaxMemoryUsed"} in graphs for graphs in shown.values())


LANGUAGE = {
    *("SOURCE", "filter", "fields", "stats", "sort", "limit", "parse", "display", "by", "as", "in", "and", "or", "not"),
    *("ispresent", "bin", "max", "min", "earliest", "latest", "count", "desc", "asc", "5m"),
}
"""Words of Logs Insights that the dashboard uses."""


def fields(query: str) -> set[str]:
    """Names of members that a query reads: what is neither the language's, nor text, nor named by the query itself."""
    bare = re.sub(r"/(?:[^/\\]|\\.)*/", " ", re.sub(r"'[^']*'", " ", query))
    own = set(re.findall(r"\bas (\w+)", bare)) | set(re.findall(r"\(\?<(\w+)>", query))
    words = set(re.findall(r"(?<![\w@.])[A-Za-z_][\w.]*", bare))
    return {word for word in words - LANGUAGE - own if not word.isdigit()}


def test_its_queries_name_members_that_a_line_has(parts: Parts, truth: Stack) -> None:
    queries = [properties["query"] for properties in widgets(parts, "log")]
    assert len(queries) >= 4 + 4
    used = {name for query in queries for name in fields(query)}
    known = {*MEMBERS, "holders.truemem", "drift.verdict", "drift.perInvocationKiB"}
    assert used <= known, used - known
    assert {"CurrentRSS", "environmentId", "holders.truemem", "drift.verdict"} <= used
    groups = {group for query in queries for group in re.findall(r"SOURCE '([^']*)'", query)}
    assert groups == {truth.ids[f"{name}Log"] for name in SAMPLES}


def test_the_parse_of_other_extensions_fits_a_line(parts: Parts) -> None:
    line = '{"holders":{"function":1.0,"truemem":5.1,"extensions":{"a-b":3.5,"c":1}},"rss":{}}'
    parses = [re.search(r"parse @message /(.*?)/ ", properties["query"]) for properties in widgets(parts, "log")]
    (expression,) = [parse[1].replace("(?<", "(?P<") for parse in parses if parse]
    found = re.search(expression, line)
    assert found is not None
    assert found["extensions"] == '"a-b":3.5,"c":1'
