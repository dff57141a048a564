"""Where records go beside their line (TRUEMEM_OUTPUT): made only where one of these is wanted."""

from __future__ import annotations

from .. import output_settings as settings
from ..config import DOGSTATSD, OTLP, PPROF
from ..pprof import NO_LINE, encoded
from ..support.files import path_in
from ..support.log import log
from ..wings import Wing
from .dogstatsd import AgentSocket, datagram
from .otlp_document import Trace, parse_trace
from .otlp_sender import FOREVER_NS, OtlpOutput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ..config import Config
    from ..pprof import Sample
    from ..records.pending_record import PendingRecord
    from ..records.record import InvocationRecord
    from ..support.clock import Clock
    from ..wings import Site

TRACE = "trace"
COUNTED_NS = 60_000_000_000
"""Shortest time between two lines of the log about lost records: without an agent each record is lost."""
LAST_LOOK_NS = 500_000_000
"""Longest wait for a collector at SHUTDOWN."""


class RecordOutputs(Wing):
    """The collector and the agent of one environment."""

    def __init__(self, config: Config, environ: Mapping[bytes, bytes], clock: Clock, managed: bool = False) -> None:
        """`managed`: on Managed Instances an environment that fails is not reset, but ended."""
        self._clock = clock
        self._begun = False
        self.running_ms: Callable[[], float] = float
        region = environ.get(b"AWS_REGION", b"").decode("utf-8", "replace")
        self._otlp: OtlpOutput | None = None
        self._relay: OtlpOutput | None = None
        self._agent: AgentSocket | None = None
        self._ending = False
        self._counted_at_ns = clock.monotonic_ns()
        self.lost = 0
        addresses: list[str] = []
        problems: list[str] = []
        if OTLP in config.outputs:
            collector, problems = settings.otlp(environ)
            if collector is not None:
                path = path_in(environ, "otlp") if config.journal and not managed else ""
                self._otlp = OtlpOutput(collector, config, region, clock, path)
                addresses.append(f"otlp({collector.address})")
        if PPROF in config.outputs:
            relay, of_relay = settings.pprof(environ)
            problems += of_relay
            if relay is not None:
                self._relay = OtlpOutput(relay, config, region, clock, name=PPROF)
                addresses.append(f"pprof({relay.address})")
                if not config.lines_share or not config.prints:
                    problems.append("pprof has nothing to send: it needs TRUEMEM_LINES, and emf or json beside it")
        if DOGSTATSD in config.outputs:
            agent, of_agent = settings.dogstatsd(environ)
            problems += of_agent
            if agent is not None:
                self._agent = AgentSocket(agent)
                addresses.append(f"dogstatsd({agent.address})")
        self._senders = [each for each in (self._otlp, self._relay) if each is not None]
        for problem in problems:
            log("warn", problem)
        self.where = ",".join(addresses) or "none"
        self.sender = self
        self._tags = {
            "functionname": config.function_name,
            "executedversion": config.function_version,
            "memorysize": f"{config.memory_mib or ''}",
            "region": region,
        }

    def begun(self, record: PendingRecord, members: Mapping[str, Any]) -> None:
        if not self._begun:
            self._begun = True
            for each in self._senders:
                each.begin()
        arn = members.get("invokedFunctionArn")
        parts = arn[:512].split(":") if isinstance(arn, str) else []
        if len(parts) >= 7 and "account_id" not in self._tags and parts[4].isdecimal():
            self._tags["account_id"] = parts[4]
            for each in self._senders:
                each.know_account(parts[4])
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
        if self._relay is not None and record is not None and made.properties.get("growthLines"):
            function = f"{self._tags['functionname']}:{self._tags['executedversion']}"
            self._relay.post(_profile(made, function))
        if self._agent is not None:
            text = datagram(made, self._tags)
            if text:
                self._agent.send(text)
        self._count_losses()

    def interests(self) -> dict[int, int]:
        """The descriptors to wait for, with poll's events. None while the environment ends: `hurry` waits by itself."""
        found = [] if self._ending else [each.interest(self.running_ms()) for each in self._senders]
        return dict(interest for interest in found if interest is not None)

    def due_ns(self, now_ns: int) -> int:
        return min([each.due_ns(now_ns, self.running_ms()) for each in self._senders], default=FOREVER_NS)

    def step(self) -> None:
        for each in self._senders:
            each.step(self._clock.monotonic_ns(), self.running_ms())

    def hurry(self, limit_ns: float, last: bool = False, reset: bool = False) -> None:
        self._ending = True
        end_ns = self._clock.monotonic_ns() + min(limit_ns, LAST_LOOK_NS)
        for each in self._senders:
            each.hurry(end_ns - self._clock.monotonic_ns(), self.running_ms(), last, reset)
        if last and self._agent is not None:
            self._agent.end()

    def _count_losses(self) -> None:
        lost = sum([each.lost + each.rejected for each in self._senders])
        lost += self._agent.lost if self._agent is not None else 0
        now_ns = self._clock.monotonic_ns()
        if (lost and not self.lost) or not 0 <= now_ns - self._counted_at_ns < COUNTED_NS:
            self._counted_at_ns, self.lost = now_ns, lost


def _profile(made: InvocationRecord, function: str) -> bytes:
    """What the function has said of its lines. A class of Java's has neither file nor stack."""
    lines, rest_kib = made.properties["growthLines"], made.properties["growthProfile"].get("restKiB", 0)
    samples: list[Sample] = [((NO_LINE,), rest_kib, function)]
    for line in lines:
        place = line.get("class") or f"{line['file']}:{line['line']} {line['function']}".rstrip()
        samples.append((line.get("stack") or (place,), line["perInvocationKiB"], function))
    return encoded(samples, (), made.time_ms * 1_000_000)


def door(site: Site) -> Wing | None:
    """The wing, if TRUEMEM_OUTPUT names a collector or an agent."""
    return RecordOutputs(site.config, site.environ, site.clock, site.managed) if site.config.exports else None
