#!/usr/bin/env python3
"""Another vendor's extension, which does nothing but wait and hold 32 MiB. With HOLDS it is so many, with a child of as
many, and it registers as NAME."""

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

API = f"http://{os.environ['AWS_LAMBDA_RUNTIME_API']}/2020-01-01/extension"
HELD = b"x" * (int(os.environ.get("HOLDS", "32")) << 20)
NAME = os.environ.get("NAME", Path(sys.argv[0]).name)


def call(path: str, data: bytes | None = None, **headers: str) -> tuple[dict[str, str], bytes]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with urllib.request.urlopen(urllib.request.Request(f"{API}/{path}", data, named)) as answer:
        return dict(answer.headers), answer.read()


answered, _registered = call("register", b'{"events":["INVOKE","SHUTDOWN"]}', Lambda_Extension_Name=NAME)
if "HOLDS" in os.environ:
    code = f"held = b'x' * {len(HELD)}; print(flush=True); input()"  # it ends with us
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
while True:
    _headers, body = call("event/next", Lambda_Extension_Identifier=answered["Lambda-Extension-Identifier"])
    if json.loads(body)["eventType"] == "SHUTDOWN":
        sys.exit()
