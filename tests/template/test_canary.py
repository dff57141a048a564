"""deploy/canary: its alarms look at the new version alone."""

import tempfile
from pathlib import Path
from typing import Any

import pytest

from deploy import application
from testing.environment import Environment
from tests.dashboard.growing import goes_off, told_of
from tests.dashboard.metrics import made_by, of_alarms
from tests.records import OUT_OF_MEMORY, printed, record
from tests.template.resolve import Resolver
from tests.template.sam import ROOT

TEMPLATE = ROOT / "deploy" / "canary" / "template.yaml"
LAYER = "arn:aws:lambda:eu-central-1:123456789012:layer:truemem-x86_64:1"


def translated(release: str) -> application.Template:
    """What CloudFormation gets when this release is deployed."""
    return application.translated(application.load(TEMPLATE), {"LayerArn": LAYER, "Release": release})


def deployed(release: str, kind: str) -> dict[str, Any]:
    """Properties of the stack's resources of a type; its function is called `orders`."""
    template = translated(release)
    return Resolver(template, {"LayerArn": LAYER, "Release": release}, {"Function": "orders"}).resources(kind)


def alarms(release: str) -> dict[str, Any]:
    kind = "AWS::CloudWatch::Alarm"
    return {name: {"Type": kind, "Properties": each} for name, each in deployed(release, kind).items()}


def test_another_release_is_another_version_with_the_same_code() -> None:
    versions = [
        [name for name, each in translated(release)["Resources"].items() if each["Type"] == "AWS::Lambda::Version"]
        for release in ("3f2a91c", "b8e07d4")
    ]
    assert versions == [["FunctionVersion3f2a91c"], ["FunctionVersionb8e07d4"]]


def test_the_rollback_alarms_look_at_metrics_of_the_release(
    capfd: pytest.CaptureFixture[str],
) -> None:
    (function,) = deployed("3f2a91c", "AWS::Lambda::Function").values()
    dimensions = function["Environment"]["Variables"]["TRUEMEM_DIMENSIONS"]
    records = [record(number, 30 + number) for number in range(1, 131)]
    records[-1].join(OUT_OF_MEMORY)
    lines = printed(capfd, records, {b"TRUEMEM_DIMENSIONS": dimensions.encode()})

    looked_at = of_alarms(alarms("3f2a91c"))
    assert looked_at <= made_by(lines)
    assert {name for _, name, _ in looked_at} == {"MemoryGrowing", "OutOfMemory"}
    assert looked_at.isdisjoint(of_alarms(alarms("b8e07d4")))  # the version before does not hide it
    group = translated("3f2a91c")["Resources"]["FunctionDeploymentGroup"]["Properties"]
    assert [each["Name"] for each in group["AlarmConfiguration"]["Alarms"]] == [
        {"Ref": "Growing"},
        {"Ref": "OutOfMemory"},
    ]
    assert "DEPLOYMENT_STOP_ON_ALARM" in group["AutoRollbackConfiguration"]["Events"]


MINUTES = 28
"""Of the canary's 30: lines, metric and alarm each come a little later."""


def goes_back(kind: str, per_minute: int) -> list[bool]:
    """Does the alarm on growth go off in time? Each time one environment serves the tenth of the traffic."""
    group = translated("3f2a91c")["Resources"]["FunctionDeploymentGroup"]["Properties"]
    assert "Canary10Percent30Minutes" in str(group["DeploymentConfigName"])
    alarm = deployed("3f2a91c", "AWS::CloudWatch::Alarm")["Growing"]
    return [goes_off(alarm, [told_of(kind, seed, MINUTES * per_minute)], per_minute) for seed in range(10)]


@pytest.mark.parametrize(("per_minute", "kind"), [(10, "1024 KiB"), (45, "64 KiB"), (45, "8 KiB"), (45, "4 KiB")])
def test_with_enough_traffic_a_leak_goes_back_in_time(per_minute: int, kind: str) -> None:
    assert all(goes_back(kind, per_minute))


@pytest.mark.parametrize("per_minute", [10, 45])
@pytest.mark.parametrize("kind", ["steady", "settling", "sawtooth", "model swap", "one step"])
def test_a_release_that_only_warms_up_stays(kind: str, per_minute: int) -> None:
    assert not any(goes_back(kind, per_minute))


@pytest.mark.nightly
@pytest.mark.parametrize(("leak_kib", "leaks"), [("0", False), ("1024", True)])
def test_under_the_local_lambda_only_a_leak_is_growth(leak_kib: str, leaks: bool) -> None:
    function = application.load(TEMPLATE)["Resources"]["Function"]["Properties"]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # the local Lambda's processes are another user's
        source = Path(folder) / "index.py"
        source.write_text(function["InlineCode"])
        variables = {"LEAK_KIB": leak_kib, "TRUEMEM_DIMENSIONS": "Release=3f2a91c"}
        with Environment(source, environment=variables, exact=True, memory_mib=function["MemorySize"]) as environment:
            for _ in range(144):
                assert environment.attempt().function_error is None
            records = environment.records()

    assert sum(record.MemoryDrift is not None for record in records) >= 8  # at 32, 48, ... 144 invocations
    assert any(record.MemoryGrowing for record in records) is leaks
    assert {record.Release for record in records} == {"3f2a91c"}
