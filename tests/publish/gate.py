"""A server between the command and moto's: it passes requests on, and refuses those that a test wants refused."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import requests

from tests.report.service import Reply, Request, serving

REGIONS = """<DescribeRegionsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><regionInfo>{}</regionInfo>
</DescribeRegionsResponse>"""


class Call(NamedTuple):
    """One request. The signature names service and region."""

    service: str
    region: str
    method: str
    path: str


class Answer(NamedTuple):
    status: int
    content: bytes
    code: str = ""
    """The name of the error, for services that speak JSON."""


def refusal(code: str, message: str = "no") -> Answer:
    return Answer(403, json.dumps({"Message": message}).encode(), code)


def regions(*names: str) -> Answer:
    """What EC2 says to DescribeRegions."""
    listed = "".join(f"<item><regionName>{name}</regionName></item>" for name in names)
    return Answer(200, REGIONS.format(listed).encode())


class Gate:
    """Its address, what has passed, and what it answers itself."""

    def __init__(self, behind: str) -> None:
        self.behind = behind
        self.address = ""
        self.passed: list[Call] = []
        self.answer: Callable[[Call], Answer | None] = lambda _: None

    @property
    def changes(self) -> Counter[str]:
        """Requests that have changed something, by region."""
        return Counter(call.region for call in self.passed if call.method == "POST" and call.service == "lambda")

    def ask(self, call: Call, headers: dict[str, str], body: bytes) -> Answer:
        if (own := self.answer(call)) is not None:
            return own
        self.passed.append(call)
        body = body.replace(b'"OrganizationId"', b'"PrincipalOrgID"')  # moto knows the name of functions' policies
        done = requests.request(call.method, self.behind + call.path, headers=headers, data=body, timeout=30)
        return Answer(done.status_code, done.content, done.headers.get("x-amzn-ErrorType", ""))


@contextmanager
def gate_before(behind: str) -> Iterator[Gate]:
    """The server, until the end."""
    gate = Gate(behind)

    def reply(request: Request) -> Reply:
        scope = re.search(r"Credential=[^/]+/\d+/([^/]+)/([^/]+)/", request.headers["Authorization"])
        assert scope is not None
        headers = {name: value for name, value in request.headers.items() if name not in ("Host", "Content-Length")}
        status, content, code = gate.ask(Call(scope[2], scope[1], request.method, request.path), headers, request.body)
        return Reply(status, content, {"x-amzn-ErrorType": code} if code else {})

    with serving(reply) as gate.address:
        yield gate
