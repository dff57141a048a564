"""Where records go beside their line (TRUEMEM_OUTPUT): made only where one of these is wanted."""

from __future__ import annotations

from ..config import DOGSTATSD, OTLP
from ..platform import output_settings
from ..platform.agent_socket import AgentSocket
from ..records import trace_context
from ..records.dogstatsd import datagram
from ..support.clock import RunningClock
from ..support.log import log
from .otlp_output import FOREVER_NS, OtlpOutput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..config import Config
    from ..records.record import InvocationRecord
    from ..records.trace_context import Trace
    from ..support.clock import Clock

TELL_NS = 60_000_000_000
"""Lines tell of losses at most so often: without an agent each record is one."""
LAST_LOOK_NS = 500_000_000
"""At SHUTDOWN a collector is waited for so long at most."""


class Outputs:
    """The collector and the agent of one environment."""

    def __init__(self, config: Config, environ: Mapping[bytes, bytes], clock: Clock) -> None:
        self._clock = clock
        self.running_clock: RunningClock | None = None
        """Of the loop; None before it is made."""
        region = environ.get(b"AWS_REGION", b"").decode("utf-8", "replace")
        self._otlp: OtlpOutput | None = None
        self._agent: AgentSocket | None = None
        self._tags: dict[str, str] = {}
        self._begun = self._ending = False
        self._told_at_ns = clock.monotonic_ns()
        self._agent_lost = -1
        """What the log has told of the agent; -1: nothing yet."""
        self.lost = 0
        """What lines may tell of."""
        addresses = []
        if OTLP in config.outputs:
            collector, problems = output_settings.otlp(environ)
            _warn(problems)
            if collector is not None:
                self._otlp = OtlpOutput(collector, config, region, clock)
                addresses.append(f"otlp({collector.address})")
        if DOGSTATSD in config.outputs:
            agent, problems = output_settings.dogstatsd(environ)
            _warn(problems)
            if agent is not None:
                self._agent = AgentSocket(agent)
                addresses.append(f"dogstatsd({agent.address})")
        self.told = ",".join(addresses) or "none"
        """For the log: where it sends."""
        memory = f"{config.memory_mib}" if config.memory_mib else ""
        self._tags = {
            "functionname": config.function_name,
            "executedversion": config.function_version,
            "memorysize": memory,
            "region": region,
        }

    def invoked(self, members: Mapping[str, object]) -> Trace | None:
        """An INVOKE has come: the trace of its invocation."""
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
        return trace_context.parse(members.get("tracing"))

    def add(self, record: InvocationRecord, trace: Trace | None = None) -> None:
        """One that is finished."""
        if "mayRepeat" in record.properties:
            return  # what may have been sent must not count twice
        if self._otlp is not None:
            self._otlp.add(record, trace)
        if self._agent is not None:
            text = datagram(record, self._tags)
            if text:
                self._agent.send(text)
        self._tell_losses()

    def interests(self) -> dict[int, int]:
        """What to wait for: events by descriptor. Nothing where the environment ends: `hurry` waits by itself."""
        if self._otlp is None or self._ending:
            return {}
        interest = self._otlp.interest(self._now_ms())
        return dict([interest]) if interest is not None else {}

    def due_ns(self, now_ns: int) -> int:
        """When `step` has something to do, whatever comes: monotonic ns."""
        if self._otlp is None or self._ending:
            return FOREVER_NS
        return self._otlp.due_ns(now_ns, self._now_ms())

    def step(self) -> None:
        """Go on, as far as that goes without waiting."""
        if self._otlp is not None:
            self._otlp.step(self._clock.monotonic_ns(), self._now_ms())

    def hurry(self, limit_ns: float, last: bool = False) -> None:
        """The environment ends: send all, and wait for an answer for so long at most. `last`: nothing comes after."""
        self._ending = True
        if self._otlp is not None:
            self._otlp.hurry(int(max(0, min(limit_ns, LAST_LOOK_NS))), self._now_ms(), last)
        if last and self._agent is not None:
            self._agent.look()
            self._tell_of_agent(self._agent)

    def _now_ms(self) -> float:
        return self.running_clock.running_ms if self.running_clock is not None else 0.0

    def _tell_losses(self) -> None:
        now_ns = self._clock.monotonic_ns()
        first = self._agent is not None and self._agent_lost < 0 and self._agent.lost > 0
        if not first and 0 <= now_ns - self._told_at_ns < TELL_NS:
            return
        self._told_at_ns = now_ns
        self.lost = self._otlp.lost + self._otlp.rejected if self._otlp is not None else 0
        if self._agent is not None:
            self.lost += self._agent.lost
            self._tell_of_agent(self._agent)

    def _tell_of_agent(self, agent: AgentSocket) -> None:
        if agent.lost > max(0, self._agent_lost):
            self._agent_lost = agent.lost
            log("warn", f"dogstatsd: {agent.lost} datagrams dropped so far, {agent.sent} sent: {agent.why}")


def _warn(problems: list[str]) -> None:
    for problem in problems:
        log("warn", problem)
