"""A small handler, with some MiB in each invocation."""

import json
from typing import Any


def handler(event: Any, context: object) -> dict[str, Any]:
    """Answer with what the event says."""
    work = bytearray((event["model"] % 5) << 20)
    return {"statusCode": 200, "body": json.dumps({"model": event["model"], "bytes": len(work)})}
