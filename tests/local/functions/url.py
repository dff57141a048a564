"""Answers requests of a Function URL by their path."""

import base64
import gzip
import time
from typing import Any


def handler(event: dict[str, Any], context: object) -> object:
    match event["rawPath"]:
        case "/fail":
            raise ValueError("boom")
        case "/sleep":
            time.sleep(60)
        case "/status":
            return {"statusCode": int(event["queryStringParameters"]["code"]), "body": "as asked"}
        case "/cookies":
            return {"statusCode": 200, "cookies": ["a=1", "b=2; Path=/"], "body": ""}
        case "/binary":
            return {"statusCode": 200, "body": base64.b64encode(bytes(range(256))).decode(), "isBase64Encoded": True}
        case "/large":
            return "x" * (6 * 1024 * 1024 + 200)
        case "/bad":
            return {"statusCode": 200, "headers": {"a": "b\nc: d"}}
        case "/gzip":
            return gzip.decompress(base64.b64decode(event["body"])).decode()
        case "/string":
            return "hello"
    return event
