"""The incident, replayed: 40 ONNX models behind `functools.lru_cache`, in a Lambda function.

Event: `{"model": 0..39}`; `"batch"`: rows to score at once (default 1), or `"rows"`: the rows themselves; `"tenant"`.
Answer: `{"model", "batch", "output", "cached"}`: `output` is the same for the same model every time, `cached` is
how many sessions are held; for rows also `scores`, one each.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from events import read_event
from malloc import set_mmap_threshold
from sessions import open_session, session_cache
from settings import read_settings
from sources import open_models
from tracing import traced

with suppress(ImportError):  # it is in truemem's layer: what malloc holds, on the line of each invocation
    import truemem_heap  # type: ignore[import-not-found] # noqa: F401

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext
    from network import Floats

Scores: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"

SERVICE = "onnx-incident"
READINGS = 16
"""Past readings of each feature, from which a row is made."""
SLICE = 64
"""Rows handed to a session at once: what it needs for itself stays small, however large the batch."""

logger = Logger(service=SERVICE)
metrics = Metrics(namespace="OnnxIncident", service=SERVICE)
settings = read_settings(os.environ)

# Before the first session, but not before everything: what the imports above allocated stays where it is. The
# variable MALLOC_MMAP_THRESHOLD_ acts from the process's first allocation on; glibc reads it once, at start, so
# it must be in the function's configuration. This one can be set from code, and says so when it does nothing.
if settings.mmap_threshold is not None and not set_mmap_threshold(settings.mmap_threshold):
    logger.warning("MMAP_THRESHOLD has no effect: this C library has no mallopt (glibc has)")

models = open_models(settings)


def _load(model: int) -> Any:
    started = time.perf_counter()
    session = open_session(settings, models, model)
    took = (time.perf_counter() - started) * 1000
    metrics.add_metric("ModelLoads", MetricUnit.Count, 1)
    metrics.add_metric("ModelLoadTime", MetricUnit.Milliseconds, took)
    logger.info("loaded", extra={"load_ms": round(took, 1)})
    return session


sessions = session_cache(settings, _load)


@logger.inject_lambda_context(clear_state=True)
@metrics.log_metrics(capture_cold_start_metric=True)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Score a batch with one model. Raises BadEvent, StoreError, BucketError."""
    request = read_event(event, settings)
    # Whose it is stands on each log line, and in the metrics' document as a property: found by a query, and free.
    # As a dimension, each model and each tenant would be metrics of their own, and paid as such.
    about = {"model": request.model}
    # the service names the tenant itself when the function has tenant isolation
    tenant = request.tenant or getattr(context, "tenant_id", None)
    labels: dict[str, Any] = about if tenant is None else {**about, "tenant": tenant}
    logger.append_keys(**labels)
    for name, value in {**labels, "requestId": context.aws_request_id}.items():
        metrics.add_metadata(name, value)

    session = sessions(request.model)
    rows = _features(request.batch) if request.rows is None else np.array(request.rows, dtype=np.float32)
    scores = _score(session, rows)

    metrics.add_metric("Rows", MetricUnit.Count, request.batch)
    result = {
        **labels,
        "batch": request.batch,
        "output": round(float(scores.mean()), 4),
        "cached": sessions.cached(),
    }
    logger.info("scored", extra=result)
    return result if request.rows is None else {**result, "scores": scores.tolist()}


def _score(session: Any, rows: Floats) -> Scores:
    """One score for each row: the mean of what the network makes of it."""
    scores = np.empty(len(rows), dtype=np.float64)
    for start in range(0, len(rows), SLICE):
        (answer,) = session.run(None, {"input": rows[start : start + SLICE]})
        scores[start : start + SLICE] = answer.mean(axis=1, dtype=np.float64)
    return scores


def _features(batch: int) -> Floats:
    """Input rows from their past readings, the way that comes to mind first: the whole batch at once, in float64.

    Three arrays of 32 KiB per row at the worst moment (at a width of 256), all freed when the handler returns: a
    large batch is the spike of this replay. From 1024 rows each array is above malloc's largest mmap threshold and
    goes back to the system; smaller ones may stay in the heap.
    """
    readings = np.tile(np.sin(np.arange(settings.shape.width, dtype=np.float64)), (batch, READINGS, 1))
    standard = (readings - readings.mean(axis=2, keepdims=True)) / readings.std(axis=2, keepdims=True)
    features: Floats = standard.mean(axis=1).astype(np.float32)
    return features


handler = traced(handler, service=SERVICE, enabled=settings.tracer_enabled)
