#!/usr/bin/env python3
"""An extension for tests: prints what it gets, one JSON object a line, with the moment (time_ns) of its arrival.

It has one thread, and looks at the socket of `next` first. The variable RECORDER, a JSON object, makes it misbehave:
see `Behaviour`.
"""

import json
import os
import select
import socket
import sys
import time
from typing import Any, NamedTuple

API = os.environ["AWS_LAMBDA_RUNTIME_API"]
POLL_S = 0.02
LAST_TELEMETRY_S = 0.1
"""How long to stay after SHUTDOWN without any: the last report comes then."""


class Behaviour(NamedTuple):
    events: list[str] = ["INVOKE", "SHUTDOWN"]  # noqa: RUF012 - a NamedTuple's default is never written to
    types: list[str] = ["platform", "function"]  # noqa: RUF012
    refuse: int = 0
    """Answer that many POSTs with 500."""
    exit_on_invoke: int | None = None
    """Exit with this code at the first INVOKE."""
    linger_s: float = 0
    """Work that long after each INVOKE."""
    linger_until: str | None = None
    """Work after each INVOKE until an event of this type has come and was taken."""
    ignore_shutdown: bool = False
    schema: str = "2022-12-13"
    init_error: str | None = None


def request(sock: socket.socket, method: str, path: str, headers: dict[str, str], body: object = None) -> None:
    data = b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", f"Host: {API}", f"Content-Length: {len(data)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    sock.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + data)


def message(sock: socket.socket) -> tuple[str, dict[str, str], bytes]:
    """First line, headers in lower case, body. Raises ConnectionError at the end of the stream."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += receive(sock)
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    while len(body) < int(headers.get("content-length", "0")):
        body += receive(sock)
    return first, headers, body


def receive(sock: socket.socket) -> bytes:
    data = sock.recv(1 << 20)
    if not data:
        raise ConnectionError
    return data


def tell(**what: Any) -> None:
    print(json.dumps({"at": time.time_ns(), **what}), flush=True)


def main() -> None:
    behave = Behaviour(**json.loads(os.environ.get("RECORDER", "{}")))
    host, port = API.split(":")
    api = socket.create_connection((host, int(port)))
    name = os.path.basename(sys.argv[0])  # noqa: PTH119 - as extensions do it
    request(api, "POST", "/2020-01-01/extension/register", {"Lambda-Extension-Name": name}, {"events": behave.events})
    first, headers, _ = message(api)
    tell(registered=first)
    own = {"Lambda-Extension-Identifier": headers["lambda-extension-identifier"]}
    if behave.init_error:
        header = {"Lambda-Extension-Function-Error-Type": behave.init_error}
        request(api, "POST", "/2020-01-01/extension/init/error", own | header)
        message(api)
        sys.exit(1)
    listener = socket.create_server(("127.0.0.1", 0))
    if behave.types:
        subscription = {
            "schemaVersion": behave.schema,
            "types": behave.types,
            "buffering": {"maxItems": 1000, "maxBytes": 262144, "timeoutMs": 25},
            "destination": {
                "protocol": "HTTP",
                "URI": f"http://sandbox.localdomain:{listener.getsockname()[1]}/here",
            },
        }
        request(api, "PUT", "/2022-07-01/telemetry", own, subscription)
        tell(subscribed=message(api)[0])
    loop(api, listener, own, behave)


def loop(api: socket.socket, listener: socket.socket, own: dict[str, str], behave: Behaviour) -> None:
    request(api, "GET", "/2020-01-01/extension/event/next", own)
    connections = [api, listener]
    refuse = behave.refuse
    wait_s: float | None = None
    busy_until = 0.0
    shutting_down = False
    while True:
        readable, _, _ = select.select(connections, [], [], wait_s)
        if not readable and shutting_down:
            sys.exit(0)  # SHUTDOWN was some time ago, and nothing came since
        if busy_until and time.monotonic() >= busy_until:
            busy_until, wait_s = 0.0, None
            request(api, "GET", "/2020-01-01/extension/event/next", own)
        for sock in sorted(readable, key=connections.index):
            if sock is listener:
                connections.append(listener.accept()[0])
            elif sock is api:
                _, headers, body = message(api)
                tell(event=json.loads(body), headers=headers)
                if json.loads(body)["eventType"] == "SHUTDOWN":
                    connections.remove(api)
                    shutting_down = True
                    wait_s = None if behave.ignore_shutdown else LAST_TELEMETRY_S
                    continue
                if behave.exit_on_invoke is not None:
                    sys.exit(behave.exit_on_invoke)
                if behave.linger_s:
                    busy_until, wait_s = time.monotonic() + behave.linger_s, POLL_S
                elif not behave.linger_until:
                    request(api, "GET", "/2020-01-01/extension/event/next", own)
            else:
                try:
                    first, headers, body = message(sock)
                except ConnectionError:
                    connections.remove(sock)
                    continue
                taken = refuse <= 0
                status = "200 OK" if taken else "500 No"
                refuse -= 1
                sock.sendall(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())
                request_line, content = first.split(" "), headers["content-type"]
                tell(
                    telemetry=json.loads(body),
                    status=status,
                    method=request_line[0],
                    path=request_line[1],
                    content=content,
                )
                if taken and behave.linger_until in {event["type"] for event in json.loads(body)}:
                    request(api, "GET", "/2020-01-01/extension/event/next", own)


if __name__ == "__main__":
    main()
