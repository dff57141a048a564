"""A function whose requests meet: each says that it is here, and waits for others or for a permission."""

import os
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(tempfile.gettempdir())


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    (HERE / f"here-{context.aws_request_id}").touch()
    match event:
        case {"meet": number}:
            wait(lambda: len(list(HERE.glob("here-*"))) >= number)
        case {"until": name}:
            wait((HERE / name).exists)
        case {"raise": text}:
            raise ValueError(text)
    print(f"seen {context.aws_request_id}")
    return {"pid": os.getpid(), "environment": dict(os.environ)}


def wait(condition: Any) -> None:
    end = time.monotonic() + 30
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.002)
