"""The incident, replayed: 40 ONNX models behind `functools.lru_cache`, in a Lambda function.

Event: `{"model": 0..39}`, and `"batch"`: rows to score at once (default 1).
Answer: `{"model", "batch", "output", "cached"}`: `output` is the same for the same model every time, `cached` is
how many sessions are held.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from malloc import set_mmap_threshold
from models import WIDTH, make_missing
from sessions import open_session, session_cache
from settings import MODELS, read_settings

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

BATCH_MAX = 16384
READINGS = 16
"""Past readings of each feature, from which a row is made."""
SLICE = 64
"""Rows handed to a session at once: what it needs for itself stays small, however large the batch."""

logger = Logger(service="onnx-incident")
metrics = Metrics(namespace="OnnxIncident", service="onnx-incident")
settings = read_settings(os.environ)

# Before the first session, but not before everything: what the imports above allocated stays where it is. The
# variable MALLOC_MMAP_THRESHOLD_ acts from the process's first allocation on; glibc reads it once, at start, so
# it must be in the function's configuration. This one can be set from code, and says so when it does nothing.
if settings.mmap_threshold is not None and not set_mmap_threshold(settings.mmap_threshold):
    logger.warning("MMAP_THRESHOLD has no effect: this C library has no mallopt (glibc has)")

make_missing(settings.model_dir)


def _load(model: int) -> Any:
    started = time.perf_counter()
    session = open_session(settings, model)
    metrics.add_metric("ModelLoads", MetricUnit.Count, 1)
    metrics.add_metric("ModelLoadTime", MetricUnit.Milliseconds, (time.perf_counter() - started) * 1000)
    return session


sessions = session_cache(settings, _load)


@logger.inject_lambda_context
@metrics.log_metrics(capture_cold_start_metric=True)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Score a batch with one model. Raises ValueError for an event that names no model of ours."""
    model = _whole(event, "model", None, 0, MODELS - 1)
    batch = _whole(event, "batch", 1, 1, BATCH_MAX)

    session = sessions(model)
    rows = _features(batch)
    total = 0.0
    for start in range(0, batch, SLICE):
        (answer,) = session.run(None, {"input": rows[start : start + SLICE]})
        total += float(answer.mean(axis=1, dtype=np.float64).sum())

    metrics.add_metric("Rows", MetricUnit.Count, batch)
    result = {
        "model": model,
        "batch": batch,
        "output": round(total / batch, 4),
        "cached": sessions.cached(),
    }
    logger.info("scored", extra=result)
    return result


def _features(batch: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Input rows from their past readings, the way that comes to mind first: the whole batch at once, in float64.

    Three arrays of 32 KiB per row at the worst moment, all freed when the handler returns: a large batch is the
    spike of this replay. From 1024 rows each array is above malloc's largest mmap threshold and goes back to the
    system; smaller ones may stay in the heap.
    """
    readings = np.tile(np.sin(np.arange(WIDTH, dtype=np.float64)), (batch, READINGS, 1))
    standard = (readings - readings.mean(axis=2, keepdims=True)) / readings.std(axis=2, keepdims=True)
    features: np.ndarray[Any, np.dtype[np.float32]] = standard.mean(axis=1).astype(np.float32)
    return features


def _whole(event: dict[str, Any], name: str, fallback: int | None, lowest: int, highest: int) -> int:
    value = event.get(name, fallback) if isinstance(event, dict) else None
    if type(value) is not int or not lowest <= value <= highest:
        raise ValueError(
            f'event {event!r}: "{name}" must be a whole number from {lowest} to {highest}, as in {{"model": 3}}'
        )
    return value
