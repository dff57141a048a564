#!/usr/bin/env python3
"""A runtime that talks to the Runtime API in the way that its argument says. The handler is the one of touch.py.

Of each shape there is somewhere a real client, or may be one; what is asked of it is only that it is a correct one.
"""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

sys.path.insert(0, str(Path(__file__).parents[3]))  # run by itself

from testing.functions import touch

RUNTIME = "/2018-06-01/runtime"
BLOCK = b"x" * (5 << 20)
"""What a large response ends with: it is there from the start, so that answering takes no memory."""

Answer = dict[str, Any]
Handler = Callable[["Client", dict[str, Any]], Answer]
Respond = Callable[["Client", str, dict[str, Any], Answer], None]


class Client:
    """One worker's talk with the Runtime API, over one connection that is kept."""

    def __init__(self, host: str = "") -> None:
        default, _, port = os.environ["AWS_LAMBDA_RUNTIME_API"].rpartition(":")
        self._address = (host or default, int(port))
        self._kept = self.connect()

    def connect(self) -> http.client.HTTPConnection:
        """A connection of its own, not yet opened."""
        return http.client.HTTPConnection(*self._address)

    def get(self, path: str) -> http.client.HTTPResponse:
        """The answer, its body not yet read."""
        self._kept.request("GET", path)
        return self._kept.getresponse()

    def post(self, path: str, body: bytes | Iterator[bytes], **headers: str) -> None:
        """`body`: bytes, or chunks."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._kept.request("POST", path, body, named, encode_chunked="Transfer-Encoding" in named)
        self._kept.getresponse().read()

    def next(self) -> tuple[str, dict[str, Any]]:
        """Wait for an event: its request id, and what it says."""
        response = self.get(f"{RUNTIME}/invocation/next")
        return response.headers["Lambda-Runtime-Aws-Request-Id"], json.loads(response.read())


class PatientClient(Client):
    """Asks again where what came is no event, which takes some memory."""

    def next(self) -> tuple[str, dict[str, Any]]:
        while True:
            try:
                response = self.get(f"{RUNTIME}/invocation/next")
                request_id, text = response.headers["Lambda-Runtime-Aws-Request-Id"], response.read()
                if response.status == 200 and request_id:
                    return request_id, json.loads(text)
            except http.client.HTTPException:
                self._kept.close()
            except ValueError:  # its JSON
                pass
            touch.hold(40 * touch.MIB, 0)


class PerCallClient(Client):
    """A connection for each call, closed after it."""

    def get(self, path: str) -> http.client.HTTPResponse:
        self._kept.close()
        self._kept = self.connect()
        return super().get(path)

    def post(self, path: str, body: bytes | Iterator[bytes], **headers: str) -> None:
        self._kept.close()
        self._kept = self.connect()
        super().post(path, body, **headers)
        self._kept.close()


class PatientPerCallClient(PatientClient, PerCallClient):
    """Both."""


# What the handler does.


def touch_and_free(_: Client, event: dict[str, Any]) -> Answer:
    return touch.handler(event, None)


def with_traffic_of_its_own(_: Client, event: dict[str, Any]) -> Answer:
    """The function itself asks the Runtime API's address, over connections of its own."""
    return _with_pings(Client().connect, event)


def with_traffic_on_the_same_connection(client: Client, event: dict[str, Any]) -> Answer:
    """The same over the connection that is waited on for events, as no known runtime does: to the kernel each of
    these requests looks like a response."""
    return _with_pings(lambda: client._kept, event)


def _with_pings(connection: Callable[[], http.client.HTTPConnection], event: dict[str, Any]) -> Answer:
    """Most of the memory is touched after the first ping, when the function may be taken for being done."""
    third = {**event, "ms": event["ms"] / 3}
    answer = touch.handler({**third, "mib": event["mib"] / 4}, None)
    for _ in range(2):
        made = connection()
        made.request("GET", "/2018-06-01/ping")
        made.getresponse().read()
        time.sleep(third["ms"] / 1000)
    return {**touch.handler(third, None), "before": answer["before"]}


# How its answer is posted.


def respond(client: Client, invocation: str, _: dict[str, Any], answer: Answer) -> None:
    client.post(f"{invocation}/response", json.dumps(answer).encode())


def respond_with_5_mib(client: Client, invocation: str, _: dict[str, Any], answer: Answer) -> None:
    """A line of JSON, and the block."""
    line = json.dumps(answer).encode() + b"\n"
    client.post(f"{invocation}/response", iter((line, BLOCK)), Content_Length=str(len(line) + len(BLOCK)))


