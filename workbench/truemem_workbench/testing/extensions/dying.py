#!/usr/bin/env python3
"""Another vendor's extension. It dies soon after its second INVOKE, or, with EATS, takes memory until then."""

import json
import os
import sys
import time
import urllib.request
from pathlib import Path

API = f"http://{os.environ['AWS_LAMBDA_RUNTIME_API']}/2020-01-01/extension"


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
    while number == 2 and "EATS" in os.environ:
        kept.append(b"x" * (1 << 20))
        time.sleep(0.005)
    if number == 2:
        time.sleep(0.3)
        os._exit(1)
