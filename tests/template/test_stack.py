"""What would be created, by AWS's own translator."""

import json
import re
from typing import Any

import pytest
from truemem.config import Config
from truemem.line_schema import MEMBERS, METRICS, MIB

from deploy import application
from layer.__main__ import EXECUTABLES
from tests.attach.insights import SYSTEM_FIELDS, names
from tests.template.conftest import Resources
from tests.template.resolve import Resolver
from tests.template.stack import plain

SAMPLES = {"IncidentX86": "x86_64", "RepairedX86": "x86_64", "IncidentArm": "arm64", "RepairedArm": "arm64"}


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


def test_the_samples_may_do_no_more_than_they_do(resources: Resources) -> None:
    role = resources("AWS::IAM::Role")["SampleRole"]
    assert not role.get("ManagedPolicyArns")
    alone = resources("AWS::IAM::Policy").values()
    policies = {each["PolicyName"]: each["PolicyDocument"]["Statement"] for each in [*role["Policies"], *alone]}
    objects, _ = policies["models"]
    assert objects["Resource"].endswith("Models/models/*")
    everywhere = {name for name, statements in policies.items() if any(each["Resource"] == "*" for each in statements)}
    assert everywhere == {"traces"}  # with Tracing only


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


def widgets(resources: Resources, kind: str) -> list[dict[str, Any]]:
    (dashboard,) = resources("AWS::CloudWatch::Dashboard").values()
    return [each["properties"] for each in json.loads(dashboard["DashboardBody"])["widgets"] if each["type"] == kind]


def test_the_dashboard_shows_peak_current_and_mark_on_one_graph(resources: Resources) -> None:
    shown: dict[str, list[set[str]]] = {}
    for properties in widgets(resources, "metric"):
        graph: dict[str, set[str]] = {}
        for namespace, name, *dimension in (each for each in properties["metrics"] if not isinstance(each[0], dict)):
            assert name in {"truemem": METRICS, "AWS/Lambda": {"Errors"}}[namespace]
            if namespace == "truemem":
                assert dimension[0] == "FunctionName"
                graph.setdefault(dimension[1], set()).add(name)
        for function, metrics in graph.items():
            shown.setdefault(function, []).append(metrics)
    assert set(shown) == set(SAMPLES)
    assert all({"PeakRSS", "CurrentRSS", "MaxMemoryUsed"} in graphs for graphs in shown.values())


def test_its_queries_name_members_that_a_line_has(resources: Resources) -> None:
    queries = [properties["query"] for properties in widgets(resources, "log")]
    assert len(queries) >= 4 + 4
    used = {name for query in queries for name in names(re.sub(r"SOURCE '[^']*' \| ", "", query))} - {*SYSTEM_FIELDS}
    known = {*MEMBERS, "holders.truemem", "drift.verdict", "drift.perInvocationKiB"}
    assert used <= known, used - known
    assert {"CurrentRSS", "environmentId", "holders.truemem", "drift.verdict"} <= used
    groups = {group for query in queries for group in re.findall(r"SOURCE '([^']*)'", query)}
    assert groups == {f"{name}Log" for name in SAMPLES}
