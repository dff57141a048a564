#!/usr/bin/env python3
"""Another vendor's extension, which ends at its second INVOKE."""

import json
import os
import sys
import urllib.request
from pathlib import Path

API = f"http://{os.environ['AWS_LAMBDA_RUNTIME_API']}/2020-01-01/extension/"


def main() -> None:
    """Register, and serve one invocation."""
    request = urllib.request.Request(
        API + "register",
        data=b'{"events":["INVOKE","SHUTDOWN"]}',
        headers={"Lambda-Extension-Name": Path(__file__).name},
    )
    with urllib.request.urlopen(request) as answer:
        identifier = answer.headers["Lambda-Extension-Identifier"]
    for served in range(2):
        request = urllib.request.Request(API + "event/next", headers={"Lambda-Extension-Identifier": identifier})
        with urllib.request.urlopen(request) as answer:
            if json.load(answer)["eventType"] == "INVOKE" and served:
                sys.exit(1)


main()
