"""Writes debug lines that are buffered, and never flushed because nothing fails. Each invocation has a trace id."""

import os
import uuid

from aws_lambda_powertools import Logger
from aws_lambda_powertools.logging.buffer import LoggerBufferConfig

logger = Logger(service="orders", level="DEBUG", buffer_config=LoggerBufferConfig(max_bytes=20480))


def handler(event: object, context: object) -> str:
    os.environ["_X_AMZN_TRACE_ID"] = f"Root=1-{uuid.uuid4().hex};Parent=1;Sampled=0"
    for number in range(10):
        logger.debug("order received", extra={"number": number, "lines": "x" * 500})
    return "done"
