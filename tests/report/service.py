"""A service on loopback that says what a test wants it to: AWS as it is when something is wrong."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

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

    def reply(headers: Message) -> tuple[int, bytes]:
        if "X-Amz-Target" not in headers:
            return 501, b""  # another protocol's
        operation = headers["X-Amz-Target"].rpartition(".")[2]
        calls[operation] = calls.get(operation, 0) + 1
        status, body = answer(operation, calls[operation])
        return status, json.dumps(body).encode()

    with _serving(reply) as address:
        yield address


@contextmanager
def saying(status: int, content: bytes) -> Iterator[str]:
    """It has one answer; its address."""
    with _serving(lambda _: (status, content)) as address:
        yield address


@contextmanager
def _serving(reply: Callable[[Message], tuple[int, bytes]]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, content = reply(self.headers)
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_HEAD = do_POST = do_GET

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
