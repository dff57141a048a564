"""Computes what the sidecar costs a user: prices times measured figures. Pure.

Lambda's prices are those of x86_64 in `truemem_workbench.analysis.prices`; that of a metric is CloudWatch's, in 2026.
"""

from __future__ import annotations

from dataclasses import dataclass

from truemem.config import VCPU_MIB
from truemem_workbench.analysis.prices import GB_SECOND, LOG_GB, MILLION, computing

METRIC_MONTH = 0.30
"""Each of the four metrics of a function, however often it is written. MemoryGrowing and OutOfMemory are two more,
while they are written."""

SIZES_MIB = (128, 1024, 10_240)


@dataclass(frozen=True)
class Cost:
    """One memory size, one million invocations, USD."""

    memory_mib: int
    logs: float
    duration_at_most: float
    """If all of the sidecar's CPU time were taken from a function that computes all the time."""
    delay_at_most_ms: float
    """The same for one invocation."""
    cold_starts: float
    """One million cold starts, each longer by exec to register: Lambda starts the runtime after that."""
    memory_percent: float
    """What it takes of the environment's memory."""


def cost(memory_mib: int, line_bytes: float, cpu_ms: float, register_ms: float, pss_mib: float) -> Cost:
    """See Cost. `cpu_ms` is of one invocation, `register_ms` from exec to the register request."""
    a_million_ms = MILLION * computing(memory_mib, 1, GB_SECOND["x86_64"])
    share = min(1.0, memory_mib / VCPU_MIB)
    delay_ms = cpu_ms / share if share < 1 else 0.0  # with a CPU to spare it runs beside the function
    return Cost(
        memory_mib=memory_mib,
        logs=line_bytes * MILLION / 1e9 * LOG_GB,
        duration_at_most=delay_ms * a_million_ms,
        delay_at_most_ms=delay_ms,
        cold_starts=register_ms * a_million_ms,
        memory_percent=100 * pss_mib / memory_mib,
    )
