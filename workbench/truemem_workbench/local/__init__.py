"""A local Lambda with memory: limit, high-water mark, freeze and late reports.

with LocalLambda(Function.from_handler("app.py:handler"), Settings(memory_mib=512)) as local:
    print(local.invoke({"key": "value"}).payload, local.endpoint)
"""

from .errors import BadInput
from .events import Event, Report
from .function import Function
from .journal import LogLine
from .session import Invocation, LocalLambda, Stopped
from .settings import Settings

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
