"""A local Lambda with memory: limit, high-water mark, freeze and late reports.

with LocalLambda(Function.from_handler("app.py:handler"), Settings(memory_mib=512)) as local:
    print(local.invoke({"key": "value"}).payload, local.endpoint)
"""

from ..support.bad_input import BadInput
from .configuration.function import Function
from .configuration.settings import Settings
from .lifecycle.journal import LogLine
from .running.session import Invocation, LocalLambda, Stopped
from .telemetry.events import Event, Report

__all__ = [
    "BadInput",
    "Event",
    "Function",
    "Invocation",
    "LocalLambda",
    "LogLine",
    "Report",
    "Settings",
    "Stopped",
]
