"""`truemem dashboard` against moto's Lambda, CloudFormation and CloudWatch."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.dashboard.deployment import INLINE_BYTES

from tests.dashboard.conftest import Account
from tests.report.conftest import Ran, put_function

pytestmark = pytest.mark.filterwarnings("ignore:Tried to parse", "ignore:Unable to delete")  # moto has no alarms here

Dashboard = Callable[..., Ran]
ARN = "arn:aws:lambda:us-east-1:123456789012:function:orders"


def stack(account: Account, name: str = "truemem-dashboard") -> dict[str, Any]:
    (found,) = account("cloudformation").describe_stacks(StackName=name)["Stacks"]
    made: dict[str, Any] = found
    return made


def parameters(account: Account) -> dict[str, str]:
    return {each["ParameterKey"]: each["ParameterValue"] for each in stack(account)["Parameters"]}


def shown(account: Account) -> list[str]:
    """Titles of the dashboard that is there."""
    body = account("cloudwatch").get_dashboard(DashboardName="truemem-dashboard-us-east-1")["DashboardBody"]
    return [each["properties"].get("title", "") for each in json.loads(body)["widgets"]]


def test_template_has_each_functions_size_and_log_group(dashboard: Dashboard) -> None:
    document = dashboard("payments-api", ARN, "orders").document  # the same function twice
    assert document["Metadata"]["truemem"]["functions"] == ["payments-api", "orders"]
    text = json.dumps(document)
    for expected in ("100*peak/512", "100*peak/1024", "SOURCE '/aws/lambda/orders'", "Pay/Memory"):
        assert expected in text


def test_deployed_it_is_a_stack_with_a_dashboard_and_its_address(dashboard: Dashboard, account: Account) -> None:
    ran = dashboard("orders", "--deploy")
    home = "https://us-east-1.console.aws.amazon.com/cloudwatch/home?region=us-east-1"
    assert ran.out == f"{home}#dashboards/dashboard/truemem-dashboard-us-east-1\n"
    assert stack(account)["StackStatus"] == "CREATE_COMPLETE"
    assert "orders: memory and its limit (MiB), duration (ms)" in shown(account)
    told = dashboard("orders", "--deploy", "--json").document
    assert told == {"stack": "truemem-dashboard", "dashboard": ran.out.strip(), "functions": ["orders"]}


def test_an_update_adds_functions_and_keeps_the_parameters(dashboard: Dashboard, account: Account) -> None:
    dashboard("orders", "--deploy", "--set", "PeakPercent=80", "--topic", "arn:aws:sns:us-east-1:1:alarms")
    dashboard("orders", "payments-api", "--deploy", "--set", "GrowingPeriods=3")

    assert parameters(account)["AlarmTopic"] == "arn:aws:sns:us-east-1:1:alarms"
    assert (parameters(account)["PeakPercent"], parameters(account)["GrowingPeriods"]) == ("80", "3")
    assert any(title.startswith("payments-api: ") for title in shown(account))


def test_unnamed_function_is_removed_only_on_request(dashboard: Dashboard, account: Account) -> None:
    dashboard("orders", "payments-api", "--deploy")

    refusal = dashboard("orders", "--deploy").refusal
    assert "stack truemem-dashboard watches payments-api as well. Name them too, or" in refusal
    assert any(title.startswith("payments-api: ") for title in shown(account))
    assert dashboard("orders", "--deploy", "--replace").code == 0
    assert not any(title.startswith("payments-api: ") for title in shown(account))


def test_a_stack_of_something_else_is_left_alone(dashboard: Dashboard, account: Account) -> None:
    topic = {"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}
    account("cloudformation").create_stack(StackName="shop", TemplateBody=json.dumps(topic))

    refusal = dashboard("orders", "--deploy", "--stack-name", "shop").refusal
    assert "stack shop was not made by truemem dashboard. Try --stack-name shop-memory" in refusal
    assert account("cloudformation").get_template(StackName="shop")["TemplateBody"] == topic


def test_a_large_template_goes_through_a_bucket(
    dashboard: Dashboard, account: Account, aws_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of an address that is not AWS's, moto takes the host's first part for the bucket, unless it is localhost.
    monkeypatch.setenv("AWS_ENDPOINT_URL", aws_endpoint.replace("127.0.0.1", "localhost"))
    functions = [put_function(account, f"function-{number:02}") for number in range(20)]
    account("s3").create_bucket(Bucket="templates")

    refusal = dashboard(*functions, "--deploy").refusal
    assert f"and without a bucket CloudFormation takes {INLINE_BYTES:,}. Try --bucket NAME, or fewer" in refusal
    assert dashboard(*functions, "--deploy", "--bucket", "templates").code == 0
    assert len(account("s3").list_objects_v2(Bucket="templates")["Contents"]) == 1
    assert sum(title.startswith("function-") for title in shown(account)) == 20


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A template has room for two functions."""
    monkeypatch.setattr("truemem_workbench.dashboard.template.MOST_FUNCTIONS", 2)


def watches(account: Account, name: str) -> list[str]:
    body = account("cloudformation").get_template(StackName=name)["TemplateBody"]
    functions: list[str] = body["Metadata"]["truemem"]["functions"]
    return functions


