#!/usr/bin/env python3
"""Another vendor's extension, which keeps 500 KiB of every invocation, or KEEPS_KIB, as in
DataDog/datadog-lambda-extension#1049. With DIES it dies soon after its second INVOKE, with EATS it takes memory until
it is killed then.
"""

import json
import os
import sys
import time
import urllib.request
from pathlib import Path

API = f"http://{os.environ['AWS_LAMBDA_RUNTIME_API']}/2020-01-01/extension"
KEPT = int(os.environ.get("KEEPS_KIB", "500")) << 10
DIES, EATS = "DIES" in os.environ, "EATS" in os.environ


def call(path: str, data: bytes | None = None, **headers: str) -> tuple[dict[str, str], bytes]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with urllib.request.urlopen(urllib.request.Request(f"{API}/{path}", data, named)) as answer:
        return dict(answer.headers), answer.read()


answered, _registered = call(
    "register", b'{"events":["INVOKE","SHUTDOWN"]}', Lambda_Extension_Name=Path(sys.argv[0]).name
)
kept = []
for number in range(1, 1 << 30):
    _, body = call("event/next", Lambda_Extension_Identifier=answered["Lambda-Extension-Identifier"])
    if json.loads(body)["eventType"] == "SHUTDOWN":
        sys.exit()
    if not (DIES or EATS):
        kept.append(b"x" * KEPT)
    elif number == 2:
        while EATS:
            kept.append(b"x" * (1 << 20))
            time.sleep(0.005)
        time.sleep(0.3)
        os._exit(1)
