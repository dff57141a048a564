#!/usr/bin/env python3
"""Another vendor's extension, which keeps 500 KiB of every invocation, or KEEPS_KIB.

As in DataDog/datadog-lambda-extension#1049.
"""

import json
import os
import sys
import urllib.request
from pathlib import Path

API = f"http://{os.environ['AWS_LAMBDA_RUNTIME_API']}/2020-01-01/extension"
KEPT = int(os.environ.get("KEEPS_KIB", "500")) << 10


def call(path: str, data: bytes | None = None, **headers: str) -> tuple[dict[str, str], bytes]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with urllib.request.urlopen(urllib.request.Request(f"{API}/{path}", data, named)) as answer:
        return dict(answer.headers), answer.read()


answered, _registered = call(
    "register", b'{"events":["INVOKE","SHUTDOWN"]}', Lambda_Extension_Name=Path(sys.argv[0]).name
)
kept = []
while True:
    _, body = call("event/next", Lambda_Extension_Identifier=answered["Lambda-Extension-Identifier"])
    if json.loads(body)["eventType"] == "SHUTDOWN":
        sys.exit()
    kept.append(b"x" * KEPT)
