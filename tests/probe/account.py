"""A service before moto's: it passes requests on, but runs functions and refuses requests as a test wants it."""

import base64
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import requests

from tests.report.conftest import put_events

ACCOUNT = "123456789012"
"""moto's."""


class Answer(NamedTuple):
    """What a function answers to an invocation."""

    payload: Any
    tail: str = ""
    error: str | None = None


Function = Callable[[str, dict[str, Any]], Answer]
"""From name and event."""


def failing(name: str, event: dict[str, Any]) -> Answer:
    return Answer({"errorMessage": "it cannot be run here"}, error="Unhandled")


@dataclass
class Account:
    client: Callable[[str], Any]
    """A client of moto's own, past this service."""
    address: str = ""
    run: Function = failing
    refusals: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Code and message of the refusal, by a pattern of `METHOD PATH`, the operation or the body."""
    slow: str | None = None
    """A pattern as in `refusals`: such a request is taken, and carried out a second later."""
    taken: threading.Event = field(default_factory=threading.Event)
    """Set when a slow request has come."""
    invoked: list[str] = field(default_factory=list)
    """Names of the functions, in the order of their invocations."""

    def present(self) -> set[str]:
        """The names of all functions, layers, roles, log groups, stacks and buckets."""
        found = {each["FunctionName"] for each in self.client("lambda").list_functions()["Functions"]}
        found |= {each["LayerName"] for each in self.client("lambda").list_layers()["Layers"]}
        found |= {each["RoleName"] for each in self.client("iam").list_roles()["Roles"]}
        found |= {each["logGroupName"] for each in self.client("logs").describe_log_groups()["logGroups"]}
        found |= {each["StackName"] for each in self.client("cloudformation").describe_stacks()["Stacks"]}
        return found | {each["Name"] for each in self.client("s3").list_buckets()["Buckets"]}

    def print(self, function: str, *lines: str) -> None:
        """Put lines into the log of the run that this function belongs to."""
        logs = self.client("logs")
        (group,) = {each["logGroupName"] for each in logs.describe_log_groups()["logGroups"]}
        put_events(logs, group, f"{function}-{len(self.invoked)}", [(int(time.time() * 1000), line) for line in lines])


@contextmanager
def account_at(moto: str, client: Callable[[str], Any]) -> Iterator[Account]:
    account = Account(client)

    class Handler(BaseHTTPRequestHandler):
        def do(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asked = f"{self.command} {self.path} {self.headers.get('X-Amz-Target')} {body[:2000]!r}"
            refused = next((why for pattern, why in account.refusals.items() if re.search(pattern, asked)), None)
            invoked = re.fullmatch(r"/2015-03-31/functions/(.+)/invocations(?:\?Qualifier=\d)?", self.path)
            if account.slow and re.search(account.slow, asked):
                account.taken.set()
                time.sleep(1)
            if refused:
                self.refuse(*refused)
            elif invoked:
                account.invoked.append(invoked[1])
                self.answer(account.run(invoked[1], json.loads(body)))
            else:
                headers = {name: value for name, value in self.headers.items() if name != "Host"}
                passed = requests.request(self.command, moto + self.path, data=body, headers=headers, timeout=30)
                kept = ("content-type", "x-amzn-errortype")
                self.reply(
                    passed.status_code,
                    passed.content,
                    {name: value for name, value in passed.headers.items() if name.lower() in kept},
                )

        do_GET = do_POST = do_PUT = do_DELETE = do

        def refuse(self, code: str, message: str) -> None:
            if self.path == "/" and "X-Amz-Target" not in self.headers:  # IAM speaks XML
                text = f"<ErrorResponse><Error><Code>{code}</Code><Message>{message}</Message></Error></ErrorResponse>"
            else:
                text = json.dumps({"__type": code, "Message": message, "message": message})
            self.reply(400, text.encode(), {"x-amzn-errortype": code})

        def answer(self, answer: Answer) -> None:
            headers = {"X-Amz-Log-Result": base64.b64encode(answer.tail.encode()).decode()}
            if answer.error:
                headers["X-Amz-Function-Error"] = answer.error
            self.reply(200, json.dumps(answer.payload).encode(), headers)

        def reply(self, status: int, content: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False  # a function may still be running
        request_queue_size = 64

    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    account.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield account
    finally:
        server.shutdown()
        server.server_close()
