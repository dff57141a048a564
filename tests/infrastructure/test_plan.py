"""What the CDK construct adds to a function: infrastructure/cdk/src/plan.ts, by Node.js alone."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.attach import tools
from tests.attach.test_snippets import or_skip
from tests.infrastructure.cdk import ARN, CDK, EXACT, VENDOR, started
from tests.scenarios.clients.installed import node

PLAIN = {"image": False, "runtime": "python3.13", "region": "eu-west-1", "layers": [], "variables": {}}
REFERENCE = {"Ref": "Layer"}


Planned = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Planned:
    """The plan for an ordinary function with these changes."""
    source, compiled = CDK / "src" / "plan.ts", tmp_path_factory.mktemp("plan") / "plan.js"
    compiler = [or_skip(node), Path(__file__).with_name("transpile.js"), or_skip(tools.typescript)]
    compiled.write_text(started(compiler, CDK, source.read_text()))
    program = "console.log(JSON.stringify(require(process.argv[1]).plan(...JSON.parse(process.argv[2]))))"

    def plan(
        *, arn: Any = ARN, exact: bool = False, settings: dict[str, str] | None = None, **changes: Any
    ) -> dict[str, Any]:
        given = json.dumps([{**PLAIN, **changes}, arn, exact, settings or {}])
        made: dict[str, Any] = json.loads(started([or_skip(node), "-e", program, compiled, given], CDK))
        return made

    return plan


def other(number: int) -> str:
    return f"arn:aws:lambda:eu-west-1:123456789012:layer:other-{number}:1"


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"image": True}, "a container image takes no layers"),
    ({"layers": [other(each) for each in range(5)]}, "it has 5 layers"),
    ({"layers": REFERENCE}, "known only at deployment"),
    ({"variables": {"Fn::If": ["Small", {}, {}]}}, "known only at deployment"),
    ({"region": "us-east-1"}, "the layer is in eu-west-1, the function in us-east-1"),
]
NOT_EXACT: list[tuple[dict[str, Any], str]] = [
    ({"runtime": "provided.al2023"}, "provided.al2023 ignores AWS_LAMBDA_EXEC_WRAPPER"),
    ({"runtime": REFERENCE}, "its runtime is known only at deployment"),
    ({"variables": {"AWS_LAMBDA_EXEC_WRAPPER": VENDOR, "TRUEMEM_EXEC_WRAPPER": "/opt/b"}}, "it has two wrappers"),
]


@pytest.mark.parametrize(
    ("changes", "member", "reason"),
    [
        *((changes, "refused", reason) for changes, reason in REFUSED),
        *(({"exact": True, **changes}, "notExact", reason) for changes, reason in NOT_EXACT),
    ],
)
def test_what_cannot_be_done_is_named(planned: Planned, changes: dict[str, Any], member: str, reason: str) -> None:
    plan = planned(**changes)
    assert reason in plan[member]
    assert plan.keys() & {"refused", "already", "notExact"} == {member}
    if member == "notExact":
        assert plan["variables"] == {}


@pytest.mark.parametrize(
    ("layers", "arn"),
    [
        ([other(1), ARN], ARN),
        ([ARN.replace(":1", ":7")], ARN),
        ([{"Fn::Sub": "arn:${AWS::Partition}:lambda:eu-west-1:1:layer:truemem-arm64:2"}], ARN),
        ([REFERENCE], REFERENCE),
    ],
)
def test_a_function_that_has_it_is_left_whatever_version_it_has(planned: Planned, layers: list[Any], arn: Any) -> None:
    assert planned(layers=layers, arn=arn)["already"] is True


@pytest.mark.parametrize(
    ("present", "added"),
    [
        ({"TABLE": "orders"}, EXACT),
        (EXACT, EXACT),
        ({"AWS_LAMBDA_EXEC_WRAPPER": VENDOR}, {**EXACT, "TRUEMEM_EXEC_WRAPPER": VENDOR}),
        ({"AWS_LAMBDA_EXEC_WRAPPER": REFERENCE}, {**EXACT, "TRUEMEM_EXEC_WRAPPER": REFERENCE}),
        ({"TRUEMEM_EXEC_WRAPPER": VENDOR}, EXACT),
    ],
)
def test_exact_mode_starts_another_wrapper_first(
    planned: Planned, present: dict[str, Any], added: dict[str, Any]
) -> None:
    assert planned(exact=True, variables=present)["variables"] == added


@pytest.mark.parametrize("name", ["aggregate", "TRUEMEM_AGGREGATE"])
def test_a_setting_is_a_variable(planned: Planned, name: str) -> None:
    assert planned(settings={name: "60"})["variables"] == {"TRUEMEM_AGGREGATE": "60"}
