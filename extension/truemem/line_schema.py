"""The printed line: its members, in their order, and their units. The one home of the line."""

from __future__ import annotations

SCHEMA = 1
"""Version of this table: the member `schema`."""

METRICS = ("PeakRSS", "CurrentRSS", "MaxMemoryUsed", "MemoryDrift", "OutOfMemory")

MEMBERS = (
    "_aws",
    "FunctionName",
    *METRICS,
    "requestId",
    "environmentId",
    "invocation",
    "coldStart",
    "suppressedInit",
    "initializationType",
    "functionVersion",
    "tenantId",
    "status",
    "errorType",
    "durationMs",
    "baselineRSS",
    "peakLower",
    "peakUpper",
    "method",
    "closedBy",
    "mode",
    "raced",
    "sharedBy",
    "requestBytes",
    "responseBytes",
    "handlerError",
    "resetDelayUs",
    "initPeakRSS",
    "highWaterMark",
    "memoryLimit",
    "rss",
    "holders",
    "environment",
    "processes",
    "threads",
    "heap",
    "drift",
    "outOfMemory",
    "environmentKills",
    "ending",
    "lastSamples",
    "recovered",
    "mayRepeat",
    "reportMissing",
    "dropped",
    "aggregate",
    "level",
    "timestamp",
    "schema",
)
"""Every member that a line can have: what a user's own dimensions and properties may not be called."""

UNITS = {"MemoryDrift": "Kilobytes", "OutOfMemory": "Count"}
"""CloudWatch's units; of all other metrics `Megabytes`, which are MiB, as in REPORT."""
