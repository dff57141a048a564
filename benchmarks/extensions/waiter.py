#!/usr/bin/env python3
"""What others do, as small as it gets: keep each invocation open until the platform says that its runtime is done.

For comparison only: its wait has no bound.
"""

from __future__ import annotations

import json
import os
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import TCPServer
from typing import Any

EXTENSION = "/2020-01-01/extension/"

done: set[str] = set()
"""Request ids of the invocations whose runtime is done."""


class Listener(BaseHTTPRequestHandler):
    """Takes telemetry in."""

    def do_POST(self) -> None:
        """One batch of events."""
        events = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        done.update(event["record"]["requestId"] for event in events if event["type"] == "platform.runtimeDone")
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def main() -> None:
    """Register, subscribe, then wait twice in each invocation: for its event and for its end."""
    api = HTTPConnection(os.environ["AWS_LAMBDA_RUNTIME_API"])
    headers = {"Lambda-Extension-Name": Path(__file__).name}

    def call(method: str, path: str, body: object = None) -> dict[str, Any]:
        api.request(method, path, None if body is None else json.dumps(body), headers)
        answer = api.getresponse()
        text = answer.read()
        headers.setdefault("Lambda-Extension-Identifier", answer.headers["Lambda-Extension-Identifier"] or "")
        return dict(json.loads(text)) if text.startswith(b"{") else {}

    with TCPServer(("127.0.0.1", 0), Listener) as server:
        call("POST", EXTENSION + "register", {"events": ["INVOKE", "SHUTDOWN"]})
        subscription = {
            "schemaVersion": "2022-12-13",
            "types": ["platform"],
            "buffering": {"maxItems": 1000, "maxBytes": 262144, "timeoutMs": 25},
            "destination": {"protocol": "HTTP", "URI": f"http://sandbox.localdomain:{server.server_address[1]}"},
        }
        call("PUT", "/2022-07-01/telemetry", subscription)
        while (event := call("GET", EXTENSION + "event/next"))["eventType"] == "INVOKE":
            while event["requestId"] not in done:
                server.handle_request()
            done.clear()


if __name__ == "__main__":
    main()
