#!/usr/bin/env python3
"""An extension that only registers and waits. A scenario kills it."""

import http.client
import json
import os

api = http.client.HTTPConnection(os.environ["AWS_LAMBDA_RUNTIME_API"])
events = json.dumps({"events": ["INVOKE", "SHUTDOWN"]})
api.request("POST", "/2020-01-01/extension/register", events, {"Lambda-Extension-Name": "bystander"})
answer = api.getresponse()
answer.read()
own = {"Lambda-Extension-Identifier": answer.headers["Lambda-Extension-Identifier"]}
event = ""
while event != "SHUTDOWN":
    api.request("GET", "/2020-01-01/extension/event/next", headers=own)
    event = json.loads(api.getresponse().read())["eventType"]
