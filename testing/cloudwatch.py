"""A stand-in for CloudWatch's OTLP endpoint: TLS on loopback, and each request's signature computed again by botocore.

Clients reach it as a proxy, so that they connect to the endpoint's real name, with the configuration that they have in
Lambda.
"""

from __future__ import annotations

import gzip
import hashlib
import ssl
import subprocess
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

PATH, SERVICE = "/v1/metrics", "monitoring"


def refusal(credentials: Credentials, region: str, headers: Mapping[str, str], body: bytes) -> str:
    """Why a POST to the endpoint is not signed with these credentials; "" if it is. `headers` by name in lower case."""
    algorithm, _, rest = headers.get("authorization", "").partition(" ")
    parts = dict(part.strip().partition("=")[::2] for part in rest.split(","))
    date = headers.get("x-amz-date", "")
    scope = f"{credentials.access_key}/{date[:8]}/{region}/{SERVICE}/aws4_request"
    if algorithm != "AWS4-HMAC-SHA256" or parts.get("Credential") != scope:
        return f"signed for {parts.get('Credential')}, not for {scope}"
    names = parts.get("SignedHeaders", "").split(";")
    if not {"host", "x-amz-date"} <= {*names} <= headers.keys():
        return f"these headers are signed: {', '.join(names)}"
    digest = hashlib.sha256(body).hexdigest()
    if headers.get("x-amz-content-sha256", digest) != digest:
        return "the hash is of another body"
    signed = {name: headers[name] for name in names}
    request = AWSRequest("POST", f"https://{headers['host']}{PATH}", headers=signed, data=body)
    request.context["timestamp"] = date
    signer = SigV4Auth(credentials, SERVICE, region)
    expected = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
    return "" if parts.get("Signature") == expected else "another key, or another request, was signed"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_CONNECT(self) -> None:
        """The client wants a connection to the endpoint's name. What follows is TLS, and a request."""
        self.send_response(200)
        self.end_headers()
        if self.path != f"{self.server.endpoint.host}:443":
            self.close_connection = True  # of no interest: nothing else is to be reached
            return
        self.connection = self.server.tls.wrap_socket(self.connection, server_side=True)
        self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb", 0)
        self.close_connection = False

    def do_POST(self) -> None:
        """A request of metrics."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        refused = self.server.endpoint.refuses(self.path, headers, body)
        time.sleep(self.server.endpoint.pause_s)
        self.send_response(403 if refused else 200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Not on the tests' stderr."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, endpoint: CloudWatch, tls: ssl.SSLContext) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.endpoint, self.tls = endpoint, tls


class CloudWatch:
    """The endpoint of one region, which knows one key."""

    def __init__(self, folder: Path, region: str, credentials: Credentials, pause_s: float = 0.0) -> None:
        """`folder` gets its certificate. `pause_s`: before each answer. Raises OSError without the command openssl."""
        self.host = f"monitoring.{region}.amazonaws.com"
        self.pause_s = pause_s
        self._region, self._credentials = region, credentials
        self._certificate, key = folder / "certificate.pem", folder / "key.pem"
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=endpoint", "-days", "1"]
        command += ["-addext", f"subjectAltName=DNS:{self.host}", "-keyout", str(key), "-out", str(self._certificate)]
        subprocess.run(command, check=True, capture_output=True)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(self._certificate, key)
        self._server = _Server(self, tls)
        self.requests: list[ExportMetricsServiceRequest] = []
        """Those that it has taken."""
        self.refused: list[str] = []
        """Why it has not taken the others."""

    def __enter__(self) -> CloudWatch:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def variables(self) -> dict[str, str]:
        """Of a client that is to reach it, written in Go."""
        proxy = f"http://127.0.0.1:{self._server.server_port}"
        return {"HTTPS_PROXY": proxy, "SSL_CERT_FILE": str(self._certificate)}

    def refuses(self, path: str, headers: Mapping[str, str], body: bytes) -> bool:
        """Take a request, or refuse it."""
        why = refusal(self._credentials, self._region, headers, body) if path == PATH else f"path {path}"
        if why:
            self.refused.append(why)
        else:
            plain = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
            self.requests.append(ExportMetricsServiceRequest.FromString(plain))
        return bool(why)

    def metrics(self, name: str) -> list[Metric]:
        """Those of this name, in the order of their requests."""
        resources = [resource for request in self.requests for resource in request.resource_metrics]
        scopes = [scope for resource in resources for scope in resource.scope_metrics]
        return [metric for scope in scopes for metric in scope.metrics if metric.name == name]
