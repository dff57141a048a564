"""What Lambda costs: the one table of its prices, and what an invocation costs by it. Pure.

USD in us-east-1, first tier, without free tiers and discounts, from AWS's price list as it was in October 2025
(aws.amazon.com/lambda/pricing, aws.amazon.com/cloudwatch/pricing). Not verified on a bill.
"""

from __future__ import annotations

from dataclasses import dataclass

DATE = "October 2025"
GB_SECOND = {"x86_64": 0.0000166667, "arm64": 0.0000133334}
"""Price of a GB-second by architecture. A GB is 1,024 MB of the memory size."""
REQUEST = 0.20 / 1e6
LOG_GB = 0.50
"""Ingestion into CloudWatch Logs. (Storage: 0.03 per GB and month more.)"""
INSIGHTS_GB = 0.005
"""What a query of Logs Insights reads."""
METRIC_MONTH = 0.30
"""A metric of EMF, each month, however often it is written; in September 2026, as the next."""
ALARM_MONTH, DASHBOARD_MONTH = 0.10, 3.0
"""An alarm on one metric, and a dashboard."""
OTLP_GB = 0.50
"""Metrics by OTLP. Each data point counts with its metric's name, its labels and its resource's attributes."""
MANAGED_FEE = 0.15
"""On Managed Instances: this part of EC2's on-demand price, beside the instances' own price, and REQUEST. No duration
is billed. EC2's prices are not here."""
MANAGED_PRICES = "aws.amazon.com/lambda/pricing, September 2026"
"""Where that is from."""
MILLION = 1_000_000
MONTH_MS = 730 * 3600 * 1000


def computing(memory_mib: float, billed_ms: float, gb_second: float) -> float:
    """Price of so many billed milliseconds at this memory size. `gb_second`: one of GB_SECOND. A duration is billed in
    whole milliseconds, rounded up; since August 2025 with the init phase before it."""
    return memory_mib / 1024 * billed_ms / 1000 * gb_second


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a function costs, in USD per million invocations but for `per_month`."""

    per_million: float
    """All of what follows."""
    computing: float
    init: float
    """Init phases, as far as the lines say that they were billed."""
    requests: float
    log_lines: float
    """The sidecar's own lines, into CloudWatch Logs."""
    per_month: float | None
    """USD a month with `invocations` a month. None if these are not known."""
    invocations: float | None


def cost(
    *, invocations: int, gb_s: float, init_gb_s: float, line_bytes: float, gb_second: float, a_month: float | None
) -> Cost:
    """The cost of a function of which `invocations` were billed `gb_s`, `init_gb_s` of it for init phases, and have
    written `line_bytes`. `a_month`: invocations, if known."""
    each = MILLION / invocations
    computing, init = each * (gb_s - init_gb_s) * gb_second, each * init_gb_s * gb_second
    requests, log_lines = MILLION * REQUEST, each * line_bytes / 1e9 * LOG_GB
    everything = computing + init + requests + log_lines
    return Cost(
        per_million=everything,
        computing=computing,
        init=init,
        requests=requests,
        log_lines=log_lines,
        per_month=None if a_month is None else everything * a_month / MILLION,
        invocations=a_month,
    )


def dollars(usd: float) -> str:
    """A price as it is printed: cents, and two digits of what is less than a cent."""
    if 0 < abs(usd) < 0.01:
        return f"${usd:.2g}"
    return f"${usd:,.2f}"
