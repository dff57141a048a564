#!/usr/bin/env python3
"""A proxy of the Runtime API, as other vendors' extensions put one between the runtime and Lambda: on PROXY_PORT.

With PROXY_SPOILS each event is first answered wrongly, in each of these ways; then as it is.
"""

from __future__ import annotations

import http.client
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

API = os.environ["AWS_LAMBDA_RUNTIME_API"]
SPOILS = os.environ.get("PROXY_SPOILS", "").split()
"""`refused`: status 500. `anonymous`: no request id. `cut-off`: closed in the middle of the body. `short`: half of the
body, whose length is given as that."""

left: list[str] = []
"""Of the event that is held: how it is still to be spoiled."""
held: list[tuple[list[tuple[str, str]], bytes]] = []


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if not SPOILS or not self.path.endswith("/next"):
            self.forward()
        elif left:
            self.spoil(left.pop())
        elif held:
            self.hand_on(200, *held.pop())
        else:
            held.append(self.ask()[1:])
            left.extend(SPOILS[::-1])
            self.spoil(left.pop())

    def spoil(self, how: str) -> None:
        headers, content = held[0]
        match how:
            case "refused":
                self.hand_on(500, headers, b"{}")
            case "anonymous":
                self.hand_on(200, [header for header in headers if "request-id" not in header[0].lower()], content)
            case "short":
                self.hand_on(200, headers, content[: len(content) // 2])
            case "cut-off":
                self.hand_on(200, headers, content, len(content) // 2)
                self.close_connection = True

    def forward(self) -> None:
        """Ask the real API the same, and hand its answer back."""
        self.hand_on(*self.ask())

    do_POST = forward

    def ask(self) -> tuple[int, list[tuple[str, str]], bytes]:
        """Status, headers and body of the real API's answer."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        upstream = http.client.HTTPConnection(API)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
        upstream.request(self.command, self.path, body or None, headers)
        answer = upstream.getresponse()
        content = answer.read()
        upstream.close()
        return answer.status, answer.getheaders(), content

    def hand_on(self, status: int, headers: list[tuple[str, str]], content: bytes, size: int | None = None) -> None:
        """`size`: so many bytes of the content, no more."""
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[:size])

    def log_message(self, format: str, *arguments: object) -> None: ...


def main() -> None:
    """Serve the runtime, and be an extension that has nothing to do."""
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ["PROXY_PORT"])), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    api = http.client.HTTPConnection(API)
    api.request(
        "POST",
        "/2020-01-01/extension/register",
        '{"events":["INVOKE","SHUTDOWN"]}',
        {"Lambda-Extension-Name": Path(__file__).name},
    )
    registered = api.getresponse()
    registered.read()
    identifier = registered.headers["Lambda-Extension-Identifier"]
    while True:
        api.request("GET", "/2020-01-01/extension/event/next", headers={"Lambda-Extension-Identifier": identifier})
        if b"SHUTDOWN" in api.getresponse().read():
            return


main()
