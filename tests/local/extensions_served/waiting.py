#!/usr/bin/env python3
"""An extension that does nothing but register, wait, and end when told to."""

import http.client
import json
import os
import sys

api = http.client.HTTPConnection(os.environ["AWS_LAMBDA_RUNTIME_API"])
name = os.path.basename(sys.argv[0])  # noqa: PTH119
api.request(
    "POST",
    "/2020-01-01/extension/register",
    json.dumps({"events": ["INVOKE", "SHUTDOWN"]}),
    {"Lambda-Extension-Name": name},
)
answer = api.getresponse()
answer.read()
own = {"Lambda-Extension-Identifier": answer.headers["Lambda-Extension-Identifier"]}
event = ""
while event != "SHUTDOWN":
    api.request("GET", "/2020-01-01/extension/event/next", headers=own)
    event = json.loads(api.getresponse().read())["eventType"]
