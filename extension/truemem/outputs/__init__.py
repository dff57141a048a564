"""Where records go beside their line (TRUEMEM_OUTPUT): made only where one of these is wanted."""

from __future__ import annotations

from .. import output_settings as settings
from ..config import DOGSTATSD, OTLP
from ..support.log import log
from ..wings import Wing
from .collector import FOREVER_NS, OtlpOutput
from .dogstatsd import AgentSocket, datagram
from .otlp import Trace, parse_trace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ..config import Config
    from ..records.pending_record import PendingRecord
    from ..records.record import InvocationRecord
    from ..support.clock import Clock
    from ..wings import Site

TRACE = "trace"
REPORT_NS = 60_000_000_000
"""Losses are reported at most so often: without an agent each record is one."""
LAST_LOOK_NS = 500_000_000
"""At SHUTDOWN a collector is waited for so long at most."""


class Outputs(Wing):
    """The collector and the agent of one environment."""

    def __init__(self, config: Config, environ: Mapping[bytes, bytes], clock: Clock) -> None:
        self._clock = clock
        self.running_ms: Callable[[], float] = float
        region = environ.get(b"AWS_REGION", b"").decode("utf-8", "replace")
        self._otlp: OtlpOutput | None = None
        self._agent: AgentSocket | None = None
        self._tags: dict[str, str] = {}
        self._begun = self._ending = False
        self._reported_at_ns = clock.monotonic_ns()
        self._agent_reported = -1
        """What the log has reported of the agent; -1: nothing yet."""
        self.lost = 0
        addresses = []
        if OTLP in config.outputs:
            collector, problems = settings.otlp(environ)
            _warn(problems)
            if collector is not None:
                self._otlp = OtlpOutput(collector, config, region, clock)
                addresses.append(f"otlp({collector.address})")
        if DOGSTATSD in config.outputs:
            agent, problems = settings.dogstatsd(environ)
            _warn(problems)
            if agent is not None:
                self._agent = AgentSocket(agent)
                addresses.append(f"dogstatsd({agent.address})")
        self.where = ",".join(addresses) or "none"
        self.sender = self
        memory = f"{config.memory_mib}" if config.memory_mib else ""
        self._tags = {
            "functionname": config.function_name,
            "executedversion": config.function_version,
            "memorysize": memory,
            "region": region,
        }

    def begun(self, record: PendingRecord, members: Mapping[str, Any]) -> None:
        if self._otlp is not None and not self._begun:
            self._otlp.begin()
        self._begun = True
        arn = members.get("invokedFunctionArn")
        parts = arn[:512].split(":") if isinstance(arn, str) else []
        if len(parts) >= 7 and "account_id" not in self._tags and parts[4].isdecimal():
            self._tags["account_id"] = parts[4]
            self._tags["lambda_arn"] = ":".join(parts[:7])
            if self._otlp is not None:
                self._otlp.know_account(parts[4])
        trace = parse_trace(members.get("tracing"))
        if trace is not None:
            record.note(TRACE, trace)

    def members(self, record: PendingRecord) -> Mapping[str, object]:
        trace = record.notes.get(TRACE)
        return {"traceId": trace.trace_id} if isinstance(trace, Trace) else {}

    def finished(self, made: InvocationRecord, record: PendingRecord | None) -> None:
        if "mayRepeat" in made.properties:
            return  # what may have been sent must not count twice
        if self._otlp is not None:
            trace = record.notes.get(TRACE) if record is not None else None
            self._otlp.add(made, trace if isinstance(trace, Trace) else None)
        if self._agent is not None:
            text = datagram(made, self._tags)
            if text:
                self._agent.send(text)
        self._report_losses()

    def interests(self) -> dict[int, int]:
        """What to wait for: events by descriptor. Nothing where the environment ends: `hurry` waits by itself."""
        if self._otlp is None or self._ending:
            return {}
        interest = self._otlp.interest(self.running_ms())
        return dict([interest]) if interest is not None else {}

    def due_ns(self, now_ns: int) -> int:
        """When `step` has something to do, whatever comes: monotonic ns."""
        if self._otlp is None or self._ending:
            return FOREVER_NS
        return self._otlp.due_ns(now_ns, self.running_ms())

    def step(self) -> None:
        """Go on, as far as that goes without waiting."""
        if self._otlp is not None:
            self._otlp.step(self._clock.monotonic_ns(), self.running_ms())

    def hurry(self, limit_ns: float, last: bool = False) -> None:
        """The environment ends: send all, and wait for an answer for so long at most. `last`: nothing comes after."""
        self._ending = True
        if self._otlp is not None:
            self._otlp.hurry(int(max(0, min(limit_ns, LAST_LOOK_NS))), self.running_ms(), last)
        if last and self._agent is not None:
            self._agent.look()
            self._report_agent(self._agent)

    def _report_losses(self) -> None:
        now_ns = self._clock.monotonic_ns()
        first = self._agent is not None and self._agent_reported < 0 and self._agent.lost > 0
        if not first and 0 <= now_ns - self._reported_at_ns < REPORT_NS:
            return
        self._reported_at_ns = now_ns
        self.lost = self._otlp.lost + self._otlp.rejected if self._otlp is not None else 0
        if self._agent is not None:
            self.lost += self._agent.lost
            self._report_agent(self._agent)

    def _report_agent(self, agent: AgentSocket) -> None:
        if agent.lost > max(0, self._agent_reported):
            self._agent_reported = agent.lost
            log("warn", f"dogstatsd: {agent.lost} datagrams dropped so far, {agent.sent} sent: {agent.why}")


def door(site: Site) -> Wing | None:
    """Where TRUEMEM_OUTPUT names a collector or an agent."""
    return Outputs(site.config, site.environ, site.clock) if site.config.exports else None


def _warn(problems: list[str]) -> None:
    for problem in problems:
        log("warn", problem)
