"""The Function URL on the port of the Invoke API, called as HTTP clients call it."""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.session
import pytest
import requests
from truemem_workbench.local import Answer, Scaling, Settings

from tests.local.conftest import FUNCTIONS, Local, Start, function_at, in_background, until

URL, HANGING = FUNCTIONS / "url.py", FUNCTIONS / "init_hangs.py"


@pytest.fixture(scope="module")
def local() -> Iterator[Local]:
    with Local(function_at(URL), Settings(timeout_s=2)) as running:
        yield running


def call(local: Local, method: str, path: str, **options: Any) -> requests.Response:
    return requests.request(method, local.endpoint + path, timeout=30, **options)


def test_function_gets_the_request(local: Local) -> None:
    answer = call(
        local,
        "POST",
        "/a%2Fb?x=1&x=2",
        json={"name": "λ"},
        headers={"X-Mine": "yes"},
        cookies={"session": "abc"},
    )
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/json")
    event = answer.json()
    assert (event["rawPath"], event["rawQueryString"]) == ("/a%2Fb", "x=1&x=2")
    assert (event["headers"]["x-mine"], event["cookies"]) == ("yes", ["session=abc"])
    assert (event["body"], event["isBase64Encoded"]) == ('{"name": "\\u03bb"}', False)
    context = event["requestContext"]
    assert (context["http"]["path"], context["http"]["sourceIp"]) == ("/a/b", "127.0.0.1")
    assert local.endpoint == f"http://{context['domainName']}"
    assert context["requestId"] == answer.headers["x-amzn-RequestId"]
    assert answer.headers["X-Amzn-Trace-Id"].startswith(event["headers"]["x-amzn-trace-id"])


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_every_method_is_an_invocation(local: Local, method: str) -> None:
    assert call(local, method, "/").json()["requestContext"]["http"]["method"] == method


def test_response_is_as_the_function_says(local: Local) -> None:
    assert call(local, "GET", "/status?code=418").status_code == 418
    assert call(local, "GET", "/status?code=204").content == b""
    assert call(local, "GET", "/string").text == "hello"
    assert call(local, "GET", "/binary").content == bytes(range(256))
    head = call(local, "HEAD", "/binary")
    assert (head.headers["Content-Length"], head.content) == ("256", b"")
    cookies = call(local, "GET", "/cookies")
    assert cookies.cookies.get_dict() == {"a": "1", "b": "2"}
    assert cookies.raw.headers.getlist("set-cookie") == ["a=1", "b=2; Path=/"]


def test_compressed_body_stays_compressed(local: Local) -> None:
    body, headers = gzip.compress(b"much"), {"Content-Encoding": "gzip", "Content-Type": "text/plain"}
    assert call(local, "POST", "/gzip", data=body, headers=headers).text == "much"


@pytest.mark.parametrize("path", ["/fail", "/sleep", "/large", "/bad"])
def test_function_error_is_a_502(local: Local, path: str) -> None:
    answer = call(local, "GET", path)
    assert (answer.status_code, answer.text) == (502, "Internal Server Error")
    assert call(local, "GET", "/string").text == "hello"


@pytest.mark.parametrize(("size", "content_type"), [(6 << 20, "text/plain"), (5 << 20, "image/png")])
def test_event_has_at_most_6_mb(local: Local, size: int, content_type: str) -> None:
    answer = call(local, "POST", "/", data=b"x" * size, headers={"Content-Type": content_type})
    assert (answer.status_code, answer.headers["x-amzn-ErrorType"]) == (413, "RequestTooLargeException")


def test_lambdas_own_api_is_no_function_url(local: Local) -> None:
    """Whatever boto3 may ask of a function is not an event for it."""
    model = botocore.session.get_session().get_service_model("lambda")
    before = len(local.reports)
    asked = 0
    for name in model.operation_names:
        http = model.operation_model(name).http
        path = re.sub(r"\{\w+\}", "url", http["requestUri"].partition("?")[0])
        if path.split("/")[2] == "functions" and name != "Invoke":
            assert call(local, http["method"], path).status_code in (404, 405), name
            asked += 1
    assert asked > 40
    assert len(local.reports) == before


def test_each_request_over_http_is_measured() -> None:
    answers: list[Answer] = []
    with Local(function_at(URL), Settings(), on_answer=answers.append) as local:
        for path in ("/string", "/fail", "/status?code=404", "/bad"):
            call(local, "GET", path)
        for kind in ("RequestResponse", "DryRun", "Event"):
            assert local.post(data='{"rawPath": "/fail"}', X_Amz_Invocation_Type=kind).ok
        local.post(data="{")
        call(local, "GET", "/2015-03-31/functions/url")
        environment = local.environment_id
    raised = "ValueError: boom (url.py:12)"
    assert [answer.error for answer in answers] == ["", raised, "HTTP 404", "HTTP 502", raised]
    assert {answer.environment for answer in answers} == {environment}
    assert answers[0].payload == b'"hello"'
    assert all(answer.begun_s < answer.ended_s for answer in answers)


@pytest.mark.parametrize(("app", "event", "abort"), [(URL, "start", True), (HANGING, "initStart", False)])
def test_request_that_a_stop_ends_is_no_failure(app: Path, event: str, abort: bool) -> None:
    answers: list[Answer] = []
    with Local(function_at(app), Settings(), scaling=Scaling(), on_answer=answers.append) as local:
        calling = in_background(lambda: call(local, "GET", "/sleep").status_code)
        until(lambda: local.of_type(event))
        local.stop(abort=abort)
        assert calling.result() in (500, 502)
    assert answers == []


def test_throttled_request_is_a_429() -> None:
    answers: list[Answer] = []
    scaling = Scaling(reserved_concurrency=0)
    with Local(function_at(URL), Settings(), scaling=scaling, on_answer=answers.append) as local:
        for answer in (call(local, "GET", "/"), local.post(data="{}")):
            assert (answer.status_code, answer.headers["x-amzn-ErrorType"]) == (429, "TooManyRequestsException")
            assert answer.json()["Reason"] == "ReservedFunctionConcurrentInvocationLimitExceeded"
    assert [(answer.error, answer.environment) for answer in answers] == [("throttled", "")] * 2


def test_managed_instances_have_a_function_url(start: Start) -> None:
    local = start(URL, managed_instances=2, memory_mib=2048)
    assert call(local, "GET", "/string").text == "hello"
    assert call(local, "GET", "/fail").status_code == 502
