"""The Function URL: the event of a request, the response for an answer, and both as HTTP clients see them."""

import base64
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import botocore.session
import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st
from truemem_workbench.local import Answer, Scaling, Settings
from truemem_workbench.local.apis.function_url import BROKEN, STREAMED_CONTENT, HttpRequest, HttpResponse, http_response
from truemem_workbench.local.lifecycle.invocation import Response

from tests.local.conftest import FUNCTIONS, Local, Start, function_at, in_background, until

JSON = {"content-type": "application/json"}
PLAIN_NAME = st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True)
PLAIN_VALUE = st.from_regex(r"[!-+\--:<-~]{0,12}", fullmatch=True)  # neither `,` nor `;`
JSON_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def event(**request: Any) -> dict[str, Any]:
    return HttpRequest(**{"method": "GET", "target": "/", **request}).event(
        "the-id", "Root=1-6a5145aa;Parent=1;Sampled=0"
    )


def answered(answer: object, content_type: str = "application/json") -> HttpResponse:
    payload = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    return http_response(Response(payload, None, content_type))


def test_event_is_the_one_that_the_service_recorded() -> None:
    """The request of a recording, and what is not of its machine."""
    body = '{"message":"hello from the public internet","unicode":"lambda-λ"}'
    query = "repeat=one&repeat=two&redirect=https%3A%2F%2Fexample.com%2Fa%2Fb&literalPlus=a+b&encodedPlus=a%2Bb&empty="
    assert event(
        method="POST",
        target=f"/capture/space%20value?{query}",
        headers=[
            ("Host", "127.0.0.1:9000"),
            ("User-Agent", "curl/8.7.1"),
            ("Content-Type", "application/json"),
            ("Cookie", "session=abc123; theme=dark"),
            ("X-Probe", "first"),
            ("X-Probe", "second"),
            ("Connection", "keep-alive"),
        ],
        body=body.encode(),
        source_ip="68.8.83.18",
        time_s=1783711146.671,
    ) == {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": "/capture/space%20value",
        "rawQueryString": query,
        "cookies": ["session=abc123", "theme=dark"],
        "headers": {
            "content-type": "application/json",
            "cookie": "session=abc123; theme=dark",
            "host": "127.0.0.1:9000",
            "user-agent": "curl/8.7.1",
            "x-amzn-trace-id": "Root=1-6a5145aa",
            "x-forwarded-for": "68.8.83.18",
            "x-forwarded-port": "9000",
            "x-forwarded-proto": "http",
            "x-probe": "first,second",
        },
        "queryStringParameters": {
            "empty": "",
            "encodedPlus": "a+b",
            "literalPlus": "a b",
            "redirect": "https://example.com/a/b",
            "repeat": "one,two",
        },
        "requestContext": {
            "accountId": "anonymous",
            "apiId": "local",
            "domainName": "127.0.0.1:9000",
            "domainPrefix": "local",
            "http": {
                "method": "POST",
                "path": "/capture/space value",
                "protocol": "HTTP/1.1",
                "sourceIp": "68.8.83.18",
                "userAgent": "curl/8.7.1",
            },
            "requestId": "the-id",
            "routeKey": "$default",
            "stage": "$default",
            "time": "10/Jul/2026:19:19:06 +0000",
            "timeEpoch": 1783711146671,
        },
        "body": body,
        "isBase64Encoded": False,
    }


def test_what_a_request_has_not_is_not_in_the_event() -> None:
    assert not {"cookies", "queryStringParameters", "body"} & event().keys()


@pytest.mark.parametrize(
    ("content_type", "is_text"),
    [
        ("text/plain", True),
        ("Application/JSON; charset=utf-8", True),
        ("application/vnd.api+json", True),
        ("application/xml", True),
        ("", False),
        ("application/x-www-form-urlencoded", False),
        ("multipart/form-data; boundary=x", False),
        ("application/octet-stream", False),
    ],
)
def test_body_is_base64_unless_its_type_is_text(content_type: str, is_text: bool) -> None:
    found = event(headers=[("content-type", content_type)], body=b"a=1")
    assert (found["body"], found["isBase64Encoded"]) == (("a=1", False) if is_text else ("YT0x", True))


@given(
    pairs=st.lists(st.tuples(PLAIN_NAME, PLAIN_VALUE), max_size=5),
    cookies=st.lists(st.tuples(PLAIN_NAME, PLAIN_VALUE).map("=".join), max_size=3),
    query=st.dictionaries(st.text(min_size=1, max_size=5), st.text(max_size=5), max_size=3),
    body=st.binary(max_size=20),
    content_type=st.sampled_from(["", "text/plain", "application/json", "image/png"]),
)
def test_nothing_of_a_request_is_lost(
    pairs: list[tuple[str, str]], cookies: list[str], query: dict[str, str], body: bytes, content_type: str
) -> None:
    sent = [(f"X-{name}", value) for name, value in pairs]
    typed = [("Content-Type", content_type)] if content_type else []
    found = event(
        target=f"/?{urlencode(query)}",
        headers=[*sent, *typed, *(("Cookie", cookie) for cookie in cookies)],
        body=body,
    )
    for name, _ in sent:
        assert found["headers"][name.lower()].split(",") == [value for each, value in sent if each == name]
    assert found.get("cookies", []) == cookies
    assert found.get("queryStringParameters", {}) == query
    text = found.get("body", "")
    assert (base64.b64decode(text) if found["isBase64Encoded"] else text.encode()) == body
    assert json.loads(json.dumps(found)) == found


