#!/usr/bin/env python3
"""An extension for the same job in the usual way: `requests` for the APIs, `http.server` for telemetry, `psutil` for
memory. For comparison."""

from __future__ import annotations

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import psutil
import requests

API = f"http://{os.environ['AWS_LAMBDA_RUNTIME_API']}"

telemetry: list[dict[str, object]] = []


class Listener(BaseHTTPRequestHandler):
    """Takes telemetry in."""

    def do_POST(self) -> None:
        """One batch of events."""
        telemetry.extend(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def function_rss() -> int:
    """RSS of the runtime and its children, bytes."""
    total = 0
    for process in psutil.process_iter(["memory_info"]):
        try:
            if "_HANDLER" in process.environ():
                total += process.info["memory_info"].rss
        except psutil.Error:
            continue
    return total


def main() -> None:
    """Register, subscribe, then a line for each invocation."""
    session = requests.Session()
    registered = session.post(
        f"{API}/2020-01-01/extension/register",
        json={"events": ["INVOKE", "SHUTDOWN"]},
        headers={"Lambda-Extension-Name": Path(__file__).name},
    )
    headers = {"Lambda-Extension-Identifier": registered.headers["Lambda-Extension-Identifier"]}
    server = HTTPServer(("127.0.0.1", 0), Listener)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    subscription = {
        "schemaVersion": "2022-12-13",
        "types": ["platform"],
        "buffering": {"maxItems": 1000, "maxBytes": 262144, "timeoutMs": 25},
        "destination": {"protocol": "HTTP", "URI": f"http://sandbox.localdomain:{server.server_address[1]}"},
    }
    session.put(f"{API}/2022-07-01/telemetry", json=subscription, headers=headers)
    while True:
        event = session.get(f"{API}/2020-01-01/extension/event/next", headers=headers).json()
        if event["eventType"] == "SHUTDOWN":
            return
        print(json.dumps({"requestId": event["requestId"], "rss": function_rss(), "telemetry": len(telemetry)}))
        telemetry.clear()


if __name__ == "__main__":
    main()