def respond_in_pieces(client: Client, invocation: str, event: dict[str, Any], answer: Answer) -> None:
    """A streaming response, with the pauses in ms that the event asks for."""

    def pieces() -> Iterator[bytes]:
        text = json.dumps(answer).encode()
        for pause_ms in event["pauses"]:
            yield text[:8]
            text = text[8:]
            time.sleep(pause_ms / 1000)
        yield text

    streaming = {"Lambda_Runtime_Function_Response_Mode": "streaming", "Transfer_Encoding": "chunked"}
    client.post(f"{invocation}/response", pieces(), **streaming)


def respond_with_an_error(client: Client, invocation: str, _: dict[str, Any], answer: Answer) -> None:
    error = {"errorType": "Touched", "errorMessage": "as asked", **answer}
    client.post(f"{invocation}/error", json.dumps(error).encode(), Lambda_Runtime_Function_Error_Type="Touched")


def respond_and_work_on(client: Client, invocation: str, event: dict[str, Any], answer: Answer) -> None:
    """The function is not done with its response: it touches `late` MiB after it. The peak is known beforehand."""
    late = round(event["late"] * touch.MIB)
    truth = max(answer["truth"], answer["before"] + late // 1024)
    respond(client, invocation, event, {**answer, "truth": truth})
    touch.hold(late, event["late_ms"] / 1000)


# How it all goes round.


def serve(client: Client, handle: Handler = touch_and_free, post: Respond = respond) -> None:
    while True:
        request_id, event = client.next()
        post(client, f"{RUNTIME}/invocation/{request_id}", event, handle(client, event))


def work(client: Client, other: int | None = None) -> None:
    """One worker of several. The platform may give one event to two of them: the second one ignores it.

    `other` is the process of the other worker, whose memory counts as well.
    """
    answered = os.open(Path(os.environ["TMPDIR"]) / "answered", os.O_RDWR | os.O_CREAT)
    besides = os.open(f"/proc/{other}/statm", os.O_RDONLY) if other else None
    while True:
        request_id, event = client.next()
        fcntl.flock(answered, fcntl.LOCK_EX)
        if os.pread(answered, 100, 0) != request_id.encode():
            answer = touch.handler(event, None)
            if besides is not None:
                more = touch.rss(besides)
                answer |= {"before": answer["before"] + more, "truth": answer["truth"] + more}
            respond(client, f"{RUNTIME}/invocation/{request_id}", event, answer)
            os.pwrite(answered, request_id.encode(), 0)
        fcntl.flock(answered, fcntl.LOCK_UN)


def two_threads() -> None:
    threading.Thread(target=lambda: work(Client()), daemon=True).start()
    work(Client())


def two_processes() -> None:
    child = os.fork()
    if not child:  # what touch.py has open is the parent's
        os.dup2(os.open("/proc/self/statm", os.O_RDONLY), touch._statm)
    work(Client(), child or os.getppid())


def init_error() -> NoReturn:
    error = {"errorType": "NoLuck", "errorMessage": "no luck at init"}
    Client().post(f"{RUNTIME}/init/error", json.dumps(error).encode(), Lambda_Runtime_Function_Error_Type="NoLuck")
    sys.exit(1)


def init_error_once() -> None:
    """What is done in the first invocation instead, works."""
    tried = Path(os.environ["TMPDIR"]) / "tried"
    if not tried.exists():
        tried.touch()
        init_error()
    serve(Client())


SHAPES: dict[str, Callable[[], None]] = {
    "kept": lambda: serve(Client()),
    "per-call": lambda: serve(PerCallClient()),
    "patient": lambda: serve(PatientClient()),
    "patient-per-call": lambda: serve(PatientPerCallClient()),
    "ipv6-mapped": lambda: serve(Client("::ffff:127.0.0.1")),
    "workers-threads": two_threads,
    "workers-processes": two_processes,
    "large": lambda: serve(Client(), post=respond_with_5_mib),
    "streaming": lambda: serve(Client(), post=respond_in_pieces),
    "streaming-per-call": lambda: serve(PerCallClient(), post=respond_in_pieces),
    "error": lambda: serve(Client(), post=respond_with_an_error),
    "own-traffic": lambda: serve(Client(), with_traffic_of_its_own),
    "own-traffic-same": lambda: serve(Client(), with_traffic_on_the_same_connection),
    "late-work": lambda: serve(Client(), post=respond_and_work_on),
    "late-work-per-call": lambda: serve(PerCallClient(), post=respond_and_work_on),
    "init-error": init_error,
    "init-error-once": init_error_once,
}

if __name__ == "__main__":
    SHAPES[sys.argv[1]]()
