"""The smallest handler, for the exec wrapper; and the lines of a function that a log filter may keep or drop."""

import json
import os
import platform
import sys
import time
from typing import Any


def handler(event: dict[str, Any], context: object) -> dict[str, str]:
    if event.get("do") == "lines":
        who = f"truemem-probe {os.environ['AWS_LAMBDA_FUNCTION_NAME']} function"
        sys.stdout.write(f"{who} plain\n")
        for level in ("INFO", "ERROR"):
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
            line = {"timestamp": stamp, "level": level, "message": f"{who} {level.lower()}"}
            sys.stdout.write(json.dumps(line) + "\n")
    return {"version": platform.python_version()}
