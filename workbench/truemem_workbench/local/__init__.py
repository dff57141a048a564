"""A local Lambda with memory: limit, high-water mark, freeze and late reports.

with LocalLambda(Function.from_handler("app.py:handler"), Settings(memory_mib=512)) as local:
    print(local.invoke({"key": "value"}).payload, local.endpoint)
"""

from truemem_workbench.local.configuration.function import Function
from truemem_workbench.local.configuration.settings import Settings
from truemem_workbench.local.lifecycle.journal import LogLine
from truemem_workbench.local.running.session import Invocation, LocalLambda, Stopped
from truemem_workbench.local.telemetry.events import Event, Report
from truemem_workbench.support.bad_input import BadInput

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
