"""Decides which invocations are held open (`TRUEMEM_HOLD`), and keeps the one hold there is."""

from __future__ import annotations

from .conversation import BEGUN, BESIDE_MS, RESPONDING, WAITING
from .hold import FOREVER, MISSES, Hold, Purse, patience_ns
from .log import log
from .outlook import Outlook
from .sampler import Budget
from .telemetry import REPORT, RUNTIME_DONE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .runtime_watch import RuntimeWatch
    from .telemetry import Event

MS = 1_000_000

BEGUN_NS = (3 * MS, (BESIDE_MS + 1) * MS)
"""Ages at which to look until the runtime is seen to have its event."""

AGAIN_NS = MS // 2
"""Interval of looks once the runtime has sent something."""

LONGEST_NS = 25 * MS
"""Longest interval of looks, whatever they cost: should the invocation end early, and telemetry be lost."""

LOOKS = 4
"""Looks that must be affordable at the beginning of a hold."""


class Holder:
    """One environment's holds."""

    def __init__(self, mode: str, share: float, cpu: Budget, telemetry: bool, watch: RuntimeWatch) -> None:
        """`mode` is `off`, `auto` or `always`; `share` that of the billed time which `auto` may add; `cpu` what its
        looks may use."""
        self.mode = mode if telemetry else "off"
        self.hold: Hold | None = None
        self._watch = watch
        self._cpu = cpu
        self._purse = Purse(share)
        self._outlook = Outlook()
        self._misses = 0
        self._done = ("", 0.0)
        """Request id and duration of the last platform.runtimeDone."""
        self._held: dict[str, float] = {}
        """Request id to what holding it has cost at most, ms, until its report comes."""
        self._overhead_ms = 1e9
        """The least that any invocation lasted after its runtime was done, not being held."""

    def wants(self, now_ns: int) -> bool:
        """Is the invocation that begins to be held?"""
        if self.mode == "auto":
            return self._watch.trust.usable and self._purse.affords() and self._cpu.affords(LOOKS, now_ns)
        return self.mode == "always"

    def wants_looks(self) -> bool:
        """Is the invocation that begins to be looked at: held, or to learn whether looks are right?"""
        return self.hold is not None or (self.mode == "auto" and not self._watch.trust.usable)

    def begin(self, request_id: str, now_ns: int, remaining_ms: float, raced: bool) -> bool:
        """Hold it; `remaining_ms` is what its deadline leaves. False where that would be for nothing: after a race at
        its beginning, an exact end does not make it exact."""
        if raced and self.mode == "auto":
            return False
        auto_for_ns = patience_ns(self._outlook.longest_ms) if self.mode == "auto" else 0
        self.hold = Hold(request_id, now_ns, remaining_ms, auto_for_ns)
        return True

    def hear(self, event: Event) -> None:
        """Telemetry has come."""
        if self.hold is not None and event.request_id == self.hold.request_id:
            self.hold.hear()
        duration = event.metric("durationMs")
        if duration is None or event.request_id is None:
            return
        if event.kind == RUNTIME_DONE:
            self._outlook.add(duration)
            self._done = (event.request_id, duration)
        elif event.kind == REPORT:
            self._purse.earn(event.metric("billedDurationMs") or duration)
            if event.request_id == self._done[0]:
                self._settle(event.request_id, duration - self._done[1])

    def _settle(self, request_id: str, after_ms: float) -> None:
        """The platform says how long the invocation lasted `after_ms` the runtime was done, extensions and its own
        doings together: what was held cannot have cost more than that."""
        held_ms = self._held.pop(request_id, None)
        if held_ms is None:
            self._overhead_ms = min(self._overhead_ms, after_ms)
        else:
            self._held.clear()
            self._purse.refund(max(0.0, held_ms - max(0.0, after_ms - self._overhead_ms)))

    def see(self, state: int, cpu_ns: int, now_ns: int) -> None:
        """The watch has looked, which took `cpu_ns` of CPU time."""
        self._cpu.spend(cpu_ns, now_ns)
        if self.hold is not None:
            self.hold.see(state, self._watch.moved, now_ns)

    def ends_at(self) -> int:
        """When the hold is to be let go."""
        assert self.hold is not None
        return self.hold.ends_at()

    def next_look(self, began_ns: int, now_ns: int) -> int:
        """When to look next at the invocation that began at `began_ns`."""
        if self.mode == "always":
            return FOREVER
        if self._watch.state == BEGUN:
            for moment_ns in BEGUN_NS:
                if now_ns < began_ns + moment_ns:
                    return began_ns + moment_ns
        if self._watch.state in (RESPONDING, WAITING):
            return now_ns + AGAIN_NS  # it cannot last
        wanted = round(self._outlook.interval_ms((now_ns - began_ns) / MS, self._cpu.cost_ns / MS) * MS)
        return now_ns + min(max(wanted, self._cpu.wait_ns(now_ns)), LONGEST_NS)

    def end(self, held_ms: float) -> None:
        """The runtime has come back, `held_ms` ago."""
        self._misses = 0
        self._spend(held_ms)

    def miss(self, held_ms: float, now_ns: int) -> None:
        """The hold is let go without that; after some of these there are no more. `held_ms` is since when it may
        have been for nothing."""
        assert self.hold is not None
        log("info", f"hold: {self.hold.why(now_ns)}; invocation {self.hold.request_id} is let go")
        self._misses += not self.hold.quiet(now_ns)  # what such a hold costs is known, and paid for
        self._spend(held_ms)
        if self._misses >= MISSES:
            self.mode = "off"
            log("warn", f"hold: {MISSES} times in a row; not holding any more")

    def _spend(self, held_ms: float) -> None:
        if self.mode == "auto" and self.hold is not None:
            self._purse.spend(held_ms)
            self._held[self.hold.request_id] = held_ms
        self.hold = None
