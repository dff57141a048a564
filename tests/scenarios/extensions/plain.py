#!/usr/bin/env python3
"""An extension of HOLDS MiB, with a child of as many, which does nothing but wait. It registers as NAME."""

import json
import os
import subprocess
import sys
import urllib.request

API = f"http://{os.environ['AWS_LAMBDA_RUNTIME_API']}/2020-01-01/extension"
HELD = b"x" * (int(os.environ["HOLDS"]) << 20)


def call(path: str, data: bytes | None = None, **headers: str) -> tuple[dict[str, str], bytes]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with urllib.request.urlopen(urllib.request.Request(f"{API}/{path}", data, named)) as answer:
        return dict(answer.headers), answer.read()


answered, _registered = call("register", b'{"events":["INVOKE","SHUTDOWN"]}', Lambda_Extension_Name=os.environ["NAME"])
child = subprocess.Popen(
    [sys.executable, "-c", f"held = b'x' * {len(HELD)}; print(flush=True); input()"],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
)
assert child.stdout is not None
child.stdout.readline()
while True:
    _headers, body = call("event/next", Lambda_Extension_Identifier=answered["Lambda-Extension-Identifier"])
    if json.loads(body)["eventType"] == "SHUTDOWN":
        child.kill()
        sys.exit()
