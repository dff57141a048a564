#!/usr/bin/env python3
"""Another vendor's extension, which holds 32 MiB."""

import json
import os
import urllib.request
from pathlib import Path

API = f"http://{os.environ['AWS_LAMBDA_RUNTIME_API']}/2020-01-01/extension/"
HELD = b"x" * (32 << 20)


def main() -> None:
    """Register, then wait for events until SHUTDOWN."""
    request = urllib.request.Request(
        API + "register",
        data=b'{"events":["INVOKE","SHUTDOWN"]}',
        headers={"Lambda-Extension-Name": Path(__file__).name},
    )
    with urllib.request.urlopen(request) as answer:
        identifier = answer.headers["Lambda-Extension-Identifier"]
    event: dict[str, str] = {}
    while event.get("eventType") != "SHUTDOWN":
        request = urllib.request.Request(API + "event/next", headers={"Lambda-Extension-Identifier": identifier})
        with urllib.request.urlopen(request) as answer:
            event = json.load(answer)


if __name__ == "__main__":
    main()
