"""`truemem publish` in an account of moto's server: what is published where, and what it prints."""

import json
from typing import Any

import boto3
import pytest
import yaml

from tests.publish.conftest import Build
from tests.publish.gate import Answer, Call, Gate, refusal, regions
from tests.report.conftest import Command, put_function

DENIAL = refusal("AccessDeniedException", "User: x is not authorized to perform: lambda:ListFunctions")
BY_ORGANIZATION = refusal("AccessDeniedException", "denied with an explicit deny in a service control policy")
NOT_ENABLED = refusal("UnrecognizedClientException", "The security token included in the request is invalid.")


def arn(region: str, architecture: str, version: int = 1) -> str:
    return f"arn:aws:lambda:{region}:123456789012:layer:truemem-{architecture}:{version}"


def both(region: str, version: int = 1) -> list[str]:
    return [arn(region, "x86_64", version), arn(region, "arm64", version)]


def rows(ran: Any) -> list[dict[str, str]]:
    return [json.loads(line) for line in ran.out.splitlines()]


def arns(ran: Any) -> list[str]:
    return [row["arn"] for row in rows(ran) if "arn" in row]


def outcomes(ran: Any) -> dict[str, list[str]]:
    """By region: x86_64, then arm64."""
    found: dict[str, list[str]] = {}
    for row in rows(ran):
        found.setdefault(row["region"], []).append(row["outcome"])
    return found


def in_region(name: str) -> Any:
    """Makes clients of a region."""
    return lambda service: boto3.client(service, region_name=name)


def refuse(gate: Gate, region: str, answer: Answer, part: str = "") -> None:
    """From now on, in this region, for addresses with this part."""
    before = gate.answer

    def own(call: Call) -> Answer | None:
        matches = call.service == "lambda" and call.region == region and part in call.path
        return answer if matches else before(call)

    gate.answer = own


def enabled(gate: Gate, *names: str) -> None:
    """The regions that are enabled for the account."""
    gate.answer = lambda call: regions(*names) if call.service == "ec2" else None


# --- what is published ------------------------------------------------------------------------------------------------


def test_what_is_there_already_is_not_published_again(truemem: Command, gate: Gate, build: Build) -> None:
    truemem("publish")
    made = in_region("us-east-1")("lambda").get_layer_version(LayerName="truemem-arm64", VersionNumber=1)
    assert made["CompatibleArchitectures"] == ["arm64"]
    gate.passed.clear()
    again = truemem("publish", "--json")
    assert (again.code, arns(again)) == (0, both("us-east-1"))
    assert outcomes(again) == {"us-east-1": ["present", "present"]}
    assert not gate.changes

    build("the second sidecar")
    assert arns(truemem("publish", "--json")) == both("us-east-1", version=2)
    build("the first sidecar")
    assert arns(truemem("publish", "--json")) == both("us-east-1", version=1)


def test_it_is_published_to_each_region_that_is_named(truemem: Command, gate: Gate) -> None:
    truemem("publish", "--regions", "eu-west-1")
    done = truemem("publish", "--regions", "us-east-1, eu-west-1,us-east-1", "--json")
    assert outcomes(done) == {"us-east-1": ["published"] * 2, "eu-west-1": ["present"] * 2}
    assert arns(done) == [*both("us-east-1"), *both("eu-west-1")]


def test_all_are_the_enabled_regions_with_a_function(truemem: Command, gate: Gate) -> None:
    """A region that the organization has closed has none."""
    enabled(gate, "eu-west-1", "eu-north-1", "us-west-2", "ca-west-1")
    for region in ("eu-west-1", "us-west-2", "sa-east-1"):
        put_function(in_region(region), f"mine-{region}")
    refuse(gate, "ca-west-1", BY_ORGANIZATION)
    done = truemem("publish", "--regions", "all", "--json")
    assert (done.code, arns(done)) == (0, [*both("eu-west-1"), *both("us-west-2")])


# --- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "answer", "said"),
    [
        ("", DENIAL, "access denied. The caller needs lambda:ListLayerVersions"),
        ("", NOT_ENABLED, "Check that the region is enabled for the account"),
        ("", Answer(200, b"<html>a proxy</html>"), "the answer is not from AWS"),
        (
            "arm64",
            refusal("CodeStorageExceededException", "Code storage limit exceeded."),
            "Code storage limit exceeded",
        ),
    ],
)
def test_a_region_that_fails_stops_no_other(truemem: Command, gate: Gate, part: str, answer: Answer, said: str) -> None:
    refuse(gate, "us-west-2", answer, part)
    done = truemem("publish", "--regions", "us-west-2,eu-west-1", "--json")
    assert done.code == 1
    assert set(both("eu-west-1")) <= set(arns(done))
    problems = {row["region"]: row["problem"] for row in rows(done) if row["outcome"] == "failed"}
    assert list(problems) == ["us-west-2"]
    assert said in problems["us-west-2"]


def test_without_access_to_any_region_there_is_no_table(truemem: Command, gate: Gate) -> None:
    refuse(gate, "us-east-1", DENIAL)
    assert "layer truemem-x86_64 in us-east-1: access denied" in truemem("publish").refusal


def test_an_account_without_functions_is_asked_for_a_region(truemem: Command, gate: Gate) -> None:
    enabled(gate, "eu-west-1")
    said = truemem("publish", "--regions", "all").refusal
    assert "no region of this account has a function. Try --regions eu-west-1" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--regions", "Ireland"], "'Ireland' is no region. Try --regions eu-west-1,us-east-1, or all"),
        (["--regions", "eu-west-1,"], "'' is no region"),
        (["--regions", "all,eu-west-1"], "'all' is no region"),
        (["--public", "--organization", "o-a1b2c3d4e5"], "Leave --public or --organization out"),
        (["--organization", "acme"], "Try the ID that aws organizations describe-organization prints"),
        (["--json", "--format", "cloudformation"], "Leave one out"),
    ],
)
def test_bad_input_is_refused_before_anything_is_asked(
    truemem: Command, gate: Gate, arguments: list[str], said: str
) -> None:
    assert said in truemem("publish", *arguments).refusal
    assert not gate.passed


# --- how it is printed ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", ["80", "200"])
def test_each_arn_can_be_copied_from_the_table(
    truemem: Command, gate: Gate, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    printed = truemem("publish", "--regions", "us-east-1,ap-southeast-1").out.split()
    assert {*both("us-east-1"), *both("ap-southeast-1")} <= {*printed}


def test_a_template_finds_the_arn_in_the_mapping(truemem: Command, gate: Gate) -> None:
    printed = truemem("publish", "--regions", "eu-west-1,us-east-1", "--format", "cloudformation").out
    wanted = {region: dict(zip(("x86", "arm64"), both(region), strict=True)) for region in ("eu-west-1", "us-east-1")}
    assert yaml.safe_load(printed) == {"Mappings": {"Truemem": wanted}}


def test_the_mapping_has_no_region_that_failed(truemem: Command, gate: Gate) -> None:
    refuse(gate, "us-west-2", DENIAL)
    done = truemem("publish", "--regions", "us-west-2,eu-west-1", "--format", "cloudformation")
    assert done.code == 1
    assert list(yaml.safe_load(done.out)["Mappings"]["Truemem"]) == ["eu-west-1"]
    assert "in us-west-2: access denied" in done.err
