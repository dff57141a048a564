#!/usr/bin/env python3
"""An extension that keeps each invocation open for a while after the runtime is done, as those do that wait for
telemetry."""

from __future__ import annotations

import http.client
import os
import time
from pathlib import Path

LINGER_S = 0.15

api = http.client.HTTPConnection(os.environ["AWS_LAMBDA_RUNTIME_API"])
headers = {"Lambda-Extension-Name": Path(__file__).name}
api.request("POST", "/2020-01-01/extension/register", '{"events":["INVOKE","SHUTDOWN"]}', headers)
registered = api.getresponse()
registered.read()
identifier = registered.headers["Lambda-Extension-Identifier"]
while True:
    api.request("GET", "/2020-01-01/extension/event/next", headers={"Lambda-Extension-Identifier": identifier})
    if b"SHUTDOWN" in api.getresponse().read():
        break
    time.sleep(LINGER_S)