def test_functions_are_chosen_as_attach_chooses_them(dashboard: Dashboard, account: Account) -> None:
    put_function(account, "pay-out")
    ran = dashboard("--match", "pay*")
    assert json.loads(ran.out)["Metadata"]["truemem"]["functions"] == ["pay-out", "payments-api"]
    assert "Try truemem attach --match 'pay*'" in ran.err
    assert "no function in this region and account has --match x*" in dashboard("--match", "x*").refusal
    assert "no function is named" in dashboard().refusal
    assert "Leave one out" in dashboard("orders", "--match", "pay*").refusal


@pytest.mark.usefixtures("narrow")
def test_more_functions_get_several_stacks(dashboard: Dashboard, account: Account) -> None:
    for name in ("a", "b", "c"):
        put_function(account, name)
    ran = dashboard("--match", "*", "--deploy", "--json")
    made = [json.loads(line) for line in ran.out.splitlines()]
    assert [(each["stack"], each["functions"]) for each in made] == [
        ("truemem-dashboard", ["a", "b"]),
        ("truemem-dashboard-2", ["c", "orders"]),
        ("truemem-dashboard-3", ["payments-api"]),
    ]
    assert made[1]["dashboard"].endswith("#dashboards/dashboard/truemem-dashboard-2-us-east-1")
    put_function(account, "aa")  # the first by its name, and none of the others moves
    account("lambda").delete_function(FunctionName="payments-api")
    assert "watches payments-api as well" in dashboard("--match", "*", "--deploy").refusal
    assert dashboard("--match", "*", "--deploy", "--replace").code == 0
    assert watches(account, "truemem-dashboard") == ["a", "b"]
    assert watches(account, "truemem-dashboard-3") == ["aa"]


@pytest.mark.usefixtures("narrow")
def test_a_stack_without_functions_is_left_and_named(dashboard: Dashboard, account: Account) -> None:
    put_function(account, "a")
    assert dashboard("--match", "*", "--deploy").code == 0
    ran = dashboard("a", "--deploy", "--replace")
    assert "truemem-dashboard-2 is not needed. Try aws cloudformation delete-stack --stack-name" in ran.err
    assert watches(account, "truemem-dashboard") == ["a"]


@pytest.mark.usefixtures("narrow")
def test_only_its_own_later_stacks_are_looked_at(dashboard: Dashboard, account: Account) -> None:
    dashboard("payments-api", "--deploy", "--stack-name", "truemem-dashboard-2")
    assert dashboard("orders", "--deploy").code == 0
    put_function(account, "a")
    refusal = dashboard("--match", "*", "--deploy").refusal
    assert "stack truemem-dashboard-2 was not made by truemem dashboard" in refusal
    assert watches(account, "truemem-dashboard-2") == ["payments-api"]


@pytest.mark.usefixtures("narrow")
def test_several_templates_are_files_with_their_commands(
    dashboard: Dashboard, account: Account, tmp_path: Path
) -> None:
    put_function(account, "a")
    assert (
        "3 functions need 2 templates, and standard output takes one. Try --output" in dashboard("--match", "*").refusal
    )
    ran = dashboard("--match", "*", "--output", tmp_path / "memory.json")
    assert ran.out.splitlines() == [
        f"aws cloudformation deploy --stack-name truemem-dashboard --template-file {tmp_path}/memory.json",
        f"aws cloudformation deploy --stack-name truemem-dashboard-2 --template-file {tmp_path}/memory-2.json",
    ]
    assert json.loads((tmp_path / "memory-2.json").read_text())["Metadata"]["truemem"]["functions"] == ["payments-api"]


def test_a_function_without_the_layer_is_named(dashboard: Dashboard, account: Account) -> None:
    layer = account("lambda").publish_layer_version(LayerName="truemem-x86_64", Content={"ZipFile": b"PK"})
    account("lambda").update_function_configuration(FunctionName="orders", Layers=[layer["LayerVersionArn"]])

    ran = dashboard("orders", "payments-api")
    assert ran.code == 0
    assert ran.err.startswith("truemem dashboard: payments-api: no layer of truemem, so the graphs stay empty. ")
    assert ran.err.endswith(". Try truemem attach payments-api\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["gone"], "there is no function gone in this region and account"),
        (["orders", "--set", "Peak=80"], "--set Peak=80 is not NAME=VALUE with one of OutOfMemoryCount, PeakPercent"),
        (["orders", "--set", "AlarmTopic=x"], "--set AlarmTopic=x is not NAME=VALUE"),
        (["orders", "--topic", "alarms"], "--topic alarms is not the ARN of an SNS topic. Try arn:aws:sns:"),
        (["orders", "--stack-name", "x"], "are for --deploy. Try --deploy as well"),
        (["orders", "--output", "x.txt"], "its ending is not .json. Try --output x.json"),
        (["orders", "--output", "/nonexistent/x.json"], "cannot write /nonexistent/x.json: No such file"),
    ],
)
def test_what_cannot_be_done_is_one_line(dashboard: Dashboard, arguments: list[str], said: str) -> None:
    assert said in dashboard(*arguments).refusal
