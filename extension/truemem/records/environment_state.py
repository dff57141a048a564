"""What is known of the environment beyond one invocation. It goes on over a reset, and starts anew after a restore."""

from __future__ import annotations

import posix

from ..support import minijson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .drift import Drift
    from .resource_drift import ResourceDrift

SNAP_START = "snap-start"


class EnvironmentState:
    """What goes on from one invocation to the next in one execution environment."""

    def __init__(self, boot: str = "") -> None:
        self.boot = boot
        """/proc/sys/kernel/random/boot_id: what another boot has left in /tmp is another environment's."""
        self.environment_id = posix.urandom(8).hex()
        """The log stream (`initStart.instanceId`), or an id of our own where telemetry does not say."""
        self.from_platform = False
        """The platform has named it since the process was restored, or started."""
        self.restored = False
        """From a snapshot."""
        self.invocations = 0
        self.high_water_mark = 0
        """Highest peak of the function since the environment started, KiB."""
        self.children_kib: int | None = None
        """RSS of the largest child that was ever waited for, as the probe last said; None if it never has."""
        self.mark_mib = 0.0
        """Max Memory Used, as last reported."""
        self.kills: int | None = None
        """The kernel's count of OOM kills, as last read."""
        self._drift: Drift | None = None
        self._resource_drift: ResourceDrift | None = None
        self.resumed = False
        """Another process of this sidecar has been here before: a reset started this one. So says its journal, or
        the platform, if that comes before the first event."""

    @property
    def drift(self) -> Drift:
        """Leak or not. It ends with this process: after a reset the function's processes are new as well."""
        if self._drift is None:
            from .drift import Drift  # not needed before the first line, and an import is a part of each cold start

            self._drift = Drift()
        return self._drift

    @property
    def resource_drift(self) -> ResourceDrift:
        """The same of /tmp, descriptors, threads and processes."""
        if self._resource_drift is None:
            from .resource_drift import ResourceDrift  # as above

            self._resource_drift = ResourceDrift()
        return self._resource_drift

    def reached(self, kib: int) -> None:
        """The function was seen to hold so much."""
        self.high_water_mark = max(self.high_water_mark, kib)

    def identify(self, environment_id: str | None) -> None:
        """The platform names the environment."""
        if environment_id:
            self.environment_id, self.from_platform = environment_id, True

    def begin(self, initialization_type: str) -> None:
        """The first event of this process. If it was restored from a snapshot, what it knows it shares with every other
        copy: an extension does not hear of a restore, but a snapshot is never taken of an environment that serves."""
        if initialization_type == SNAP_START and not self.resumed:
            self.restored = True
            if not self.from_platform:
                self.environment_id = posix.urandom(8).hex()

    def text(self) -> str:
        """As the journal keeps it."""
        return minijson.dumps(
            [self.boot, self.environment_id, self.invocations, self.high_water_mark, self.mark_mib, self.kills]
        )

    def resume_from(self, text: bytes) -> bool:
        """Go on from what an earlier process has left; False where that is not one of this environment."""
        try:
            boot, environment_id, invocations, high_water_mark, mark_mib, kills = minijson.loads(text)
        except (ValueError, TypeError):
            return False
        numbers = (invocations, high_water_mark, mark_mib, kills if kills is not None else 0)
        if boot != self.boot or not isinstance(environment_id, str) or len(environment_id) > 512:
            return False
        if not all(isinstance(number, (int, float)) and 0 <= number < 1e15 for number in numbers):
            return False
        self.environment_id = environment_id
        self.invocations, self.high_water_mark = int(invocations), int(high_water_mark)
        self.mark_mib, self.kills = float(mark_mib), None if kills is None else int(kills)
        self.resumed = True
        return True
