"""A record as one line of CloudWatch embedded metric format (EMF).

Limits as in "Specification: embedded metric format" of the CloudWatch user guide.
"""

from __future__ import annotations

import time

from .minijson import dumps
from .record import SCHEMA, InvocationRecord, metrics, properties

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .config import Config

UNIT = "Megabytes"


def line(record: InvocationRecord, config: Config) -> str:
    """The EMF document for one invocation, without a newline.

    What the user fixed (dimensions, properties) never replaces what we measured.
    """
    values = metrics(record)
    document: dict[str, object] = {
        "_aws": {
            "Timestamp": record.time_ms,
            "CloudWatchMetrics": [
                {
                    "Namespace": config.namespace,
                    "Dimensions": [["FunctionName", *config.dimensions]],
                    "Metrics": [{"Name": name, "Unit": UNIT} for name in values],
                }
            ],
        },
        **config.properties,
        **config.dimensions,
        "FunctionName": config.function_name,
        **values,
        **properties(record, config.memory_mib, config.function_version),
        "level": config.level,
        "schema": SCHEMA,
    }
    if config.level != "INFO":  # Lambda takes a line without a timestamp for INFO, whatever its level says
        document["timestamp"] = rfc3339(record.time_ms)
    return dumps(document)


def rfc3339(time_ms: int) -> str:
    """Epoch milliseconds as `2026-01-31T23:59:59.123Z`."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time_ms // 1000)) + f".{time_ms % 1000:03d}Z"
