"""A web server that does what touch.py does: GET /?do=hold&mib=5&ms=3. A POST gets back what came."""

from __future__ import annotations

import base64
import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import touch  # type: ignore[import-not-found]  # this file is a program, and touch.py is beside it


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def do_GET(self) -> None:
        event: dict[str, Any] = {}
        event.update(parse_qsl(urlsplit(self.path).query))
        event.update({name: float(event[name]) for name in ("mib", "ms") if name in event})
        self._answer(touch.handler(event, None) if "do" in event else {})

    def do_POST(self) -> None:
        body = base64.b64encode(self.rfile.read(int(self.headers["content-length"]))).decode()
        headers = {name.lower(): value for name, value in self.headers.items()}
        self._answer({"method": self.command, "target": self.path, "headers": headers, "body": body})

    def _answer(self, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(200)
        for name, value in (("content-type", "application/json"), ("set-cookie", "a=1"), ("set-cookie", "b=2")):
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