@given(
    target=st.text(),
    headers=st.lists(st.tuples(st.text(), st.text()), max_size=4),
    known=st.lists(st.tuples(st.sampled_from(["cookie", "content-type", "host"]), st.text()), max_size=3),
    body=st.binary(max_size=20),
)
def test_any_request_is_an_event(
    target: str, headers: list[tuple[str, str]], known: list[tuple[str, str]], body: bytes
) -> None:
    found = event(target=target, headers=[*headers, *known], body=body)
    assert found["rawPath"] + ("?" if "?" in target else "") + found["rawQueryString"] == target
    assert json.loads(json.dumps(found)) == found


def test_answer_with_a_status_is_the_response() -> None:
    answer = {
        "statusCode": 201,
        "headers": {"My-Header": "Value", "x-count": 3, "Content-Type": "text/plain"},
        "cookies": ["a=1; Max-Age=78000", "b=2"],
        "body": "made",
    }
    headers = {"content-type": "text/plain", "my-header": "Value", "x-count": "3"}
    assert answered(answer) == HttpResponse(b"made", 201, headers, ("a=1; Max-Age=78000", "b=2"))


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        # As recorded of the service
        ({"hello": "world"}, b'{"hello":"world"}'),
        ({"statusCode": 200, "body": "body123"}, b"body123"),
        ({"statusCode": 200, "body": '{"hello": "world"}'}, b'{"hello": "world"}'),
        (["hello", 3, True], b'["hello",3,true]'),
        ("hello", b"hello"),
        (3, b"3"),
        (3.1, b"3.1"),
        (True, b"true"),
        (b"{", b"{"),
        # Only known from other emulators
        ({"statusCode": 200, "body": {"a": 1}}, b'{"a":1}'),
        ({"statusCode": "200", "headers": None, "cookies": None, "body": None, "isBase64Encoded": None}, b""),
        ({"statusCode": 200}, b""),
    ],
)
def test_answer_without_a_status_is_the_body(answer: object, body: bytes) -> None:
    assert answered(answer) == HttpResponse(body, 200, JSON)


@given(JSON_VALUE)
def test_any_answer_without_a_status_is_a_body(answer: object) -> None:
    response = answered(answer)
    assert (response.status, response.headers) == (200, JSON)
    assert isinstance(answer, str) or json.loads(response.body) == answer


@pytest.mark.parametrize(
    "answer",
    [
        {"statusCode": None},
        {"statusCode": True},
        {"statusCode": 200.5},
        {"statusCode": "many"},
        {"statusCode": 99},
        {"statusCode": 101},
        {"statusCode": 600},
        {"statusCode": 200, "headers": ["a"]},
        {"statusCode": 200, "headers": {"a b": "c"}},
        {"statusCode": 200, "headers": {"a": "b\r\nc: d"}},
        {"statusCode": 200, "headers": {"a": ["b"]}},
        {"statusCode": 200, "cookies": 1},
        {"statusCode": 200, "cookies": ["a\n"]},
        {"statusCode": 200, "body": "!", "isBase64Encoded": True},
    ],
)
def test_bad_shape_is_a_502(answer: object) -> None:
    assert answered(answer) == BROKEN


@given(
    st.fixed_dictionaries(
        {"statusCode": JSON_VALUE}, optional=dict.fromkeys(("headers", "cookies", "body"), JSON_VALUE)
    )
)
def test_any_answer_is_a_response(answer: dict[str, object]) -> None:
    response = answered(answer)
    assert response == BROKEN or 200 <= response.status <= 599
    for name, value in (*response.headers.items(), *(("", cookie) for cookie in response.cookies)):
        assert "\n" not in name + value
        value.encode()


def test_headers_of_the_connection_are_renamed() -> None:
    answer = {"statusCode": 200, "headers": {"Content-Length": "3", "Date": "today"}, "body": "more"}
    remapped = {"x-amzn-remapped-content-length": "3", "x-amzn-remapped-date": "today"}
    assert answered(answer) == HttpResponse(b"more", 200, JSON | remapped)


def test_streamed_answer_has_its_head_first() -> None:
    head = json.dumps({"statusCode": 418, "headers": {"a": "b"}, "cookies": ["c=d"]}).encode()
    assert answered(head + b"\0" * 8 + b"x\0y", STREAMED_CONTENT) == HttpResponse(
        b"x\0y", 418, JSON | {"a": "b"}, ("c=d",)
    )


# --- over HTTP --------------------------------------------------------------------------------------------------------


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
