"""A local Lambda with memory: limit, high-water mark, freeze and late reports.

with LocalLambda(Function.from_handler("app.py:handler"), Settings(memory_mib=512)) as local:
    print(local.invoke({"key": "value"}).payload, local.endpoint)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ..support.bad_input import BadInput, need_linux
from .configuration.function import Function
from .configuration.settings import Settings
from .errors import Throttled

if TYPE_CHECKING:
    from .lifecycle.events import Event, Report
    from .lifecycle.journal import LogLine
    from .scaling import Answer, EnvironmentChange, Scaling
    from .session import Invocation, LocalLambda, Stopped

__all__ = [
    "Answer",
    "BadInput",
    "EnvironmentChange",
    "Event",
    "Function",
    "Invocation",
    "LocalLambda",
    "LogLine",
    "Report",
    "Scaling",
    "Settings",
    "Stopped",
    "Throttled",
]

_LATE = {
    "Answer": ".scaling",
    "EnvironmentChange": ".scaling",
    "Event": ".lifecycle.events",
    "Invocation": ".session",
    "LocalLambda": ".session",
    "LogLine": ".lifecycle.journal",
    "Report": ".lifecycle.events",
    "Scaling": ".scaling",
    "Stopped": ".session",
}
"""Modules that need aiohttp: they are imported when a name of theirs is used."""


def __getattr__(name: str) -> object:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "LocalLambda":
        need_linux("the local Lambda")
    value: object = getattr(import_module(_LATE[name], __name__), name)
    globals()[name] = value
    return value
