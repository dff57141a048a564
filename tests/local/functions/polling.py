"""A handler that says which runtime it stands for, and how AWS's client has asked for its event."""

import os
import sys
import threading
from typing import Any

from awslambdaric import lambda_runtime_client

client = lambda_runtime_client.runtime_client
ask = client.next
asking: list[threading.Thread] = []


def asked() -> Any:
    asking.append(threading.current_thread())
    return ask()


client.next = asked


def handler(event: object, context: object) -> dict[str, object]:
    return {
        "runtime": os.environ["AWS_EXECUTION_ENV"],
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "byThread": asking[-1] is not threading.main_thread(),
        "threadsNow": threading.active_count(),
    }
