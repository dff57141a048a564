"""A record as one line of CloudWatch embedded metric format (EMF).

Limits as in "Specification: embedded metric format" of the CloudWatch user guide.
"""

from __future__ import annotations

import time

from ..config import EMF
from ..line_schema import CLOUDWATCH, METRICS, SCHEMA
from ..support.minijson import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..config import Config
    from .record import InvocationRecord

VALUES = 100
"""Of one metric in one line, at most."""

NOTHING: Mapping[str, object] = {}


def line(record: InvocationRecord, config: Config, columns: Mapping[str, object] = NOTHING) -> str:
    """The EMF document for one invocation, without a newline. `columns`: metrics with several values each, and what
    belongs to them; last, as Logs Insights finds the first 200 members of a line ("Supported logs and discovered
    fields").

    What the user fixed (dimensions, properties) never replaces what we measured. `FunctionName` alone is a set in any
    case: dashboards, alarms and `truemem metrics` look for it, and CloudWatch does not aggregate over dimensions.
    """
    named = [*record.metrics, *(name for name in columns if name in METRICS)]
    sets = [["FunctionName"], ["FunctionName", *config.dimensions]] if config.dimensions else [["FunctionName"]]
    metadata: dict[str, object] = {
        "_aws": {
            "Timestamp": record.time_ms,
            "CloudWatchMetrics": [
                {
                    "Namespace": config.namespace,
                    "Dimensions": sets,
                    "Metrics": [{"Name": name, "Unit": CLOUDWATCH[METRICS[name]]} for name in named],
                }
            ],
        }
    }
    made: dict[str, object] = {
        # What may have been written before must not make metrics again.
        **({} if "mayRepeat" in record.properties or EMF not in config.outputs else metadata),
        **config.properties,
        **config.dimensions,
        "FunctionName": config.function_name,
        **record.metrics,
        **record.properties,
        "level": config.level,
        "schema": SCHEMA,
    }
    made.update(columns)
    # Lambda takes a line without a timestamp for INFO, whatever its level says; and the time is also in `_aws`.
    if config.level != "INFO" or EMF not in config.outputs:
        made["timestamp"] = rfc3339(record.time_ms)
    return dumps(made)


def rfc3339(time_ms: int) -> str:
    """Epoch milliseconds as `2026-01-31T23:59:59.123Z`."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time_ms // 1000)) + f".{time_ms % 1000:03d}Z"
