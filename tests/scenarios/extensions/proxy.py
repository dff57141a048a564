#!/usr/bin/env python3
"""A proxy of the Runtime API, as other vendors' extensions put one between the runtime and Lambda: on PROXY_PORT."""

from __future__ import annotations

import http.client
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

API = os.environ["AWS_LAMBDA_RUNTIME_API"]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def forward(self) -> None:
        """Ask the real API the same, and hand its answer back."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        upstream = http.client.HTTPConnection(API)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
        upstream.request(self.command, self.path, body or None, headers)
        answer = upstream.getresponse()
        content = answer.read()
        upstream.close()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = forward

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
