"""The template: valid, within CloudFormation's limits, and about metrics and members that lines have."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from truemem_workbench.dashboard.template import (
    DRAWN_BY_QUERY,
    FUNCTION_NAME,
    LOG_GROUP,
    MOST_FUNCTIONS,
    PARAMETERS,
    Watched,
    arranged,
    content_of,
    look_up,
    template,
    watched,
)
from truemem_workbench.support.bad_input import BadInput

from deploy import application
from tests.attach.captured import stored
from tests.attach.insights import run
from tests.attach.pages import cfn_lint
from tests.dashboard.metrics import made_by, of_alarms, of_dashboard
from tests.records import OUT_OF_MEMORY, printed, record

REGION = "eu-central-1"
ORDERS = Watched("orders", 512, "/aws/lambda/orders")
TWO = [ORDERS, Watched("payments-api", 1024, "/team/payments", "Team/Memory")]
ID = re.compile("[A-Za-z0-9]{1,255}")

functions = st.lists(
    st.builds(
        Watched,
        st.from_regex(FUNCTION_NAME, fullmatch=True),
        st.integers(128, 32_768),
        st.from_regex(LOG_GROUP, fullmatch=True),
        st.sampled_from(["truemem", "Team/Memory"]),
    ),
    min_size=1,
    max_size=MOST_FUNCTIONS,
    unique_by=lambda function: function.name,
)


def document(functions: list[Watched], **settings: str) -> dict[str, Any]:
    return template(functions, REGION, settings)


def body(document: dict[str, Any]) -> str:
    text: str = document["Resources"]["Dashboard"]["Properties"]["DashboardBody"]
    return text


def names(count: int) -> list[Watched]:
    return [Watched(f"function-{number:03}", 512, f"/aws/lambda/{number:03}") for number in range(count)]


@settings(max_examples=50)
@given(functions)
def test_any_functions_make_a_template_within_the_limits(functions: list[Watched]) -> None:
    resources = document(functions)["Resources"]
    assert len(resources) == 1 + 3 * len(functions) <= 500
    assert all(ID.fullmatch(name) for name in resources)

    shown = json.loads(body(document(functions)))["widgets"]
    assert len(shown) <= 500
    assert sum(len(each["properties"].get("metrics", ())) for each in shown) <= 2500
    assert max(len(each["properties"].get("metrics", ())) for each in shown) <= 500
    assert max(each["properties"].get("query", "").count("SOURCE '") for each in shown) <= 50
    squares = [
        (each["x"] + right, each["y"] + down)
        for each in shown
        for right in range(each["width"])
        for down in range(each["height"])
    ]
    assert max(Counter(squares).values()) == 1  # no widget covers another
    assert max(x for x, _ in squares) < 24


@pytest.mark.parametrize(
    ("functions", "given"),
    [(TWO, {"AlarmTopic": "arn:aws:sns:eu-central-1:1:alarms"}), (names(20), {})],
    ids=["two", "many"],
)
def test_cfn_lint_and_the_translator_take_it(functions: list[Watched], given: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "template.json"
    path.write_text(json.dumps(document(functions, **given)))
    assert cfn_lint(path, "--include-checks", "I") == ""
    assert application.translated(document(functions))["Resources"] == document(functions)["Resources"]


@pytest.mark.parametrize("answer", [{"FunctionName": "a'b"}, {"MemorySize": "1"}, {"LoggingConfig": {"LogGroup": "'"}}])
def test_what_lambda_would_never_answer_gets_into_no_template(answer: dict[str, Any]) -> None:
    with pytest.raises(KeyError):
        watched({"FunctionName": "orders", "MemorySize": 512, **answer})


def test_function_with_unreadable_variables_is_refused() -> None:
    with pytest.raises(BadInput, match="kms:Decrypt"):
        watched({"FunctionName": "orders", "MemorySize": 512, "Environment": {"Error": {"ErrorCode": "AccessDenied"}}})


def test_functions_of_two_regions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", REGION)

    def configuration_of(arn: str, _: object) -> dict[str, Any]:
        return {"FunctionName": arn.rpartition(":")[2], "FunctionArn": arn, "MemorySize": 128}

    monkeypatch.setattr("truemem_workbench.dashboard.template.configuration_of", configuration_of)
    arns = [f"arn:aws:lambda:{region}:123456789012:function:orders" for region in ("eu-west-1", "eu-central-1")]
    with pytest.raises(BadInput, match=r"^functions of 2 regions \(eu-central-1, eu-west-1\)\. Try one run for each"):
        look_up(arns, lambda _: None)


# --- metrics and queries ----------------------------------------------------------------------------------------------


@pytest.fixture(params=[{}, {b"TRUEMEM_DIMENSIONS": b"Stage=prod,Team=ml"}], ids=["", "dimensions"])
def lines(request: pytest.FixtureRequest, capfd: pytest.CaptureFixture[str]) -> list[str]:
    """What the sidecar prints of an environment of `orders` that leaks, and then runs out of memory."""
    records = [record(number, 30 + number) for number in range(1, 131)]
    records[-1].join(OUT_OF_MEMORY)
    return printed(capfd, records, request.param)


def test_alarms_and_graphs_look_at_metrics_that_a_line_makes(lines: list[str]) -> None:
    one = document([ORDERS])
    alarms, graphs = of_alarms(one["Resources"]), of_dashboard(body(one))
    own = {metric for metric in graphs if metric[0] != "AWS/Lambda"}

    assert alarms | own <= made_by(lines)
    assert {name for _, name, _ in alarms} == {"OutOfMemory", "PeakRSS", "MemoryGrowing"}
    assert {name for _, name, _ in own} == {"OutOfMemory", "PeakRSS", "CurrentRSS", "MaxMemoryUsed", "MemoryGrowing"}
    assert {name for _, name, _ in graphs - own} == {"Duration"}


def test_a_function_has_the_namespace_that_it_writes_to() -> None:
    resources = document(TWO)["Resources"]
    found = of_alarms(resources) | of_dashboard(resources["Dashboard"]["Properties"]["DashboardBody"])
    by_function = {(namespace, value) for namespace, _, dimensions in found for _, value in dimensions}
    ours = {each for each in by_function if each[0] != "AWS/Lambda"}
    assert ours == {("truemem", "orders"), ("Team/Memory", "payments-api")}


def queries(functions: list[Watched]) -> dict[str, str]:
    shown = json.loads(body(document(functions)))["widgets"]
    return {each["properties"]["title"]: each["properties"]["query"] for each in shown if each["type"] == "log"}


@pytest.mark.parametrize("title", queries([Watched("function", 512, "/a")]))
def test_each_query_has_an_answer_in_lines_of_real_runs(title: str) -> None:
    """The local Lambda's function is called `function`."""
    query = queries([Watched("function", 512, "/a")])[title]
    source, _, rest = query.partition(" | ")
    assert source == "SOURCE '/a'"
    rows = run(rest, [event for log in stored().values() for event in log])
    assert rows
    assert any(None not in row.values() for row in rows)  # no column that is always empty


