"""A service on loopback that says what a test wants it to: AWS as it is when something is wrong."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

Answer = Callable[[str, int], tuple[int, dict[str, Any]]]
"""From the operation and how often it was called to status and body."""


def refusal(code: str, message: str = "no") -> tuple[int, dict[str, Any]]:
    return 400, {"__type": code, "message": message}


THROTTLED = refusal("ThrottlingException", "Rate exceeded")


def insights(operation: str, *, status: str = "Complete", messages: Iterable[str] = ()) -> tuple[int, dict[str, Any]]:
    """A query of Logs Insights, begun or with these messages."""
    rows = [[{"field": "@message", "value": message}] for message in messages]
    return 200, {"queryId": "1"} if operation == "StartQuery" else {"status": status, "results": rows}


@contextmanager
def answering(answer: Answer) -> Iterator[str]:
    """It speaks AWS's JSON protocol; its address."""
    calls: dict[str, int] = {}

    def reply(request: Request) -> Reply:
        if "X-Amz-Target" not in request.headers:
            return Reply(501, b"")  # another protocol's
        operation = request.headers["X-Amz-Target"].rpartition(".")[2]
        calls[operation] = calls.get(operation, 0) + 1
        status, body = answer(operation, calls[operation])
        return Reply(status, json.dumps(body).encode())

    with serving(reply) as address:
        yield address


@contextmanager
def saying(status: int, content: bytes) -> Iterator[str]:
    """It has one answer; its address."""
    with serving(lambda _: Reply(status, content)) as address:
        yield address


class Request(NamedTuple):
    method: str
    path: str
    headers: Message
    body: bytes


class Reply(NamedTuple):
    status: int
    content: bytes
    headers: Mapping[str, str] = {}


@contextmanager
def serving(reply: Callable[[Request], Reply]) -> Iterator[str]:
    """A server on loopback that answers so; its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, content, headers = reply(Request(self.command, self.path, self.headers, body))
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_HEAD = do_POST = do_GET

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
