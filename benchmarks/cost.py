"""Computes what the sidecar costs a user: prices times measured figures. Pure.

Prices are those of `truemem_workbench.analysis.prices`, Lambda's for x86_64.
"""

from __future__ import annotations

from dataclasses import dataclass

from truemem.config import VCPU_MIB
from truemem_workbench.analysis.prices import (
    ALARM_MONTH,
    DASHBOARD_MONTH,
    GB_SECOND,
    LOG_GB,
    METRIC_MONTH,
    MILLION,
    MONTH_MS,
    OTLP_GB,
    computing,
)
from truemem_workbench.dashboard.template import KINDS, MOST

METRICS = 4
"""Of a function, by EMF. MemoryGrowing and OutOfMemory are two more, while they are written."""

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
        logs=logs(MILLION, line_bytes),
        duration_at_most=delay_ms * a_million_ms,
        delay_at_most_ms=delay_ms,
        cold_starts=register_ms * a_million_ms,
        memory_percent=100 * pss_mib / memory_mib,
    )


def logs(invocations: float, line_bytes: float) -> float:
    """USD of the lines of so many invocations."""
    return invocations * line_bytes / 1e9 * LOG_GB


def alarms_and_dashboards(functions: int) -> float:
    """USD a month of what `truemem dashboard` makes for them."""
    return functions * len(KINDS) * ALARM_MONTH + -(-functions // MOST) * DASHBOARD_MONTH


def metrics_by_emf(functions: int) -> float:
    """USD a month, whatever they write."""
    return functions * METRICS * METRIC_MONTH


def metrics_by_otlp(functions: int, invocations: int, environments: int, request_bytes: float, period_ms: int) -> float:
    """USD a month. Each function has so many `invocations` a month, in so many `environments`, of which each sends one
    request of `request_bytes` a period."""
    requests = min(invocations, environments * MONTH_MS / period_ms)
    return functions * requests * request_bytes / 1e9 * OTLP_GB