def test_only_few_functions_have_graphs_by_query() -> None:
    few, many = names(DRAWN_BY_QUERY), names(DRAWN_BY_QUERY + 1)
    assert len(queries(few)) == 2 + len(few)
    assert len(queries(many)) == 2


# --- settings ---------------------------------------------------------------------------------------------------------


def test_thresholds_are_parameters_and_each_one_is_used() -> None:
    one = document([ORDERS], PeakPercent="80")
    assert one["Parameters"]["PeakPercent"]["Default"] == 80
    text = json.dumps(one["Resources"] | one["Conditions"])
    assert all(f'{{"Ref": "{name}"}}' in text for name in PARAMETERS)


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("PeakPercent", "101", "1 to 100"),
        ("OutOfMemoryCount", "x", "1 or more"),
        ("GrowingPeriods", "0", "1 to 4"),
        ("GrowingPeriods", "9" * 5000, "1 to 4"),
    ],
)
def test_threshold_that_cloudwatch_refuses_is_refused(name: str, value: str, wanted: str) -> None:
    with pytest.raises(BadInput, match=rf"has to be {wanted}\. Try --set {name}="):
        document([ORDERS], **{name: value})


# --- more functions than one template has room for --------------------------------------------------------------------


@given(st.lists(st.integers(0, 900), unique=True), st.lists(st.integers(0, 900), unique=True))
def test_each_function_is_in_one_template_and_stays_there(before: list[int], now: list[int]) -> None:
    assert MOST_FUNCTIONS == 166
    held = [[function.name for function in part] for part in arranged([names(901)[number] for number in before])]
    functions = [names(901)[number] for number in now]
    parts = arranged(functions, held)
    assert sorted(function for part in parts for function in part) == sorted(functions)
    assert max(map(len, parts), default=0) <= MOST_FUNCTIONS
    place = {function.name: number for number, part in enumerate(parts) for function in part}
    assert all(place.get(name, number) == number for number, part in enumerate(held) for name in part)


@pytest.mark.nightly
def test_cfn_lint_takes_each_of_several_templates(tmp_path: Path) -> None:
    parts = arranged(names(MOST_FUNCTIONS + 1))
    for number, part in enumerate(parts, 1):
        made = template(part, REGION, {}, number)
        assert len(made["Resources"]) <= 500
        assert content_of(made) == ([function.name for function in part], number)
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps(made))
        assert cfn_lint(path) == ""
    assert [len(part) for part in parts] == [MOST_FUNCTIONS, 1]
