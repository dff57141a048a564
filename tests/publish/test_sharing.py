"""`truemem publish --organization` and `--public`: access is given after a question, and never taken or widened."""

import json
from typing import Any

import boto3
import pytest
from truemem_workbench.aws.rollout import Share, covers

from tests.publish.conftest import Build
from tests.publish.gate import Gate, refusal
from tests.publish.test_publish import both, outcomes, refuse, rows
from tests.report.conftest import Command

ORGANIZATION = "o-a1b2c3d4e5"
MINE = Share(ORGANIZATION)
EVERYONE = Share(None)


def statements(version: int = 1) -> list[dict[str, Any]]:
    """The policy of a layer version in us-east-1, without ids and ARNs."""
    client = boto3.client("lambda", region_name="us-east-1")
    try:
        found = client.get_layer_version_policy(LayerName="truemem-arm64", VersionNumber=version)
    except client.exceptions.ResourceNotFoundException:
        return []
    members = ("Effect", "Principal", "Action", "Condition")
    return [{name: each[name] for name in members if name in each} for each in json.loads(found["Policy"])["Statement"]]


@pytest.mark.parametrize(("options", "share"), [(["--organization", ORGANIZATION], MINE), (["--public"], EVERYONE)])
def test_the_statement_is_shown_and_then_given(truemem: Command, gate: Gate, options: list[str], share: Share) -> None:
    done = truemem("publish", *options, "--json", stdin="y\n")
    assert done.code == 0
    assert json.dumps(share.statement, indent=2) in done.err
    assert statements() == [share.statement]
    assert {row["access"] for row in rows(done)} == {share.organization or "public"}


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [("n\n", 1, "nothing was published, and no access was given\n"), ("", 2, "it cannot ask here. Try --yes\n")],
)
def test_before_the_answer_nothing_is_changed(truemem: Command, gate: Gate, answer: str, code: int, said: str) -> None:
    done = truemem("publish", "--public", stdin=answer)
    assert (done.code, done.out) == (code, "")
    assert done.err.endswith(said)
    assert not gate.changes


def test_present_layer_gets_access_without_a_new_version(truemem: Command, gate: Gate) -> None:
    truemem("publish")
    done = truemem("publish", "--organization", ORGANIZATION, "--yes", "--json")
    assert outcomes(done) == {"us-east-1": ["present", "present"]}
    assert statements() == [MINE.statement]


@pytest.mark.parametrize("asked", [["--public"], ["--organization", ORGANIZATION]])
def test_access_that_is_there_already_is_not_asked_for_again(truemem: Command, gate: Gate, asked: list[str]) -> None:
    truemem("publish", "--public", "--yes")
    gate.passed.clear()
    assert truemem("publish", *asked).code == 0
    assert not gate.changes
    assert statements() == [EVERYONE.statement]


def test_new_version_does_not_inherit_access(truemem: Command, gate: Gate, build: Build) -> None:
    truemem("publish", "--public", "--yes")
    build("the second sidecar")
    truemem("publish")
    assert statements(version=2) == []


def test_version_that_was_not_shared_is_named(truemem: Command, gate: Gate) -> None:
    refuse(gate, "us-east-1", refusal("AccessDeniedException"), "/policy")
    done = truemem("publish", "--public", "--yes", "--json")
    assert done.code == 1
    assert [(row["arn"], row["outcome"]) for row in rows(done)] == [(arn, "failed") for arn in both("us-east-1")]
    assert all("lambda:AddLayerVersionPermission" in row["problem"] for row in rows(done))


def policy(**members: Any) -> str:
    """As Lambda's documentation shows one."""
    statement = {"Sid": "x", "Effect": "Allow", "Principal": "*", "Action": "lambda:GetLayerVersion", **members}
    return json.dumps({"Version": "2012-10-17", "Id": "default", "Statement": [statement]})


ONLY_MINE = {"StringEquals": {"aws:PrincipalOrgID": ORGANIZATION}}
NARROWER = {"StringEquals": {"aws:PrincipalOrgID": ORGANIZATION, "aws:PrincipalTag/team": "ml"}}


@pytest.mark.parametrize(
    ("there", "for_mine", "for_everyone"),
    [
        (policy(), True, True),
        (policy(Principal={"AWS": "*"}), True, True),
        (policy(Action=["lambda:GetLayerVersion"]), True, True),
        (policy(Condition=ONLY_MINE), True, False),
        (policy(Condition=NARROWER), False, False),
        (policy(Condition={"StringEquals": {"aws:PrincipalOrgID": "o-another123"}}), False, False),
        (policy(Condition={"StringNotEquals": {"aws:PrincipalOrgID": ORGANIZATION}}), False, False),
        (policy(Principal={"AWS": "arn:aws:iam::111122223333:root"}), False, False),
        (policy(Effect="Deny"), False, False),
        (policy(Action="lambda:DeleteLayerVersion"), False, False),
        (json.dumps({"Statement": []}), False, False),
    ],
)
def test_access_counts_only_if_the_policy_gives_all_of_it(there: str, for_mine: bool, for_everyone: bool) -> None:
    assert (covers(there, MINE), covers(there, EVERYONE)) == (for_mine, for_everyone)
